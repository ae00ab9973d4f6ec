/**
 * loopwarden for opencode: asks the guard before each call of a tool, and tells it what became of the call.
 *
 * Copy this file to `.opencode/plugin/` of a project, or to `~/.config/opencode/plugin/`. It needs nothing else. It looks for
 * the guard where loopwarden's hooks do: `~/.config/loopwarden/hook-address` holds `host:port`, or `unix:` and a path; without
 * it the guard is at 127.0.0.1:9464. `hook-token` beside it holds the token, where there is one. On Linux nothing is sent to a
 * guard of another user, but for root's and the one whose number is in `hook-uid`.
 *
 * A refused call is an error of the tool with the guard's text. A nudge is behind the tool's output. Whatever happens to the
 * guard, the call runs, unless the agent was refused for a stop that fails closed: then until the stop's end. There is a deadline
 * of 150 ms (`LOOPWARDEN_HOOK_WAIT_MS`), and after three failures in a row none is asked for 5 seconds.
 */

import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, realpathSync, statSync } from 'node:fs';
import * as http from 'node:http';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';

const ADDRESS = '127.0.0.1:9464';
const DEADLINE_MS = 150;
const DEADLINE_MS_MAX = 10_000;
const FILE_BYTES_MAX = 4 * 1024;
const OPEN_MS = 5_000;
const FAILURES_MAX = 3;
const ANSWER_BYTES_MAX = 64 * 1024;
const MESSAGE_CHARS_MAX = 1_000;
/** Arguments and results longer than this go as their hash. Bytes. */
const VALUE_BYTES_MAX = 96 * 1024;
/** Entries of each table that is kept: sessions, calls, nudges. */
const KEPT_MAX = 4_096;

/** What is used of an answer. */
interface Answer {
  deny: boolean;
  message?: string;
  command_id?: string;
  /** It refuses for a stop that fails closed, until then. Unix milliseconds. */
  untilMs?: number;
  /** It was decided with fresh verdicts, and says so. */
  isFresh?: boolean;
}

/** What opencode lets a plugin do with an answer. */
const CAN = ['deny', 'context_after'];
const NO_OPINION: Answer = { deny: false };

/** A client of the guard, small enough for one file. */
class Guard {
  readonly #request: http.RequestOptions;
  #failures = 0;
  #closedUntilMs = 0;
  readonly #given = new Map<string, true>();
  /** Agents that were refused last for a stop that fails closed. */
  readonly #stopped = new Map<string, Answer>();
  readonly #deadlineMs: number;
  readonly #isKnown: () => boolean;

