/** One call of a tool with a question before and a report after it: what all adapters share. */

import type { Asking, Caller } from './caller.js';
import type { Decision } from './decision.js';
import type { AgentEvent } from './event.js';

/** Whose calls these are. */
export interface CallOptions {
  /** One conversation. Two runs that share one look like a loop. */
  session_id: string;
  /** Which of its agents; default `main`. */
  agent_id?: string | undefined;
  /** The run that several sessions share. */
  swarm_id?: string | undefined;
  tenant?: string | undefined;
}

/** The name that the model calls a tool by. */
export interface Named {
  tool?: string | undefined;
}

/** A call that is about to run. Arguments as the model wrote them. */
export interface GuardedCall extends CallOptions {
  tool: string;
  args: unknown;
  call_id?: string | undefined;
  turn?: number | undefined;
}

/** What became of a call. */
export type Report = Pick<AgentEvent, 'result' | 'outcome' | 'error'>;

/** How results of a framework look. */
export interface Shape<T> {
  /** The result of a call that did not run. May throw where the framework makes an error result of that. */
  refuse(message: string): T;
  /** A result with a text behind it. */
  append(result: T, message: string): T;
  /** What to report of a result; default: the result, which was good. */
  report?(result: T): Report;
  /** Exceptions that are not the end of a call: it will be run again. */
  pauses?(error: unknown): boolean;
}

/** Results of which nothing is known. */
export const ANY_SHAPE: Shape<unknown> = { refuse: (message) => message, append: appended };

/** A result with a text behind it: text grows, lists of content parts get one more, anything else is put beside the text. */
export function appended(result: unknown, message: string): unknown {
  if (result === undefined || result === null || result === '') return message;
  if (typeof result === 'string') return `${result}\n\n${message}`;
  const part = { type: 'text', text: message };
  if (isParts(result)) return [...result, part];
  if (typeof result === 'object' && 'content' in result && isParts(result.content)) {
    return { ...result, content: [...result.content, part] };
  }
  return { result, notice: message };
}

function isParts(value: unknown): value is unknown[] {
  const isPart = (part: unknown): boolean => typeof (part as { type?: unknown } | null)?.type === 'string';
  return Array.isArray(value) && value.length > 0 && value.every(isPart);
}

/** A call that was asked about. */
export interface Asked {
  /** The text for the model, if the call must not run. */
  refusal?: string;
  /** Reports a result. The text to put behind it, or nothing. Never rejects. */
  done(report: Report): Promise<string>;
  /** Reports an exception, and puts the text into its message: that is what the model reads. Never rejects. */
  failed(error: unknown): Promise<void>;
}

/** Asks before a call. Never rejects. */
export async function ask(guard: Asking, caller: Caller, call: GuardedCall): Promise<Asked> {
  const event = eventOf(call);
  const before = await guard.check(event, caller);
  const done = async (report: Report): Promise<string> => {
    const after = await guard.observe({ ...event, ...report }, caller);
    return [before, after].flatMap(({ message }) => message ?? []).join('\n\n');
  };
  return {
    ...(before.decision === 'deny' ? { refusal: textOf(before) } : {}),
    done,
    failed: async (error) => sayWith(error, await done(failure(error))),
  };
}

/** Runs a call unless the guard refuses it. What `run` throws is thrown on; nothing of ours is. */
export async function around<T>(
  guard: Asking,
  caller: Caller,
  call: GuardedCall,
  run: () => T | PromiseLike<T>,
  shape: Shape<T> = ANY_SHAPE as Shape<T>,
): Promise<T> {
  const asked = await ask(guard, caller, call);
  if (asked.refusal !== undefined) return shape.refuse(asked.refusal);
  let result: T;
  try {
    result = await run();
  } catch (error) {
    if (!shape.pauses?.(error)) await asked.failed(error);
    throw error;
  }
  const message = await asked.done(reported(result, shape));
  if (message === '') return result;
  try {
    return shape.append(result, message);
  } catch {
    return result;
  }
}

export function eventOf({ agent_id, ...call }: GuardedCall): AgentEvent {
  return { ...call, agent: { id: agent_id } };
}

/** The text of a refusal. */
export function textOf(decision: Decision): string {
  return decision.message ?? 'This call was refused by loopwarden.';
}

function reported<T>(result: T, shape: Shape<T>): Report {
  try {
    return shape.report?.(result) ?? { result, outcome: 'ok' };
  } catch {
    return { outcome: 'unknown' };
  }
}

/** What an exception says about a call. */
export function failure(error: unknown): Pick<AgentEvent, 'outcome' | 'error'> {
  try {
    const { name, message } = error instanceof Error ? error : { name: typeof error, message: String(error) };
    const outcome = name === 'AbortError' ? 'cancelled' : name === 'TimeoutError' ? 'timeout' : 'error';
    return { outcome, error: { type: String(name).slice(0, 256), message: String(message).slice(0, 4_096) } };
  } catch {
    return { outcome: 'error' };
  }
}

/** Puts a text behind the message of an exception: that is what the model reads of a call that failed. */
function sayWith(error: unknown, message: string): void {
  if (message === '' || !(error instanceof Error)) return;
  try {
    error.message = appended(error.message, message) as string;
  } catch {
    // A message that cannot be written to stays.
  }
}
