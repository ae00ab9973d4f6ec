/** Commands as they are written, read with suspicion: what is not understood binds nobody (rule 8 of src/docs/workers.md). */

import { Digits } from './canonical.js';
import { fingerprint, type Identity } from './identity.js';

/** Whose call it is. */
export interface Who {
  session_id: string;
  agent_id?: string | undefined;
  swarm_id?: string | undefined;
  tenant?: string | undefined;
  /** Labels of the event: budgets may be those of a label. */
  labels?: Readonly<Record<string, string>> | undefined;
  /** The agent that began its tree. */
  root_id?: string | undefined;
  /** The agent that started it, which stands for the root where none is named. */
  parent_id?: string | undefined;
}

/** The agent of a session that names none. */
export const MAIN_AGENT = 'main';

/** The trees whose verdicts bind an agent: its own, and the one that it may be the root of. */
export function treesOf({ session_id, agent_id = MAIN_AGENT, root_id, parent_id }: Who): string[] {
  const tree = root_id ?? (parent_id === MAIN_AGENT ? undefined : parent_id) ?? session_id;
  return agent_id === MAIN_AGENT || agent_id === tree ? [tree] : [tree, agent_id];
}

/** How a fingerprint is made, with its lists in order. */
export interface Recipe {
  kind: NonNullable<Identity['kind']>;
  args: readonly string[];
  args_ignored: readonly string[];
}

/** What agents that are meant together have in common, the narrowest first: each kind with the names of that kind which an agent has. */
const KINDS: Readonly<Record<string, (who: Who) => readonly string[]>> = {
  session: ({ session_id }) => [session_id],
  agent: ({ agent_id = MAIN_AGENT }) => [agent_id],
  tree: treesOf,
  swarm: ({ swarm_id }) => (swarm_id === undefined ? [] : [swarm_id]),
  label: ({ labels = {} }) => Object.entries(labels).map(([key, value]) => `${key}=${value}`),
  tenant: () => [''],
  all: () => [''],
};

/** All that an agent may be meant by, as keys. */
export function allOf(who: Who): string[] {
  return Object.entries(KINDS).flatMap(([kind, names]) => names(who).map((name) => whomKey(kind, who.tenant ?? '', name)));
}

/** Agents that are meant together, as a key. */
function whomKey(kind: string, tenant: string, name: string): string {
  return joined(kind === 'all' ? '' : tenant, kind, name);
}

/** What binds those that an operator stops. */
const BY_STOP = 'stop';

/** Which calls of those that are meant a verdict binds. */
export interface Scope {
  kind: string;
  name?: string | undefined;
  /** What binds them in all that they call, as `stop` or `budget/NAME/day`; absent: a loop was found. */
  by?: string | undefined;
  /** The agent of the session in whose history it was found. */
  agentId?: string | undefined;
  tool?: string | undefined;
  /** Calls of these tools only; one that ends in `*` is a beginning of names. Empty: all. */
  tools: readonly string[];
  fingerprint?: string | undefined;
  recipe: Recipe;
  /** These agents only; empty: all. */
  only: readonly { sessionId: string; agentId: string }[];
}

/** A nudge or block that holds until it expires. Times in Unix milliseconds. */
export interface Verdict {
  commandId: string;
  action: 'nudge' | 'block';
  scope: Scope;
  level: number;
  episode: string;
  code: string;
  summary?: string | undefined;
  message: string;
  advice?: string | undefined;
  issuedMs: number;
  expiresMs: number;
  expiresAt: string;
}

/** A command of a version that is known. */
export interface ReadCommand {
  id: string;
  isLive: boolean;
  /** Whose state it is about, and whom that means. */
  subject: string;
  whom: string;
  /** It is an act of an operator. */
  isStop: boolean;
  epoch: bigint;
  seq: bigint;
  episode: string;
  expiresMs: number;
  /** Absent: what its episode placed is lifted. */
  verdict?: Verdict;
}

/** Nobody is bound by it: it is malformed, or of a kind that is not known. */
export class NoCommand extends Error {
  override readonly name = 'NoCommand';
  constructor(readonly word: 'malformed' | 'unknown') {
    super(word);
  }
}

const U64_MAX = 2n ** 64n - 1n;

/** Texts in one, so that no two lists of them are the same. */
export function joined(...parts: readonly string[]): string {
  return JSON.stringify(parts);
}

/** Whether it comes from more than the history of one agent. */
export function isOfOthers({ kind, by }: Scope): boolean {
  return by !== undefined || kind !== 'session';
}

