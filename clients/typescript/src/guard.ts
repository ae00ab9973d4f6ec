/** The client of loopwarden's guard: one question before a call, one after it. Whatever happens to the guard, the agent goes on. */

import { around, type CallOptions, type Named } from './around.js';
import { Breaker } from './breaker.js';
import type { Asking, Caller } from './caller.js';
import { allow, readDecision, type Decision } from './decision.js';
import { EventWriter, type AgentEvent } from './event.js';
import { sha256 } from './identity.js';
import { findPlace, waitMs } from './place.js';
import { Transport, type Address } from './transport.js';
import { timeMs } from './verdict.js';
import { VERSION } from './version.js';

export interface GuardOptions {
  /** Base URL of the guard. Without it and `socketPath`: where loopwarden's hooks find it, else `http://127.0.0.1:9464`. */
  url?: string | URL | undefined;
  /** Path of the guard's Unix socket. */
  socketPath?: string | undefined;
  /** Bearer token. */
  token?: string | undefined;
  /** Number of the user that runs the guard on this machine, where it is neither this user nor root: nothing is sent to others. */
  guardUid?: number | undefined;
  /** How long a call waits for the guard, all in all. Milliseconds, 1 to 10,000; default 150, or `LOOPWARDEN_HOOK_WAIT_MS`. */
  deadlineMs?: number | undefined;
  /** How long of that for a connection. Milliseconds; default a third. */
  connectMs?: number | undefined;
  /** Takes warnings, at most one a minute. Default: a warning of the process. */
  warn?: ((text: string) => void) | undefined;
  /** Steady clock, for tests. Milliseconds. */
  nowMs?: (() => number) | undefined;
}

const DEFAULT_CALLER: Caller = { name: 'typescript', can: ['deny', 'context_before', 'context_after'] };
const WARNING_EVERY_MS = 60_000;
/** Between the parts of a key; no name holds it. */
const SEPARATOR = '\u001f';
/** Nudges remembered so that none is given twice. */
const NUDGES_MAX = 4_096;
/** Agents that are remembered to be stopped where no guard answers. Beyond them one leaves, and that is a warning. */
const STOPPED_MAX = 4_096;

export class Guard implements Asking {
  readonly #transport: Transport;
  readonly #breaker: Breaker;
  readonly #events = new EventWriter();
  readonly #given = new Set<string>();
  readonly #stopped = new Map<string, Decision>();
  #forgotten = 0;
  readonly #patience: { connectMs: number; deadlineMs: number };
  readonly #nowMs: () => number;
  readonly #warn: (text: string) => void;
  #warnedMs = -Infinity;

  /** @throws TypeError if the address or a time is wrong: before an agent runs, not while it does. */
  constructor(options: GuardOptions = {}) {
    const { deadlineMs = waitMs(), connectMs = Math.max(deadlineMs / 3, 1), nowMs = () => performance.now() } = options;
    if (!(deadlineMs >= 1 && deadlineMs <= 10_000)) throw new TypeError('`deadlineMs` must be 1 to 10000');
    if (!(connectMs >= 1)) throw new TypeError('`connectMs` must be at least 1');
    const { url, socketPath, token, guardUid } = options;
    const found: Address = url === undefined && socketPath === undefined ? findPlace() : { url, socketPath };
    this.#transport = new Transport({ ...found, token: token ?? found.token, guardUid: guardUid ?? found.guardUid });
    this.#patience = { connectMs: Math.min(connectMs, deadlineMs), deadlineMs };
    this.#nowMs = nowMs;
    this.#breaker = new Breaker(nowMs);
    this.#warn = options.warn ?? ((text) => process.emitWarning(text, { type: 'LoopwardenWarning' }));
  }

  /** Asks before a call. Never rejects: without a usable answer the call may run, and `failed` says why. */
  check(event: AgentEvent, caller: Caller = DEFAULT_CALLER): Promise<Decision> {
    return this.#ask({ kind: 'tool_call', ...event }, caller);
  }

  /** Reports what became of a call, or anything else. The answer may hold a nudge. Never rejects. */
  observe(event: AgentEvent, caller: Caller = DEFAULT_CALLER): Promise<Decision> {
    return this.#ask({ kind: 'tool_result', ...event }, caller);
  }

  /** A function that asks before it runs and reports after. Refused, it returns the message; a nudge is put behind its result. */
  wrap<A, R>(fn: (args: A) => R | PromiseLike<R>, options: CallOptions & Named): (args: A) => Promise<Awaited<R> | string> {
    const { tool = fn.name, ...call } = options;
    const run = (args: A): Promise<unknown> => around<unknown>(this, DEFAULT_CALLER, { ...call, tool, args }, () => fn(args));
    return run as (args: A) => Promise<Awaited<R> | string>;
  }

