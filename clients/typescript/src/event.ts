/** Events as they go over the wire: bounded, with an id, and never an exception for what cannot be written. */

import { randomUUID } from 'node:crypto';

import { canonical } from './canonical.js';
import { canonicalArgs, sha256 } from './identity.js';

/** Arguments longer than this go as their hash. Bytes as they are written; a record has 256 KiB by default. */
const ARGS_BYTES_MAX = 96 * 1024;
/** Results longer than this are cut; their hash goes along. Bytes as they are written. */
const RESULT_BYTES_MAX = 64 * 1024;
/** Longest name that loopwarden takes. Characters. */
const NAME_CHARS_MAX = 256;
/** Calls remembered for their ids. */
const CALLS_MAX = 4_096;

/** An event of an agent, in the fields of loopwarden's event schema. */
export interface AgentEvent {
  session_id: string;
  /** Default: made of agent, call and kind; without a call id, random. */
  id?: string | undefined;
  kind?: 'tool_call' | 'tool_result' | 'tool' | 'message' | 'session_start' | 'session_end' | 'progress' | 'reset' | 'ack';
  tenant?: string | undefined;
  swarm_id?: string | undefined;
  agent?: { id?: string | undefined; parent_id?: string; root_id?: string; name?: string; type?: string; model?: string; framework?: string };
  tool?: string | undefined;
  /** Joins a result to its call. */
  call_id?: string | undefined;
  /** Number of the model's reply: equal calls of one reply are one piece of evidence. */
  turn?: number | undefined;
  args?: unknown;
  result?: unknown;
  stable_result?: unknown;
  outcome?: 'ok' | 'error' | 'denied' | 'timeout' | 'cancelled' | 'unknown';
  error?: { type?: string; message?: string; exit_code?: number } | string;
  duration_ms?: number;
  role?: 'user' | 'assistant' | 'system';
  text?: string;
  [field: string]: unknown;
}

/** Gives events their ids and their written form. */
export class EventWriter {
  /** Calls that have ended, and how often: providers reuse call ids. */
  readonly #ended = new Map<string, number>();

  /**
   * The event as JSON text.
   *
   * @throws NotJson if it cannot be written.
   */
  write(event: AgentEvent): string {
    const { args, result, ...rest } = event;
    const fields: Record<string, unknown> = { ...rest, id: event.id ?? this.#id(event), agent: agentOf(event) };
    for (const name of ['session_id', 'tenant', 'swarm_id', 'tool', 'call_id']) fields[name] = nameOf(fields[name]);
    if (args !== undefined) writeArgs(args, fields);
    if (result !== undefined) writeResult(result, fields);
    const text = canonical(fields);
    if (text === undefined) throw new TypeError('the event is none');
    return text;
  }

  /** As loopwarden's hooks make ids: where one of these is at work too, each call still counts once. */
  #id({ session_id, agent, call_id, kind = 'tool' }: AgentEvent): string {
    if (call_id === undefined) return randomUUID();
    const isMain = agent?.id === undefined || agent.id === 'main';
    const call = `${isMain ? '' : `${agent.id}/`}${call_id}`;
    const key = `${session_id}\u001f${call}`;
    const ended = this.#ended.get(key) ?? 0;
    if (kind === 'tool_result' || kind === 'tool') {
      this.#ended.delete(key);
      this.#ended.set(key, ended + 1);
      const [oldest] = this.#ended.keys();
      if (this.#ended.size > CALLS_MAX && oldest !== undefined) this.#ended.delete(oldest);
    }
    const id = `${call}${ended === 0 ? '' : `#${ended}`}/${kind.replace('tool_', '')}`;
    return nameOf(id) ?? id;
  }
}

function agentOf({ agent }: AgentEvent): Record<string, unknown> {
  return { ...agent, id: nameOf(agent?.id) ?? 'main' };
}

/** A name within its limits. Another text of the kind stands for one that is not: cutting would make two names one. */
function nameOf(name: unknown): string | undefined {
  if (typeof name !== 'string' || name === '') return undefined;
  const isGood = name.length <= NAME_CHARS_MAX && name.isWellFormed() && !/[\u0000-\u001f\u007f]/.test(name);
  return isGood ? name : `sha256:${sha256(name)}`;
}

function writeArgs(args: unknown, fields: Record<string, unknown>): void {
  const text = canonicalArgs(args);
  if (bytesOf(text) > ARGS_BYTES_MAX) fields['args_sha256'] = sha256(text);
  else fields['args'] = args;
}

/** A result that cannot be written is left out: what became of the call is known without it. */
function writeResult(result: unknown, fields: Record<string, unknown>): void {
  let text: string | undefined;
  try {
    // Room for the event around it.
    text = typeof result === 'string' ? result : canonical(result, 60);
  } catch {
    text = undefined;
  }
  if (text === undefined) return;
  if (bytesOf(text) <= RESULT_BYTES_MAX) {
    fields['result'] = result;
    return;
  }
  let cut = text.slice(0, RESULT_BYTES_MAX);
  while (bytesOf(cut) > RESULT_BYTES_MAX) cut = cut.slice(0, cut.length / 2);
  fields['result'] = cut;
  fields['truncated'] = true;
  fields['result_sha256'] = sha256(text);
}

/** Length of a text inside of JSON, without its quotes. */
function bytesOf(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}
