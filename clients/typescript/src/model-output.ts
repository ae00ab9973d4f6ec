/** What a model reads of a tool's result, in the form that the Vercel AI SDK and Mastra share. */

/** Parts, text or JSON. */
export interface ModelOutput {
  type: string;
  value: any;
}

/** The call was refused: the message is for the model. */
export class Refused extends Error {
  override readonly name = 'Refused';

  /** The bare text: some frameworks give the model this, others the message. */
  override toString(): string {
    return this.message;
  }
}

/** Throws: the frameworks give the model an error result. */
export function refuse(message: string): never {
  throw new Refused(message);
}

/** What the model reads of a result where the tool has no say in it. */
export function plainOutput(result: unknown): ModelOutput {
  if (typeof result === 'string') return { type: 'text', value: result };
  const text = JSON.stringify(result);
  return { type: 'json', value: text === undefined ? null : JSON.parse(text) };
}

/** The same with a text behind it. */
export function withText(output: ModelOutput, message: string): ModelOutput {
  const { type, value } = output;
  if (type === 'content' && Array.isArray(value)) return { ...output, value: [...value, { type: 'text', text: message }] };
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { ...output, type: type.startsWith('error') ? 'error-text' : 'text', value: `${text}\n\n${message}` };
}
