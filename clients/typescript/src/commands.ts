/** The rules for workers (src/docs/workers.md) over commands from anywhere: which are in force, and what they mean for a call. */

import { parse } from './canonical.js';
import { allow, type Decision } from './decision.js';
import { decide, type Candidate, type Outcome, type Phase } from './deciding.js';
import type { Ability } from './caller.js';
import { bindsSameCalls, CallPrints, groupKey, isOfOthers, joined, NoCommand, readCommand, stopKey, treesOf, type ReadCommand, type Verdict, type Who } from './verdict.js';

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
  near: string;
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
  /** Subjects that may mean a call: those of its session, of its swarm, of its tenant's fleet, of its groups. */
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
    const { subject, near, isStop, epoch, seq, verdict } = command;
    const all = isStop ? this.#stops : this.#subjects;
    if (isStop && !all.has(subject) && !this.#hasRoom(now)) return 'full';
    const held = all.get(subject) ?? { epoch: -1n, seq: 0n, near, endsMs: 0, verdicts: [] };
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
      const subjects = this.#near.get(near) ?? new Set();
      this.#near.set(near, subjects.add(subject));
    }
    this.#forget();
    return 'applied';
  }

  #candidates(who: Who, call: CallPrints | undefined, phase: Phase): Candidate[] {
    const agent = this.#agents.get(agentKey(who));
    const name = who.agent_id ?? 'main';
    const own = this.#inForce(sessionKey(who)).filter(({ scope }) => scope.kind === 'session' || scope.agentId === name);
    const candidates = own.map((verdict) => ({
      verdict,
      matches: call?.isIn(verdict.scope) ?? false,
      isDue: isOpen(agent, verdict),
      isOfOthers: false,
    }));
    for (const verdict of this.#stopping(who)) candidates.push({ verdict, matches: call !== undefined, isDue: false, isOfOthers: false });
    const others = call === undefined ? [] : otherKeys(who).flatMap((key) => this.#inForce(key)).filter((verdict) => isBoundByOthers(verdict, who, call));
    if (phase === 'after') {
      const now = this.#nowMs();
      for (const held of agent?.nudges.values() ?? []) if (held !== undefined && held.expiresMs > now && this.#holds(who, held)) others.push(held);
    }
    const known = new Set(own.map(({ commandId }) => commandId));
    for (const verdict of others) {
      const { tool } = verdict.scope;
      // An agent with a verdict of its own on that tool has heard enough.
      const hasOwn = own.some(({ scope }) => tool === undefined || scope.tool === undefined || scope.tool === tool);
      // What binds a group is no advice about a loop: nothing takes its place.
      if (known.has(verdict.commandId) || (hasOwn && verdict.scope.group === undefined)) continue;
      known.add(verdict.commandId);
      candidates.push({ verdict, matches: true, isDue: isOpen(agent, verdict), isOfOthers: true });
    }
    return candidates;
  }

  /** The stops of operators that bind an agent. */
  #stopping(who: Who): Verdict[] {
    if (this.#stops.size === 0) return [];
    const { session_id, agent_id = 'main', swarm_id, tenant = '' } = who;
    const now = this.#nowMs();
    const keys = [stopKey('session', tenant, session_id), stopKey('agent', tenant, agent_id), stopKey('fleet', tenant, ''), stopKey('all', '', '')];
    if (swarm_id !== undefined) keys.push(stopKey('swarm', tenant, swarm_id));
    keys.push(...treesOf(who).map((tree) => stopKey('tree', tenant, tree)));
    return keys.flatMap((key) => this.#stops.get(key)?.verdicts ?? []).filter(({ expiresMs }) => expiresMs > now);
  }

  #hasRoom(now: number): boolean {
    if (this.#stops.size >= STOPS_MAX) for (const [key, { endsMs }] of this.#stops) if (endsMs <= now) this.#stops.delete(key);
    return this.#stops.size < STOPS_MAX;
  }

  #inForce(near: string): Verdict[] {
    const now = this.#nowMs();
    const found: Verdict[] = [];
    const subjects = this.#near.get(near);
    for (const subject of subjects ?? []) {
      const held = this.#subjects.get(subject);
      const verdicts = held?.verdicts.filter(({ expiresMs }) => expiresMs > now) ?? [];
      if (held !== undefined) held.verdicts = verdicts;
      found.push(...verdicts);
      // Only its order is remembered: a command that comes late must not place again what was lifted.
      if (verdicts.length === 0) subjects?.delete(subject);
    }
    if (subjects?.size === 0) this.#near.delete(near);
    return found;
  }

  /** Whether a verdict that was found by the history of others still stands. */
  #holds(who: Who, { commandId, scope }: Verdict): boolean {
    if (scope.group !== undefined) return groupKeys(who).some((key) => this.#inForce(key).some((held) => held.commandId === commandId));
    const near = scope.kind === 'fleet' ? fleetKey(who) : swarmKey(who);
    if (near === undefined || !isOfOthers(scope) || scope.fingerprint === undefined) return false;
    return this.#subjects.get(joined(near, scope.fingerprint))?.verdicts.some((held) => held.commandId === commandId) ?? false;
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
      const [subject, { near }] = oldest;
      this.#subjects.delete(subject);
      this.#near.get(near)?.delete(subject);
      if (this.#near.get(near)?.size === 0) this.#near.delete(near);
    }
  }
}

function sessionKey({ tenant, session_id }: Who): string {
  return joined('session', tenant ?? '', session_id);
}

function agentKey(who: Who): string {
  return joined(sessionKey(who), who.agent_id ?? 'main');
}

function swarmKey({ tenant = '', swarm_id }: Who): string | undefined {
  return swarm_id === undefined ? undefined : joined('swarm', tenant, swarm_id);
}

function fleetKey({ tenant = '' }: Who): string {
  return joined('fleet', tenant);
}

/** The groups that an agent belongs to. */
function groupKeys(who: Who): string[] {
  const { tenant = '', session_id, agent_id = 'main', swarm_id, labels = {} } = who;
  const named = Object.entries(labels).map(([key, value]) => groupKey(tenant, 'label', `${key}=${value}`));
  const swarm = swarm_id === undefined ? [] : [groupKey(tenant, 'swarm', swarm_id)];
  return [groupKey(tenant, 'agent', agent_id), groupKey(tenant, 'session', session_id), ...swarm, groupKey(tenant, 'tenant', ''), ...named, ...treesOf(who).map((tree) => groupKey(tenant, 'tree', tree))];
}

/** Its swarm, if it has one, the fleet, and its groups. */
function otherKeys(who: Who): string[] {
  const swarm = swarmKey(who);
  return [...(swarm === undefined ? [] : [swarm]), fleetKey(who), ...groupKeys(who)];
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
