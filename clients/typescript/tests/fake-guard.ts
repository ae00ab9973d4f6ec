/**
 * A guard with one simple rule, over real HTTP: the third equal call of an agent is nudged once, from the fifth on it is refused.
 * Checks that break the contract get 400, as from the real one, and are remembered as faults.
 */

import { readFileSync } from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';

import { Ajv2020 } from 'ajv/dist/2020.js';

import { canonicalArgs, Guard } from '@loopwarden/client';

export const NUDGE_AT = 3;
export const DENY_FROM = 5;

type Json = any;

export interface Check {
  event: Json;
  client: { name: string; version: string; can: string[] };
  answer: Json;
}

export interface FakeGuard {
  url: string;
  checks: Check[];
  faults: string[];
  /** Events of a kind, in order. */
  events(kind: string): Json[];
  close(): Promise<void>;
}

const SCHEMA = new URL('../../../config/schemas/tool-event.v1.schema.json', import.meta.url);

function validator(): (event: Json) => string | undefined {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const validate = ajv.compile(JSON.parse(readFileSync(SCHEMA, 'utf8')));
  return (event) => (validate(event) ? undefined : ajv.errorsText(validate.errors));
}

/** `stop`: a refusal also ends the turn of who can. */
export interface FakeOptions {
  socketPath?: string;
  token?: string;
  stop?: boolean;
}

export async function fakeGuard(options: FakeOptions = {}): Promise<FakeGuard> {
  const faultOf = validator();
  const rule = new Rule(options.stop ?? false);
  const checks: Check[] = [];
  const faults: string[] = [];

  const server = http.createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const answer = (status: number, body: Json): void => {
        const text = JSON.stringify(body);
        if (status !== 200) faults.push(text);
        response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text);
      };
      if (options.token !== undefined && request.headers.authorization !== `Bearer ${options.token}`) return answer(401, { code: 'token' });
      if (request.method !== 'POST' || request.url !== '/v1/check') return answer(404, { code: 'route' });
      const check = JSON.parse(Buffer.concat(parts).toString('utf8'));
      const { v, event, client, deadline_ms } = check;
      if (v !== 1 || !Array.isArray(client?.can) || !(deadline_ms > 0)) return answer(400, { code: 'envelope', check });
      const fault = faultOf(event);
      if (fault !== undefined) return answer(400, { code: fault, event });
      const decided = rule.decide(event, client.can);
      checks.push({ event, client, answer: decided });
      answer(200, decided);
    });
  });
  await new Promise<void>((resolve) => (options.socketPath ? server.listen(options.socketPath, resolve) : server.listen(0, '127.0.0.1', resolve)));
  const url = options.socketPath ? '' : `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    checks,
    faults,
    events: (kind) => checks.map(({ event }) => event).filter((event) => event.kind === kind),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A fake guard and a client of it, both closed at the end of the file. Patient: a busy machine must not look like a dead guard. */
export async function guarded(options: FakeOptions = {}): Promise<{ fake: FakeGuard; guard: Guard; warnings: string[] }> {
  const warnings: string[] = [];
  const fake = await fakeGuard(options);
  const guard = new Guard({ url: fake.url, deadlineMs: 10_000, connectMs: 10_000, warn: (text) => warnings.push(text) });
  open.push(fake.close, () => guard.close());
  return { fake, guard, warnings };
}

const open: (() => unknown)[] = [];
after(() => Promise.all(open.map((close) => close())));

class Rule {
  #commands = 0;
  constructor(readonly stops: boolean) {}

  readonly #seen = new Set<string>();
  readonly #counts = new Map<string, number>();
  readonly #held = new Map<string, Json>();

  decide(event: Json, can: string[]): Json {
    const subject = `${event.session_id}|${event.agent?.id ?? 'main'}`;
    const quiet = { v: 1, decision: 'allow', action: 'none', stop: false, state: { stale: false, source: 'embedded' }, recorded: true };
    const isNew = !this.#seen.has(`${subject}|${event.id}`);
    this.#seen.add(`${subject}|${event.id}`);
    if (event.kind === 'message' && event.role === 'user') this.#forget(subject);
    if (event.kind === 'tool_call') {
      const call = `${subject}|${event.tool}|${canonicalArgs(event.args)}`;
      const count = (this.#counts.get(call) ?? 0) + (isNew ? 1 : 0);
      this.#counts.set(call, count);
      const common = { command_id: `command-${(this.#commands += 1)}`, reason: { code: 'exact_repeat' }, expires_at: '2030-01-01T00:00:00Z' };
      if (count >= DENY_FROM) {
        return { ...quiet, ...common, decision: 'deny', action: 'block', level: this.stops ? 4 : 3, stop: this.stops && can.includes('stop'), placement: 'before', message: `REFUSED: the same ${event.tool} call was made ${count} times.` };
      }
      if (count === NUDGE_AT) {
        const nudge = { ...quiet, ...common, action: 'nudge', level: 1, message: `NUDGE: the same ${event.tool} call was made ${count} times.` };
        if (can.includes('context_after')) this.#held.set(subject, { ...nudge, placement: 'append_to_result' });
        else return { ...nudge, placement: 'before' };
      }
    }
    const held = this.#held.get(subject);
    if (event.kind === 'tool_result' && held !== undefined) {
      this.#held.delete(subject);
      return held;
    }
    return quiet;
  }

  #forget(subject: string): void {
    for (const call of this.#counts.keys()) if (call.startsWith(`${subject}|`)) this.#counts.delete(call);
    this.#held.delete(subject);
  }
}
