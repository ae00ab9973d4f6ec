/** Whose calls these are, and of which reply of the model: what adapters find out at each call. */

import { randomUUID } from 'node:crypto';

import type { Guard } from './guard.js';

/** A session, or how to find it in what the framework hands over. */
export type SessionId<From> = string | ((from: From) => string | undefined) | undefined;

/** Finds the session of a call: what was given, else what the framework knows, else a random one for all calls, with a warning. */
export function sessions<From>(guard: Guard, given: SessionId<From>): (from: From, known?: string) => string {
  let fallback: string | undefined;
  const find = (from: From): string | undefined => {
    try {
      return typeof given === 'function' ? given(from) : given;
    } catch {
      // A session that cannot be found is no reason to stop a call.
      return undefined;
    }
  };
  return (from, known) => {
    const session = find(from) ?? known;
    if (typeof session === 'string' && session !== '') return session;
    if (fallback === undefined) guard.warn('loopwarden: no session id was given; a random one stands for this agent');
    return (fallback ??= randomUUID());
  };
}

/** Numbers the replies of a model. Calls of one reply have the same message before them, whatever list it stands in. */
export class Turns {
  readonly #numbers = new WeakMap<object, number>();
  #last = 0;

  /** The number of the reply behind these messages: equal calls of one reply are one piece of evidence. */
  of(messages: readonly unknown[] | undefined): number | undefined {
    const message = messages?.at(-1);
    if (typeof message !== 'object' || message === null) return undefined;
    const known = this.#numbers.get(message);
    if (known !== undefined) return known;
    this.#last += 1;
    this.#numbers.set(message, this.#last);
    return this.#last;
  }
}
