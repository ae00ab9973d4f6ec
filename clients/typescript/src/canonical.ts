/**
 * One spelling per JSON value: RFC 8785, but integers keep all their digits and a number beyond a double stays as written.
 * Nothing here trusts its input: depth and size are bounded, and cycles end at the bound.
 */

/** Containers inside one another that a value may have. The same bound as loopwarden's decoder. */
export const DEPTH_MAX = 64;
/** Characters that a value may be written in. Larger than any record that loopwarden takes. */
export const CHARS_MAX = 1024 * 1024;

/** A number that a double would change, as it was written. */
export class Digits {
  constructor(readonly source: string) {}
}

/** Why a value has no canonical form. */
export class NotJson extends Error {
  override readonly name = 'NotJson';
}

/**
 * Canonical text of a value, read as `JSON.stringify` reads it: `toJSON` is called, what is no JSON is left out. A big integer
 * keeps its digits. An absent value has no text.
 *
 * @throws NotJson if the value is too deep or too large.
 */
export function canonical(value: unknown, depthMax = DEPTH_MAX, charsMax = CHARS_MAX): string | undefined {
  let left = charsMax;
  const spend = (text: string): string => {
    left -= text.length;
    if (left < 0) throw new NotJson(`more than ${charsMax} characters`);
    return text;
  };
  const write = (given: unknown, key: string, depth: number): string | undefined => {
    const value = plain(given, key);
    switch (typeof value) {
      case 'string':
        // The bound is looked at before the text is copied.
        if (value.length > left) throw new NotJson(`more than ${charsMax} characters`);
        return spend(JSON.stringify(value.toWellFormed()));
      case 'number':
        return spend(Number.isFinite(value) ? String(value) : 'null');
      case 'bigint':
      case 'boolean':
        return spend(String(value));
      case 'object':
        break;
      default:
        return undefined;
    }
    if (value === null) return spend('null');
    if (value instanceof Digits) return spend(value.source);
    if (depth <= 0) throw new NotJson(`deeper than ${depthMax}`);
    spend('[]');
    if (Array.isArray(value)) {
      const parts: string[] = [];
      for (let at = 0; at < value.length; at += 1) parts.push(write(value[at], String(at), depth - 1) ?? spend('null'));
      return `[${parts.join(',')}]`;
    }
    const members = value as Record<string, unknown>;
    const parts: string[] = [];
    // The default order of `sort` is that of UTF-16 code units, as RFC 8785 wants it.
    for (const name of Object.keys(members).sort()) {
      const text = write(members[name], name, depth - 1);
      if (text !== undefined) parts.push(`${spend(JSON.stringify(name.toWellFormed()))}:${text}`);
    }
    return `{${parts.join(',')}}`;
  };
  return write(value, '', depthMax);
}

function plain(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === 'function' ? toJSON.call(value, key) : value;
}

// Unrolled, so that no text takes more than one look at each character.
const STRING = String.raw`"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"`;
const NUMBER = String.raw`-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`;

/**
 * Reads JSON source text without loss: a number that a double would change is kept as {@link Digits}. The last of equal keys wins.
 *
 * @throws NotJson if the text is no JSON, too deep, or holds an unpaired surrogate.
 */
export function parse(source: string): unknown {
  const fail = (): never => {
    throw new NotJson('not JSON');
  };
  const token = new RegExp(`[ \\t\\n\\r]*(?:([{}[\\],:])|(${STRING})|(${NUMBER})|(true|false|null))`, 'y');
  const next = (): RegExpExecArray => token.exec(source) ?? fail();
  const peek = (mark: string): boolean => {
    const { lastIndex } = token;
    if (next()[1] === mark) return true;
    token.lastIndex = lastIndex;
    return false;
  };
  const text = (quoted: string): string => {
    const value = JSON.parse(quoted) as string;
    return value.isWellFormed() ? value : fail();
  };
  const read = (depth: number): unknown => {
    const [, mark, quoted, digits, word] = next();
    if (quoted !== undefined) return text(quoted);
    if (digits !== undefined) return number(digits);
    if (word !== undefined) return word === 'null' ? null : word === 'true';
    if (depth <= 0) fail();
    if (mark === '[') {
      const list: unknown[] = [];
      if (peek(']')) return list;
      for (;;) {
        list.push(read(depth - 1));
        if (peek(']')) return list;
        if (next()[1] !== ',') fail();
      }
    }
    if (mark !== '{') fail();
    // Without a prototype, the key `__proto__` is one as any other.
    const members = Object.create(null) as Record<string, unknown>;
    if (peek('}')) return members;
    for (;;) {
      const key = text(next()[2] ?? fail());
      if (next()[1] !== ':') fail();
      members[key] = read(depth - 1);
      if (peek('}')) return members;
      if (next()[1] !== ',') fail();
    }
  };
  const value = read(DEPTH_MAX);
  return /^[ \t\n\r]*$/.test(source.slice(token.lastIndex)) ? value : fail();
}

function number(source: string): number | Digits {
  const value = Number(source);
  if (/[.eE]/.test(source)) return Number.isFinite(value) ? value : new Digits(source);
  return Number.isSafeInteger(value) ? value : new Digits(source);
}
