/** Version of this package. A test holds it to that of `package.json`. */
export const VERSION = '0.1.0';