/** Whether two scopes bind the same calls of one subject, whichever agents make them. */
export function bindsSameCalls(one: Scope, other: Scope): boolean {
  const calls = ({ tool, tools, fingerprint: print, recipe }: Scope): string =>
    JSON.stringify([tool ?? null, tools, print ?? null, print === undefined ? null : recipe]);
  return calls(one) === calls(other);
}

/** Whether calls of a tool are bound. A tool of a server, `server__tool`, has the rules of its last name too. */
function hasTool({ tool, tools }: Scope, name: string): boolean {
  const at = name.lastIndexOf('__');
  const own = at < 0 ? name : name.slice(at + 2);
  const isNamed = (pattern: string): boolean =>
    pattern.endsWith('*') ? [name, own].some((given) => given.startsWith(pattern.slice(0, -1))) : pattern === name || pattern === own;
  return (tool === undefined || tool === name) && (tools.length === 0 || tools.some(isNamed));
}

/** Whether a verdict ends the turn of an agent. */
export function stops({ action, level, advice }: Verdict): boolean {
  return action === 'block' && level >= 4 && advice === 'stop';
}

/** A call that verdicts are held against; each fingerprint of it is made once. */
export class CallPrints {
  readonly #made = new Map<string, string | undefined>();

  /** Without `args` there are none; `unknown`: they are not known, and no command that names some means the call. */
  constructor(
    readonly tool: string,
    private readonly args: { known: unknown } | 'unknown',
  ) {}

  /** Whether it is among the calls of a scope. What cannot be told is not. */
  isIn(scope: Scope): boolean {
    if (!hasTool(scope, this.tool)) return false;
    return scope.fingerprint === undefined || this.#print(scope.recipe) === scope.fingerprint;
  }

  #print(recipe: Recipe): string | undefined {
    if (this.args === 'unknown') return undefined;
    const key = JSON.stringify(recipe);
    if (!this.#made.has(key)) this.#made.set(key, fingerprint(this.tool, this.args.known, recipe));
    return this.#made.get(key);
  }
}

/**
 * A command that binds somebody, or would if it were live.
 *
 * @throws NoCommand
 */
export function readCommand(value: unknown): ReadCommand {
  const wire = table(value);
  if (wire['v'] === undefined) throw new NoCommand('malformed');
  if (whole(wire['v'], U64_MAX) !== 1n) throw new NoCommand('unknown');
  const action = text(wire['action']);
  const mode = text(wire['mode']);
  const scope = readScope(table(wire['scope']));
  const isKnown = action === 'nudge' || action === 'block' || action === 'unblock';
  if (!isKnown || !Object.hasOwn(KINDS, scope.kind)) throw new NoCommand('unknown');
  const reason = table(wire['reason']);
  const [id, episode] = [text(wire['id']), text(wire['episode'])];
  const level = Number(whole(wire['level'], 255n));
  const [epoch, seq] = [whole(wire['epoch'], U64_MAX), whole(wire['seq'], U64_MAX)];
  const [code, summary] = [text(reason['code']), optional(reason['summary'])];
  const [message, advice] = [optional(wire['message']), optional(wire['advice'])];
  const expiresAt = text(wire['expires_at']);
  const [issuedMs, expiresMs] = [moment(text(wire['issued_at'])), moment(expiresAt)];
  const command = { id, isLive: mode === 'live', ...subjectOf(wire, scope), isStop: isStop(scope), epoch, seq, episode, expiresMs };
  if (action === 'unblock') return command;
  if (message === undefined) throw new NoCommand('malformed');
  // A block of calls that nobody can tell from others would have to be widened to bind any.
  if (action === 'block' && scope.fingerprint !== undefined && scope.recipe.kind === 'opaque') throw new NoCommand('unknown');
  const verdict = { commandId: id, action, scope, level, episode, code, summary, message, advice, issuedMs, expiresMs, expiresAt } as const;
  return { ...command, verdict };
}

