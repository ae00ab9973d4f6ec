/** The rules for workers (src/docs/workers.md) over commands from anywhere: which are in force, and what they mean for a call. */

import { parse } from './canonical.js';
import { allow, type Decision } from './decision.js';
import { decide, type Candidate, type Outcome, type Phase } from './deciding.js';
import type { Ability } from './caller.js';
import { allOf, bindsSameCalls, CallPrints, isOfOthers, joined, NoCommand, readCommand, stopOf, type ReadCommand, type Verdict, type Who } from './verdict.js';

const IDS_MAX = 100_000;
const SUBJECTS_MAX = 100_000;
/** Whom operators stop: held apart, so that nothing pushes one out. A further one is `full`. */
const STOPS_MAX = 10_000;
/** Verdicts of one subject, as in the engine: beyond them the oldest nudge leaves, else the oldest block. */
const VERDICTS_MAX = 16;
/** Agents that are remembered for what they were told, and nudges of each. */
const AGENTS_MAX = 32_768;
const NUDGES_MAX = 32;

/** What became of a command: it holds, or why it does not. */
export type Taken = 'applied' | 'duplicate' | 'expired' | 'full' | 'malformed' | 'not_live' | 'stale' | 'unknown';

/** An agent's question about a call, or between calls: then without a tool. */
export interface Question {
  who: Who;
  phase?: Phase;
  tool?: string | undefined;
  /** Arguments as values, or as text that holds JSON; absent: there are none. */
  args?: unknown;
  /** What the caller can do with an answer. */
  can?: readonly Ability[];
}

interface Held {
  epoch: bigint;
  seq: bigint;
  whom: string;
  /** After it nothing of this means anything. */
  endsMs: number;
  verdicts: Verdict[];
}

interface Agent {
  voidUntilMs?: number;
  /** Those that wait for the end of a call, and nothing for those that were said. */
  nudges: Map<string, Verdict | undefined>;
}

/** Commands in force; bounded. Feed it with the topic of commands, or with `GET /v1/commands`. */
export class Commands {
  readonly #nowMs: () => number;
  readonly #ids = new Map<string, true>();
  readonly #subjects = new Map<string, Held>();
  readonly #stops = new Map<string, Held>();
  /** Subjects by whom they mean. */
  readonly #near = new Map<string, Set<string>>();
  readonly #agents = new Map<string, Agent>();

  /** The clock is that of the day, in Unix milliseconds. */
  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  /** Takes a command as it is published: JSON text. Its numbers may be beyond a double. */
  read(record: string): Taken {
    let command: unknown;
    try {
      command = parse(record);
    } catch {
      return 'malformed';
    }
    return this.apply(command);
  }

  /** Takes a command. */
  apply(command: unknown): Taken {
    try {
      return this.#apply(readCommand(command));
    } catch (error) {
      if (error instanceof NoCommand) return error.word;
      return 'malformed';
    }
  }