  /** Says something about the integration, unless something was said within the last minute. Never throws. */
  warn(text: string): void {
    const now = this.#nowMs();
    if (now - this.#warnedMs < WARNING_EVERY_MS) return;
    this.#warnedMs = now;
    try {
      this.#warn(text);
    } catch {
      // A warning that nobody can take is no reason to stop.
    }
  }

  /** Closes the connections that are kept. The guard can still be asked. */
  close(): void {
    this.#transport.close();
  }

  /** Where no guard with fresh verdicts answers, a stop that fails closed holds until its end. */
  async #ask(event: AgentEvent, caller: Caller): Promise<Decision> {
    const decision = await this.#answer(event, caller);
    if (decision.fail === undefined && this.#stopped.size === 0) return decision;
    const session = [event.tenant ?? '', event.session_id].join(SEPARATOR);
    const key = [session, event.agent?.id ?? 'main'].join(SEPARATOR);
    const isCall = event.kind === 'tool_call';
    if (decision.fail !== undefined) {
      this.#stopped.set(key, decision);
      if (this.#stopped.size > STOPPED_MAX) this.#forgetOne();
      return decision;
    }
    const { failed, recorded, stale } = decision;
    // Only a guard that knows releases: one that has just started knows of no stop yet.
    if (isCall && failed === undefined && !stale) this.#stopped.delete(key);
    const held = this.#stopped.get(key);
    if (held === undefined || decision.decision === 'deny' || !isCall || !caller.can.includes('deny')) return decision;
    if ((timeMs(held.expires_at ?? '') ?? 0) <= Date.now()) {
      this.#stopped.delete(key);
      return decision;
    }
    return { ...held, recorded, stale, ...(failed === undefined ? {} : { failed }) };
  }

  /** Of the session that has most the one that ends first: it keeps one, however many agents it names. */
  #forgetOne(): void {
    const sessionOf = (key: string): string => key.slice(0, key.lastIndexOf(SEPARATOR));
    const held = new Map<string, number>();
    for (const session of [...this.#stopped.keys()].map(sessionOf)) held.set(session, (held.get(session) ?? 0) + 1);
    const most = Math.max(...held.values());
    const leaving = [...this.#stopped].filter(([key]) => held.get(sessionOf(key)) === most);
    const ends = leaving.map(([key, { expires_at }]) => ({ key, endsMs: timeMs(expires_at ?? '') ?? 0 }));
    this.#stopped.delete(ends.reduce((first, next) => (next.endsMs < first.endsMs ? next : first)).key);
    this.#forgotten += 1;
    this.warn(`loopwarden: W0703: ${this.#forgotten} refusals of stopped agents had no room; without a guard these agents go on`);
  }

  async #answer(event: AgentEvent, caller: Caller): Promise<Decision> {
    let body: string;
    try {
      const client = JSON.stringify({ name: caller.name, version: VERSION, can: caller.can });
      const waits = Math.ceil(this.#patience.deadlineMs);
      body = `{"v":1,"event":${this.#events.write(event)},"client":${client},"deadline_ms":${waits}}`;
    } catch (error) {
      // Says nothing about the guard.
      return this.#allowed(error);
    }
    if (!this.#breaker.lets()) return allow('left alone after three failures in a row');
    try {
      const decision = readDecision(await this.#transport.post(body, this.#patience));
      this.#breaker.succeeded();
      return this.#once(decision, event);
    } catch (error) {
      this.#breaker.failed();
      return this.#allowed(error);
    }
  }

  #allowed(error: unknown): Decision {
    const why = error instanceof Error ? error.message : 'unknown';
    this.warn(`loopwarden: calls are not checked: ${why}`);
    return allow(why);
  }

  /** A nudge that this agent was given already is not given again. */
  #once(decision: Decision, { session_id, agent }: AgentEvent): Decision {
    const { action, command_id } = decision;
    if (action !== 'nudge' || command_id === undefined) return decision;
    const key = sha256([session_id, agent?.id ?? 'main', command_id].join('\u001f'));
    if (this.#given.has(key)) {
      const { message: _, ...rest } = decision;
      return { ...rest, action: 'none' };
    }
    this.#given.add(key);
    const [oldest] = this.#given;
    if (this.#given.size > NUDGES_MAX && oldest !== undefined) this.#given.delete(oldest);
    return decision;
  }
}