const TIME = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/** RFC 3339 with an offset, in Unix milliseconds; second 60 is the moment after second 59. Nothing for another text. */
export function timeMs(source: string): number | undefined {
  // `$` stands before a line end too.
  const found = source.endsWith('\n') ? null : TIME.exec(source);
  if (found === null) return undefined;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number) as [number, number, number, number, number, number];
  const [east, eastMinutes] = [Number(found[9] ?? 0), Number(found[10] ?? 0)];
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = month === 2 ? (leap ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;
  const isDate = year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= days;
  if (!isDate || hour > 23 || minute > 59 || second > 60 || east > 23 || eastMinutes > 59) return undefined;
  const date = new Date(0);
  // `Date.UTC` would take the years 1 to 99 for those of the last century.
  date.setUTCFullYear(year, month - 1, day);
  const offset = (east * 60 + eastMinutes) * (found[8] === '-' ? -1 : 1);
  const milliseconds = Number(`${found[7] ?? ''}000`.slice(0, 3));
  return date.getTime() + (hour * 3_600 + (minute - offset) * 60 + second) * 1_000 + milliseconds;
}

function readScope(wire: Readonly<Record<string, unknown>>): Scope {
  const recipe = readRecipe(wire['identity']);
  const print = optional(wire['fingerprint']);
  if (print !== undefined && !/^[0-9a-f]{32}$/i.test(print)) throw new NoCommand('malformed');
  const only = list(wire['only']).map(table).map((agent) => ({ sessionId: text(agent['session_id']), agentId: text(agent['agent_id']) }));
  return {
    kind: text(wire['kind']),
    name: optional(wire['name']),
    by: optional(wire['by']),
    agentId: optional(wire['agent_id']),
    tool: optional(wire['tool']),
    tools: list(wire['tools']).map(text).sort(),
    fingerprint: print?.toLowerCase(),
    recipe,
    only,
  };
}

function readRecipe(value: unknown): Recipe {
  if (value === undefined || value === null) return { kind: 'call', args: [], args_ignored: [] };
  const wire = table(value);
  const kind = optional(wire['kind']) ?? 'call';
  const names = (field: string): string[] => list(wire[field]).map(text).sort();
  const [args, args_ignored] = [names('args'), names('args_ignored')];
  if (kind === 'call' || kind === 'args') return { kind, args, args_ignored };
  // One that is not known cannot be made either.
  return kind === 'coarse' ? { kind, args, args_ignored: [] } : { kind: 'opaque', args: [], args_ignored: [] };
}

/** Whether an operator binds them: that goes before all that detectors have placed. */
export function isStop({ by }: Scope): boolean {
  return by === BY_STOP;
}

/** Whose state a stop of an operator is, by whom it means. */
export function stopOf(whom: string): string {
  return joined(whom, BY_STOP, '');
}

function subjectOf(wire: Readonly<Record<string, unknown>>, { kind, name, by, agentId, fingerprint }: Scope): { subject: string; whom: string } {
  const tenant = optional(wire['tenant']) ?? '';
  const [session, swarm] = [optional(wire['session_id']), optional(wire['swarm_id'])];
  const names: Readonly<Record<string, string | undefined>> = { session, swarm, tenant: '', all: '' };
  const whom = whomKey(kind, tenant, text(kind in names ? names[kind] : name));
  if (by === undefined) {
    // A loop is found in the calls of an agent, of a swarm or of a tenant.
    const found: Readonly<Record<string, string | undefined>> = { session: agentId, swarm: fingerprint, tenant: fingerprint };
    if (!(kind in found)) throw new NoCommand('unknown');
    return { whom, subject: joined(whom, '', text(found[kind])) };
  }
  // Operators stop by no label, and they alone stop everybody.
  if (kind === (by === BY_STOP ? 'label' : 'all')) throw new NoCommand('unknown');
  return { whom, subject: joined(whom, by, '') };
}

function table(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Digits) throw new NoCommand('malformed');
  return value as Readonly<Record<string, unknown>>;
}

function list(value: unknown): unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new NoCommand('malformed');
  return value as unknown[];
}

function text(value: unknown): string {
  if (typeof value !== 'string' || !value.isWellFormed()) throw new NoCommand('malformed');
  return value;
}

function optional(value: unknown): string | undefined {
  return value === undefined || value === null ? undefined : text(value);
}

function whole(value: unknown, most: bigint): bigint {
  let number: bigint | undefined;
  if (typeof value === 'bigint') number = value;
  else if (typeof value === 'number' && Number.isSafeInteger(value)) number = BigInt(value);
  else if (value instanceof Digits && /^\d{1,20}$/.test(value.source)) number = BigInt(value.source);
  if (number === undefined || number < 0n || number > most) throw new NoCommand('malformed');
  return number;
}

function moment(source: string): number {
  const ms = timeMs(source);
  if (ms === undefined) throw new NoCommand('malformed');
  return ms;
}