  /** @throws TypeError if the file holds no address. */
  constructor() {
    const address = firstLine('hook-address') ?? ADDRESS;
    const token = firstLine('hook-token');
    const [, host, port] = /^\[?([\w.:-]+?)\]?:(\d+)$/.exec(address) ?? [];
    const socketPath = /^unix:(.+)/.exec(address)?.[1];
    if (socketPath === undefined && port === undefined) throw new TypeError('hook-address holds no address');
    this.#isKnown = () => isKnown(socketPath === undefined ? ownersAt(host!, Number(port)) : ownersOf(socketPath));
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#request = {
      method: 'POST',
      path: '/v1/check',
      agent: new http.Agent({ keepAlive: true }),
      headers: { 'content-type': 'application/json', ...authorization },
      ...(socketPath === undefined ? { host: host!, port: port! } : { socketPath }),
    };
    const waitMs = Number(process.env['LOOPWARDEN_HOOK_WAIT_MS'] ?? DEADLINE_MS);
    this.#deadlineMs = waitMs >= 1 ? Math.min(waitMs, DEADLINE_MS_MAX) : DEADLINE_MS;
  }

  /** Never rejects. */
  async ask(event: Record<string, unknown>, can: string[]): Promise<Answer> {
    const agent = `${event['session_id']} ${JSON.stringify(event['agent'])}`;
    const isCall = event['kind'] === 'tool_call';
    if (this.#failures >= FAILURES_MAX && performance.now() < this.#closedUntilMs) return this.#refusedOn(agent, isCall) ?? NO_OPINION;
    try {
      const client = { name: 'opencode', version: '0.1.0', can };
      const answer = read(await this.#post(JSON.stringify({ v: 1, event, client, deadline_ms: Math.ceil(this.#deadlineMs) })));
      this.#failures = 0;
      if (answer.untilMs !== undefined) this.#stop(agent, answer);
      // Only a guard that knows releases: one that has just started knows of no stop yet.
      else if (isCall && answer.isFresh) this.#stopped.delete(agent);
      else if (!answer.deny) return this.#refusedOn(agent, isCall) ?? this.#once(answer, agent);
      return this.#once(answer, agent);
    } catch {
      this.#failures += 1;
      this.#closedUntilMs = performance.now() + OPEN_MS;
      return this.#refusedOn(agent, isCall) ?? NO_OPINION;
    }
  }

  /** Remembers a refusal. Beyond the bound that leaves which ends first, silently: what is written here would stand in opencode's screen. */
  #stop(agent: string, answer: Answer): void {
    this.#stopped.set(agent, answer);
    if (this.#stopped.size <= KEPT_MAX) return;
    const [leaving] = [...this.#stopped].reduce((first, next) => ((next[1].untilMs ?? 0) < (first[1].untilMs ?? 0) ? next : first));
    this.#stopped.delete(leaving);
  }

  /** The refusal that still holds where no guard answers that knows. */
  #refusedOn(agent: string, isCall: boolean): Answer | undefined {
    const held = isCall ? this.#stopped.get(agent) : undefined;
    if ((held?.untilMs ?? 0) > Date.now()) return held;
    if (isCall) this.#stopped.delete(agent);
    return undefined;
  }

  /** A nudge that this agent was given is not given again. */
  #once(answer: Answer, agent: string): Answer {
    if (answer.deny || answer.message === undefined || answer.command_id === undefined) return answer;
    const key = `${agent} ${answer.command_id}`;
    if (this.#given.has(key)) return NO_OPINION;
    keep(this.#given, key, true);
    return answer;
  }

  #post(body: string): Promise<string> {
    return new Promise((resolve, reject) => {
      if (!this.#isKnown()) throw new Error('another user listens there');
      const bytes = Buffer.from(body);
      const headers = { ...(this.#request.headers as http.OutgoingHttpHeaders), 'content-length': bytes.length };
      const request = http.request({ ...this.#request, headers });
      const fail = (error: Error): void => {
        clearTimeout(timer);
        reject(error);
        request.destroy();
      };
      const timer = setTimeout(() => fail(new Error('deadline')), this.#deadlineMs);
      request.on('error', fail);
      request.on('response', (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('error', fail);
        response.on('data', (part: string) => {
          text += part;
          if (text.length > ANSWER_BYTES_MAX) fail(new Error('too long'));
        });
        response.on('end', () => {
          clearTimeout(timer);
          if (response.statusCode === 200) resolve(text);
          else reject(new Error(`status ${response.statusCode}`));
        });
      });
      request.end(bytes);
    });
  }
}

/** What is not understood throws, and is no opinion. */
function read(body: string): Answer {
  const { v, decision, action, message, command_id, fail, expires_at, state } = JSON.parse(body) as Record<string, unknown>;
  if (v !== 1 || (decision !== 'allow' && decision !== 'deny')) throw new Error('unknown answer');
  // Control characters, but line ends and tabs, are not for a terminal.
  const clean = typeof message === 'string' ? message.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '').trim() : '';
  const text = [...clean.slice(0, 2 * MESSAGE_CHARS_MAX)].slice(0, MESSAGE_CHARS_MAX).join('');
  const isFresh = (state as { stale?: unknown } | null | undefined)?.stale === false;
  if (decision === 'deny') {
    if (text === '') throw new Error('a refusal without a text');
    const untilMs = fail === 'closed' ? Date.parse(String(expires_at)) : NaN;
    return { deny: true, message: text, isFresh, ...(Number.isNaN(untilMs) ? {} : { untilMs }) };
  }
  if (action !== 'nudge' || text === '') return { ...NO_OPINION, isFresh };
  return { deny: false, message: text, isFresh, ...(typeof command_id === 'string' ? { command_id } : {}) };
}

/** Whether all of these may read what the agent does: this user, root, and the one that `hook-uid` names. */
function isKnown(owners: number[] | undefined): boolean {
  const known = [process.geteuid?.(), 0, Number(firstLine('hook-uid') ?? NaN)];
  return owners === undefined || (owners.length > 0 && owners.every((uid) => known.includes(uid)));
}

/** The users who listen at an address of this machine, as the kernel prefers them; nothing where it does not tell. */
function ownersAt(host: string, port: number): number[] | undefined {
  const ip = host === 'localhost' ? '127.0.0.1' : host;
  // Each word of 32 bits stands in the order of the machine, and so from its last byte on the machines that opencode runs on.
  const four = /^127\.\d+\.\d+\.\d+$/.test(ip) ? ip.split('.').reverse().map((part) => Number(part).toString(16).padStart(2, '0')).join('').toUpperCase() : undefined;
  const near = ip === '::1' ? '00000000000000000000000001000000' : four;
  if (process.platform !== 'linux' || near === undefined) return undefined;
  const at = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const everywhere = [`${'0'.repeat(8)}${at}`, `${'0'.repeat(32)}${at}`];
  const wanted = [`${near}${at}`, `0000000000000000FFFF0000${near}${at}`, ...(host === '::1' ? everywhere.slice(1) : everywhere)];
  const rows = ['/proc/self/net/tcp', '/proc/self/net/tcp6'].flatMap(listeners);
  for (const one of wanted) {
    const owners = rows.filter((words) => words[1] === one).map((words) => Number(words[7]));
    if (owners.length > 0) return owners;
  }
  return [];
}

/** Rows of a kernel's table. Listeners stand in front; behind them it looks through all connections that there could be, for milliseconds. */
function listeners(path: string): string[][] {
  const rows: string[][] = [];
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return rows;
  }
  try {
    const bytes = Buffer.alloc(150);
    let text = '';
    for (let read = 1; read > 0 && rows.length < KEPT_MAX; ) {
      read = readSync(file, bytes, 0, bytes.length, null);
      const lines = (text + bytes.toString('latin1', 0, read)).split('\n');
      text = lines.pop() ?? '';
      for (const words of lines.map((line) => line.trim().split(/\s+/)).filter(([number]) => number !== 'sl')) {
        if (words[3] !== '0A') return rows;
        rows.push(words);
      }
    }
    return rows;
  } finally {
    closeSync(file);
  }
}

/** The users who could put a socket file there; nobody's where others may, too. */
function ownersOf(path: string): number[] | undefined {
  if (process.geteuid === undefined) return undefined;
  try {
    let held = realpathSync(path);
    const owners = [statSync(held).uid];
    while (held !== dirname(held)) {
      held = dirname(held);
      const { mode, uid } = statSync(held);
      // In a sticky folder nobody takes away what is another's.
      if ((mode & 0o022) !== 0 && (mode & 0o1000) === 0) return [];
      owners.push(uid);
    }
    return owners;
  } catch {
    return [];
  }
}

/** The first line of a file of loopwarden's below the user's configuration, if it is a plain text. */
function firstLine(name: string): string | undefined {
  const { XDG_CONFIG_HOME: set = '' } = process.env;
  const path = join(isAbsolute(set) ? set : join(homedir(), '.config'), 'loopwarden', name);
  try {
    const file = statSync(path);
    if (!file.isFile() || file.size > FILE_BYTES_MAX) return undefined;
    const line = readFileSync(path, 'utf8').split('\n', 1)[0]?.trim() ?? '';
    return /^[\x20-\x7e]+$/.test(line) ? line : undefined;
  } catch {
    return undefined;
  }
}

interface ToolInput {
  tool: string;
  sessionID: string;
  callID: string;
  args?: unknown;
}

/** A call: whether it runs, how often its id was used before, and a text from before it that waits for its result. */
interface Call {
  runs: boolean;
  uses: number;
  text?: string;
}

/** What the agent must read in place of a result. */
class Refusal extends Error {}

/** The sessions of sub-agents and the calls of one opencode. */
class Known {
  readonly #parents = new Map<string, string>();
  readonly #calls = new Map<string, Call>();

  isSubAgent(session: string): boolean {
    return this.#parents.has(session);
  }

  keepParent(session: string, parent: string): void {
    keep(this.#parents, session, parent);
  }

  call({ sessionID, callID }: ToolInput): Call | undefined {
    return this.#calls.get(`${sessionID} ${callID}`);
  }

  keepCall({ sessionID, callID }: ToolInput, call: Call): Call {
    keep(this.#calls, `${sessionID} ${callID}`, call);
    return call;
  }

  /** Session and agent: a sub-agent of opencode is a session with a parent. */
  whose(session: string): { session_id: string; agent: { id: string } } {
    let root = session;
    // A session is no ancestor of itself; what says so is not followed for ever.
    for (let depth = 0; depth < 16; depth += 1) root = this.#parents.get(root) ?? root;
    return { session_id: root, agent: { id: root === session ? 'main' : session } };
  }

  event(kind: string, input: ToolInput, args: unknown, more: object = {}): Record<string, unknown> {
    const whose = this.whose(input.sessionID);
    const uses = this.call(input)?.uses ?? 0;
    const agent = whose.agent.id === 'main' ? '' : `${whose.agent.id}/`;
    // As loopwarden's hooks make ids. Some models use the ids of their calls again.
    const id = `${agent}${input.callID}${uses === 0 ? '' : `#${uses}`}/${kind.replace('tool_', '')}`;
    return { ...whose, id, kind, tool: input.tool, call_id: input.callID, ...short('args', args), ...more };
  }
}

/** A hook whose mistakes are no refusals. */
function safe<A extends unknown[]>(hook: (...args: A) => Promise<void>): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      await hook(...args);
    } catch (error) {
      if (error instanceof Refusal) throw error;
    }
  };
}

export const LoopwardenPlugin = async (): Promise<Record<string, unknown>> => {
  let guard: Guard;
  try {
    guard = new Guard();
  } catch {
    return {};
  }
  const known = new Known();
  return {
    'tool.execute.before': safe(async (input: ToolInput, output: { args: unknown }) => {
      const last = known.call(input);
      const call = known.keepCall(input, { runs: true, uses: last === undefined ? 0 : last.uses + (last.runs ? 0 : 1) });
      const { deny, message } = await guard.ask(known.event('tool_call', input, output.args), CAN);
      if (message === undefined) return;
      call.runs = !deny;
      if (deny) throw new Refusal(message);
      call.text = message;
    }),

    'tool.execute.after': safe(async (input: ToolInput, output: { output: unknown; metadata?: { exit?: unknown } }) => {
      const exit = output.metadata?.exit;
      const failed = typeof exit === 'number' && exit !== 0;
      const report = failed ? { outcome: 'error', error: { type: 'exit', exit_code: exit } } : { outcome: 'ok' };
      const event = known.event('tool_result', input, input.args, { ...short('result', output.output), ...report });
      const call = known.call(input);
      if (call !== undefined) call.runs = false;
      const { message } = await guard.ask(event, CAN);
      const texts = [call?.text, message].filter((text) => text !== undefined);
      if (texts.length > 0 && typeof output.output === 'string') output.output = [output.output, ...texts].join('\n\n');
    }),

    'chat.message': safe(async ({ sessionID }: { sessionID: string }) => {
      // The task of a sub-agent comes from its parent, not from a person.
      if (known.isSubAgent(sessionID)) return;
      await guard.ask({ ...known.whose(sessionID), id: crypto.randomUUID(), kind: 'message', role: 'user' }, []);
    }),

    event: safe(async ({ event: what }: { event: { type: string; properties?: any } }) => {
      const { info, part } = what.properties ?? {};
      if (what.type === 'session.created' && typeof info?.parentID === 'string') known.keepParent(info.id, info.parentID);
      if (what.type !== 'message.part.updated' || part?.type !== 'tool' || part.state?.status !== 'error') return;
      // A call that failed has no other end, and one of a tool that is not there no beginning.
      const call = known.call(part);
      if (call !== undefined && !call.runs) return;
      const error = { type: 'tool', message: String(part.state.error).slice(0, 4_096) };
      const kind = call === undefined ? 'tool' : 'tool_result';
      const event = known.event(kind, part, part.state.input, { outcome: 'error', error });
      known.keepCall(part, { runs: false, uses: call?.uses ?? 0 });
      // Nothing can be said to the model here.
      await guard.ask(event, ['deny']);
    }),
  };
};

/** Adds to a table that forgets its oldest. */
function keep<V>(kept: Map<string, V>, key: string, value: V): void {
  kept.delete(key);
  kept.set(key, value);
  const [oldest] = kept.keys();
  if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
}

/** A value within its limit, or its hash. */
function short(name: string, value: unknown): Record<string, unknown> {
  const text = JSON.stringify(value) ?? '';
  if (Buffer.byteLength(text) <= VALUE_BYTES_MAX) return { [name]: value };
  return { [`${name}_sha256`]: createHash('sha256').update(text).digest('hex') };
}