  /** What holds for a call. A nudge is given once to each agent. Never throws: without an answer the call is allowed. */
  decide({ who, phase = 'before', tool, args, can = ['deny', 'context_before'] }: Question): Decision {
    try {
      const call = tool === undefined ? undefined : new CallPrints(tool, phase === 'after' && args === undefined ? 'unknown' : { known: args });
      const outcome = decide(phase, can, this.#candidates(who, call, phase));
      for (const nudge of outcome.held ?? []) {
        const agent = this.#told(who);
        if (!agent.nudges.has(nudge.commandId)) setNudge(agent, nudge, nudge);
      }
      if (outcome.isTold === true && outcome.verdict !== undefined) setNudge(this.#told(who), outcome.verdict, undefined);
      return decisionOf(outcome);
    } catch {
      return allow('client_error');
    }
  }

  /** A person has spoken, or the session begins or ends: nudges that the agent has not had are void. */
  beginAnew(who: Who): void {
    const agent = this.#told(who);
    agent.voidUntilMs = this.#nowMs();
    for (const [id, held] of agent.nudges) if (held !== undefined) agent.nudges.delete(id);
  }

  #apply(command: ReadCommand): Taken {
    if (this.#ids.has(command.id)) return 'duplicate';
    this.#ids.set(command.id, true);
    bound(this.#ids, IDS_MAX);
    if (!command.isLive) return 'not_live';
    const now = this.#nowMs();
    if (command.expiresMs <= now) return 'expired';
    const { subject, whom, isStop, epoch, seq, verdict } = command;
    const all = isStop ? this.#stops : this.#subjects;
    if (isStop && !all.has(subject) && !this.#hasRoom(now)) return 'full';
    const held = all.get(subject) ?? { epoch: -1n, seq: 0n, whom, endsMs: 0, verdicts: [] };
    all.delete(subject);
    all.set(subject, held);
    if (epoch < held.epoch || (epoch === held.epoch && seq <= held.seq)) return 'stale';
    [held.epoch, held.seq, held.endsMs] = [epoch, seq, Math.max(held.endsMs, command.expiresMs)];
    held.verdicts = held.verdicts.filter((known) => known.expiresMs > now && !isReplaced(known, command));
    if (verdict !== undefined) {
      if (held.verdicts.length >= VERDICTS_MAX) {
        held.verdicts.splice(Math.max(held.verdicts.findIndex(({ action }) => action === 'nudge'), 0), 1);
      }
      held.verdicts.push(verdict);
    }
    if (held.verdicts.length > 0 && !isStop) {
      const subjects = this.#near.get(whom) ?? new Set();
      this.#near.set(whom, subjects.add(subject));
    }
    this.#forget();
    return 'applied';
  }

  #candidates(who: Who, call: CallPrints | undefined, phase: Phase): Candidate[] {
    const agent = this.#agents.get(agentKey(who));
    const name = who.agent_id ?? 'main';
    const meant = allOf(who).flatMap((whom) => this.#inForce(whom));
    const own = meant.filter(({ scope }) => !isOfOthers(scope) && scope.agentId === name);
    const ofOthers = meant.filter(({ scope }) => isOfOthers(scope));
    const candidates = own.map((verdict) => ({
      verdict,
      matches: call?.isIn(verdict.scope) ?? false,
      isDue: isOpen(agent, verdict),
      isOfOthers: false,
    }));
    for (const verdict of this.#stopping(who)) candidates.push({ verdict, matches: call !== undefined, isDue: false, isOfOthers: false });
    const others = call === undefined ? [] : ofOthers.filter((verdict) => isBoundByOthers(verdict, who, call));
    if (phase === 'after') {
      const standing = new Set(ofOthers.map(({ commandId }) => commandId));
      for (const held of agent?.nudges.values() ?? []) if (held !== undefined && standing.has(held.commandId)) others.push(held);
    }
    const known = new Set(own.map(({ commandId }) => commandId));
    for (const verdict of others) {
      const { tool } = verdict.scope;
      // An agent with a verdict of its own on that tool has heard enough.
      const hasOwn = own.some(({ scope }) => tool === undefined || scope.tool === undefined || scope.tool === tool);
      // What binds them in all that they call is no advice about a loop: nothing takes its place.
      if (known.has(verdict.commandId) || (hasOwn && verdict.scope.by === undefined)) continue;
      known.add(verdict.commandId);
      candidates.push({ verdict, matches: true, isDue: isOpen(agent, verdict), isOfOthers: true });
    }
    return candidates;
  }

  /** The stops of operators that bind an agent. */
  #stopping(who: Who): Verdict[] {
    if (this.#stops.size === 0) return [];
    const now = this.#nowMs();
    return allOf(who).flatMap((whom) => this.#stops.get(stopOf(whom))?.verdicts ?? []).filter(({ expiresMs }) => expiresMs > now);
  }

  #hasRoom(now: number): boolean {
    if (this.#stops.size >= STOPS_MAX) for (const [key, { endsMs }] of this.#stops) if (endsMs <= now) this.#stops.delete(key);
    return this.#stops.size < STOPS_MAX;
  }

  #inForce(whom: string): Verdict[] {
    const now = this.#nowMs();
    const found: Verdict[] = [];
    const subjects = this.#near.get(whom);
    for (const subject of subjects ?? []) {
      const held = this.#subjects.get(subject);
      const verdicts = held?.verdicts.filter(({ expiresMs }) => expiresMs > now) ?? [];
      if (held !== undefined) held.verdicts = verdicts;
      found.push(...verdicts);
      // Only its order is remembered: a command that comes late must not place again what was lifted.
      if (verdicts.length === 0) subjects?.delete(subject);
    }
    if (subjects?.size === 0) this.#near.delete(whom);
    return found;
  }

  #told(who: Who): Agent {
    const key = agentKey(who);
    const agent = this.#agents.get(key) ?? { nudges: new Map() };
    this.#agents.delete(key);
    this.#agents.set(key, agent);
    bound(this.#agents, AGENTS_MAX);
    return agent;
  }

  #forget(): void {
    while (this.#subjects.size > SUBJECTS_MAX) {
      const [oldest] = this.#subjects;
      if (oldest === undefined) return;
      const [subject, { whom }] = oldest;
      this.#subjects.delete(subject);
      this.#near.get(whom)?.delete(subject);
      if (this.#near.get(whom)?.size === 0) this.#near.delete(whom);
    }
  }
}

function agentKey({ tenant = '', session_id, agent_id = 'main' }: Who): string {
  return joined(tenant, session_id, agent_id);
}

function isBoundByOthers({ scope }: Verdict, who: Who, call: CallPrints): boolean {
  const agent = who.agent_id ?? 'main';
  if (scope.only.length > 0 && !scope.only.some((only) => only.sessionId === who.session_id && only.agentId === agent)) return false;
  // Calls that nobody can tell by a fingerprint: such a nudge is about its tool.
  return scope.recipe.kind === 'opaque' ? scope.tool === call.tool : call.isIn(scope);
}

function isOpen(agent: Agent | undefined, { commandId, issuedMs }: Verdict): boolean {
  if (agent === undefined) return true;
  const isVoid = agent.voidUntilMs !== undefined && issuedMs <= agent.voidUntilMs;
  return !isVoid && (!agent.nudges.has(commandId) || agent.nudges.get(commandId) !== undefined);
}

function setNudge(agent: Agent, { commandId }: Verdict, held: Verdict | undefined): void {
  agent.nudges.set(commandId, held);
  bound(agent.nudges, NUDGES_MAX);
}

/** What a command takes the place of: all of its episode where it lifts, else nudges, and a block of the same calls. */
function isReplaced(verdict: Verdict, { episode, verdict: next }: ReadCommand): boolean {
  if (verdict.episode !== episode) return false;
  if (next === undefined || verdict.action === 'nudge') return true;
  return next.action === 'block' && bindsSameCalls(verdict.scope, next.scope);
}

function decisionOf({ verdict, isDenied = false, message, placement, stop = false }: Outcome): Decision {
  if (verdict === undefined) return allow();
  const { action, commandId, episode, level, code, summary, expiresAt, advice } = verdict;
  return {
    ...allow(),
    decision: isDenied ? 'deny' : 'allow',
    action,
    ...(message === undefined ? {} : { message }),
    ...(placement === undefined ? {} : { placement }),
    command_id: commandId,
    episode,
    level,
    reason: summary === undefined ? { code } : { code, summary },
    expires_at: expiresAt,
    ...(advice === undefined ? {} : { advice }),
    stop,
  };
}

function bound(held: Map<string, unknown>, most: number): void {
  while (held.size > most) {
    const [oldest] = held.keys();
    if (oldest === undefined) return;
    held.delete(oldest);
  }
}
