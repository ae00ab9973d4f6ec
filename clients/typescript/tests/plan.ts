/** What fake models do in all frameworks: a loop that ends when it is refused, and work that never repeats itself. */

export interface PlannedCall {
  id: string;
  name: string;
  args: Record<string, unknown>;
}

/** Makes the next reply of what the model has read of tools so far: calls, or nothing where it is done. */
export type Plan = (results: readonly string[]) => PlannedCall[];

let calls = 0;
const call = (name: string, args: Record<string, unknown>): PlannedCall => ({ id: `call_${(calls += 1)}`, name, args });

const isRefused = (results: readonly string[]): boolean => results.some((result) => result.includes('REFUSED'));

/** The same call again and again; ends when it reads a refusal, or after 20. */
export const loop = (name = 'search'): Plan => (results) =>
  isRefused(results) || results.length >= 20 ? [] : [call(name, { q: 'the same' })];

/** Seven different calls. */
export const work: Plan = (results) => (results.length >= 7 ? [] : [call('search', { q: `question ${results.length}` })]);

/** Two equal calls in each reply. */
export const parallel: Plan = (results) =>
  isRefused(results) || results.length >= 20 ? [] : [call('search', { q: 'the same' }), call('search', { q: 'the same' })];

/** One call of a tool that fails, again and again. */
export const failing: Plan = (results) => (isRefused(results) || results.length >= 20 ? [] : [call('broken', { q: 'x' })]);

/** One call of the sub-agent, then done. */
export const delegate = (name: string): Plan => (results) => (results.length > 0 ? [] : [call(name, { input: 'look', prompt: 'look' })]);
