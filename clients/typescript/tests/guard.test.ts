/** The client against guards that are well, ill or hostile: whatever they do, the agent goes on. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import * as http from 'node:http';
import * as net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { Guard, VERSION, type AgentEvent } from '@loopwarden/client';

import { fakeGuard } from './fake-guard.js';

const CALL: AgentEvent = { session_id: 's', tool: 'search', args: { q: 'x' }, call_id: 'c1' };
const closers: (() => unknown)[] = [];
after(() => Promise.all(closers.map((close) => close())));

/** A server that answers with whatever it is told to; counts requests. */
async function server(answer: (request: http.IncomingMessage, response: http.ServerResponse) => void): Promise<{ url: string; requests: () => number }> {
  let requests = 0;
  const made = http.createServer((request, response) => {
    requests += 1;
    request.resume();
    request.on('end', () => answer(request, response));
  });
  await new Promise<void>((resolve) => made.listen(0, '127.0.0.1', resolve));
  closers.push(() => (made.closeAllConnections(), made.close()));
  return { url: `http://127.0.0.1:${(made.address() as net.AddressInfo).port}`, requests: () => requests };
}

function guardOf(url: string, more: object = {}): { guard: Guard; warnings: string[] } {
  const warnings: string[] = [];
  const guard = new Guard({ url, deadlineMs: 10_000, connectMs: 10_000, warn: (text) => warnings.push(text), ...more });
  closers.push(() => guard.close());
  return { guard, warnings };
}

const good = { v: 1, decision: 'allow', action: 'none', state: { stale: false } };
const deny = { v: 1, decision: 'deny', action: 'block', message: 'no', state: { stale: false } };
const deep = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;

/** Each answer is no decision. */
const HOSTILE: Record<string, string | Buffer> = {
  nothing: '',
  garbage: '\u0000\u0001{{{',
  html: '<html>403</html>',
  'a cut answer': JSON.stringify(deny).slice(0, -5),
  null: 'null',
  'a list': JSON.stringify([deny]),
  text: '"deny"',
  'no version': JSON.stringify({ ...deny, v: undefined }),
  'another version': JSON.stringify({ ...deny, v: 2 }),
  'version as text': JSON.stringify({ ...deny, v: '1' }),
  'no decision': JSON.stringify({ ...deny, decision: undefined }),
  'an unknown decision': JSON.stringify({ ...deny, decision: 'ask' }),
  'decision of another type': JSON.stringify({ ...deny, decision: { deny: true } }),
  'a refusal without a message': JSON.stringify({ ...deny, message: undefined }),
  'a refusal with an empty message': JSON.stringify({ ...deny, message: ' \u0000 ' }),
  'a refusal with a message of another type': JSON.stringify({ ...deny, message: ['no'] }),
  'a deep answer': `{"v":1,"decision":${deep(20_000)}}`,
  'not UTF-8': Buffer.from([0x7b, 0xff, 0xfe, 0x7d]),
  'a huge answer': JSON.stringify({ ...deny, more: 'x'.repeat(10_000_000) }),
};

for (const [name, body] of Object.entries(HOSTILE)) {
  test(`${name} is allow`, async () => {
    const { url } = await server((_, response) => void response.end(body));
    const { guard, warnings } = guardOf(url);
    const decision = await guard.check(CALL);
    assert.equal(decision.decision, 'allow');
    assert.equal(typeof decision.failed, 'string');
    assert.equal(warnings.length, 1);
    assert.ok(!warnings[0]!.includes('x'.repeat(100)), 'a warning holds nothing of the answer');
  });
}

for (const status of [201, 204, 302, 400, 401, 403, 404, 413, 429, 500, 503]) {
  test(`status ${status} is allow, whatever the body says`, async () => {
    const { url } = await server((_, response) => void response.writeHead(status, { location: '/v1/check' }).end(status === 204 ? '' : JSON.stringify(deny)));
    const decision = await guardOf(url).guard.check(CALL);
    assert.equal(decision.decision, 'allow');
    assert.match(decision.failed!, new RegExp(`status ${status}`));
  });
}

test('connections that are cut, refused or answered with another protocol are allow', async () => {
  const raw = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end('SSH-2.0-OpenSSH_9\r\n'));
  });
  await new Promise<void>((resolve) => raw.listen(0, '127.0.0.1', resolve));
  closers.push(() => raw.close());
  const cut = await server((request) => void request.socket.destroy());
  const half = await server((request, response) => {
    response.writeHead(200, { 'content-length': 1_000 });
    response.write('{"v":1', () => request.socket.destroy());
  });
  for (const url of [`http://127.0.0.1:${(raw.address() as net.AddressInfo).port}`, cut.url, half.url, 'http://127.0.0.1:1', 'http://no-such-host.invalid']) {
    const decision = await guardOf(url).guard.check(CALL);
    assert.equal(decision.decision, 'allow');
    assert.ok(decision.failed, url);
  }
  const missing = new Guard({ socketPath: join(tmpdir(), 'no-such-guard.sock'), warn: () => {} });
  assert.equal((await missing.check(CALL)).decision, 'allow');
});

test('a guard that never answers, or never ends, is left at the deadline', async () => {
  const silent = await server(() => {});
  const endless = await server((_, response) => {
    response.writeHead(200);
    // What is written after the client has gone is answered at once: without a look this goes on for ever.
    const more = (): void => void (response.destroyed || response.write(' ', () => setImmediate(more)));
    response.on('error', () => {});
    more();
  });
  for (const { url } of [silent, endless]) {
    const decision = await guardOf(url, { deadlineMs: 30 }).guard.check(CALL);
    assert.equal(decision.decision, 'allow');
    assert.match(decision.failed!, /30 ms|more than/);
  }
});

test('fields of the wrong type are ignored, the decision stands', async () => {
  const odd = { v: 1, decision: 'deny', action: 7, message: 'no', placement: 'everywhere', command_id: 5, level: 'x', reason: 'r', expires_at: {}, stop: 'yes', state: 3, recorded: 1, __proto__: { a: 1 } };
  const { url } = await server((_, response) => void response.end(JSON.stringify(odd)));
  const decision = await guardOf(url).guard.check(CALL);
  assert.deepEqual(decision, { decision: 'deny', action: 'block', message: 'no', stop: false, stale: true, recorded: false });
});

test('a message is cut at 1,000 characters and loses control characters', async () => {
  const message = `a\u0000\u001b[31mb\n\t${'😀'.repeat(2_000)}`;
  const { url } = await server((_, response) => void response.end(JSON.stringify({ ...deny, message })));
  const decision = await guardOf(url).guard.check(CALL);
  assert.equal([...decision.message!].length, 1_000);
  assert.ok(decision.message!.startsWith('a[31mb\n\t😀') && decision.message!.isWellFormed());
});

test('a message without a nudge is not for the model', async () => {
  for (const action of ['none', 'shout', 1]) {
    const { url } = await server((_, response) => void response.end(JSON.stringify({ ...good, action, message: 'psst' })));
    const decision = await guardOf(url).guard.check(CALL);
    assert.equal(decision.message, undefined);
    assert.equal(decision.failed, undefined);
  }
});

test('three failures in a row: no request for five seconds, then one, which decides', async () => {
  let now = 0;
  let isWell = false;
  const { url, requests } = await server((_, response) => void response.writeHead(isWell ? 200 : 503).end(JSON.stringify(good)));
  const { guard, warnings } = guardOf(url, { nowMs: () => now });
  for (let at = 0; at < 10; at += 1) await guard.check(CALL);
  assert.equal(requests(), 3);
  now = 4_999;
  assert.match((await guard.check(CALL)).failed!, /left alone/);
  assert.equal(requests(), 3);
  now = 5_000;
  await Promise.all([guard.check(CALL), guard.check(CALL), guard.check(CALL)]);
  assert.equal(requests(), 4, 'one trial, which fails');
  now = 9_999;
  await guard.check(CALL);
  assert.equal(requests(), 4);
  isWell = true;
  now = 10_000;
  assert.equal((await guard.check(CALL)).failed, undefined);
  await guard.check(CALL);
  assert.equal(requests(), 6);
  assert.equal(warnings.length, 1, 'one warning within a minute');
  isWell = false;
  now = 60_000;
  await guard.check(CALL);
  assert.equal(warnings.length, 2);
});

test('two failures are not yet enough, and a good answer starts the count anew', async () => {
  let fails = 0;
  const { url, requests } = await server((_, response) => void response.writeHead(fails-- > 0 ? 500 : 200).end(JSON.stringify(good)));
  const { guard } = guardOf(url);
  for (let round = 0; round < 5; round += 1) {
    fails = 2;
    for (let at = 0; at < 3; at += 1) await guard.check(CALL);
  }
  assert.equal(requests(), 15);
});

test('what cannot be written is not sent, and says nothing about the guard', async () => {
  const { url, requests } = await server((_, response) => void response.end(JSON.stringify(good)));
  const { guard } = guardOf(url);
  const cycle: unknown[] = [];
  cycle.push(cycle, cycle);
  let wide: unknown = [];
  for (let at = 0; at < 50; at += 1) wide = [wide, wide];
  const thrower = { get x(): never { throw new Error('getter'); } };
  const proxy = new Proxy({}, { ownKeys: () => { throw new Error('trap'); } });
  for (const args of [cycle, wide, thrower, proxy, { toJSON: () => { throw new Error('toJSON'); } }]) {
    const decision = await guard.check({ ...CALL, args });
    assert.equal(decision.decision, 'allow');
    assert.ok(decision.failed);
  }
  assert.equal(requests(), 0);
  assert.equal((await guard.observe({ ...CALL, result: cycle, outcome: 'ok' })).failed, undefined, 'a result is left out');
  assert.equal(requests(), 1);
});

test('a warning that nobody can take is swallowed', async () => {
  const { guard } = guardOf('http://127.0.0.1:1', { warn: () => { throw new Error('no'); } });
  assert.equal((await guard.check(CALL)).decision, 'allow');
});

test('a token that is no header value is allow', async () => {
  const { guard } = guardOf('http://127.0.0.1:1', { token: 'a\nb' });
  assert.ok((await guard.check(CALL)).failed);
});

test('TCP, a Unix socket and a token', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lw-'));
  closers.push(() => rm(directory, { recursive: true }));
  const socketPath = join(directory, 'guard.sock');
  const [tcp, unix] = [await fakeGuard({ token: 't' }), await fakeGuard({ socketPath, token: 't' })];
  closers.push(tcp.close, unix.close);
  for (const [fake, options] of [[tcp, { url: `${tcp.url}/` }], [unix, { socketPath }]] as const) {
    const guard = new Guard({ ...options, token: 't', deadlineMs: 10_000, connectMs: 10_000 });
    closers.push(() => guard.close());
    const decisions = [];
    for (let at = 0; at < 5; at += 1) {
      decisions.push((await guard.check({ ...CALL, call_id: `c${at}` })).decision);
      await guard.observe({ ...CALL, call_id: `c${at}`, result: 'r' });
    }
    assert.deepEqual(decisions, ['allow', 'allow', 'allow', 'allow', 'deny']);
    assert.deepEqual(fake.faults, []);
    assert.equal(fake.checks[0]!.client.version, VERSION);
  }
  const wrong = new Guard({ url: tcp.url, token: 'other', warn: () => {} });
  assert.match((await wrong.check(CALL)).failed!, /401/);
});

test('one connection serves many calls, and a closed one is no failure', async () => {
  const sockets = new Set<unknown>();
  const { url } = await server((request, response) => {
    sockets.add(request.socket);
    response.end(JSON.stringify(good));
  });
  const { guard } = guardOf(url);
  for (let at = 0; at < 5; at += 1) await guard.check(CALL);
  assert.equal(sockets.size, 1);

  // As a server does whose patience with idle connections is over.
  let closeNext = false;
  const closing = await server((request, response) => {
    if (closeNext) {
      closeNext = false;
      request.socket.destroy();
    } else response.end(JSON.stringify(good));
  });
  const { guard: second } = guardOf(closing.url);
  assert.equal((await second.check(CALL)).failed, undefined);
  closeNext = true;
  assert.equal((await second.check(CALL)).failed, undefined, 'asked again on a new connection');
});

test('a nudge is given once to an agent, also if the guard repeats it', async () => {
  const nudge = { ...good, action: 'nudge', message: 'think', command_id: 'n1' };
  const { url } = await server((_, response) => void response.end(JSON.stringify(nudge)));
  const { guard } = guardOf(url);
  assert.equal((await guard.check(CALL)).message, 'think');
  assert.equal((await guard.observe(CALL)).message, undefined);
  assert.equal((await guard.check({ ...CALL, agent: { id: 'other' } })).message, 'think');
});

test('ids: the same call asked about twice is one event, a reused call id is another', async () => {
  const fake = await fakeGuard();
  closers.push(fake.close);
  const { guard } = guardOf(fake.url);
  await guard.check(CALL);
  await guard.check(CALL);
  await guard.observe({ ...CALL, result: 1 });
  await guard.check(CALL);
  await guard.check({ ...CALL, call_id: undefined });
  await guard.check({ ...CALL, call_id: undefined });
  const ids = fake.events('tool_call').map(({ id }) => id);
  assert.equal(ids[0], ids[1]);
  assert.equal(new Set(ids).size, 4);
  assert.deepEqual(ids.slice(0, 3), ['c1/call', 'c1/call', 'c1#1/call']);
  assert.equal(fake.events('tool_result')[0].id, 'c1/result');
  assert.deepEqual(fake.faults, []);
});

test('names, arguments and results beyond their limits still make good events', async () => {
  const fake = await fakeGuard();
  closers.push(fake.close);
  const { guard } = guardOf(fake.url);
  const long = 'x'.repeat(1_000_000);
  const names = { session_id: long, tool: 'a\u0000b', call_id: '\ud800', agent: { id: 'y'.repeat(300) } };
  for (const args of [long, { q: long.slice(0, 200_000) }, { q: '\ud800' }, { big: 2n ** 70n, un: undefined, f: () => 1 }, null]) {
    assert.equal((await guard.check({ ...names, args })).failed, undefined);
  }
  assert.equal((await guard.observe({ ...names, result: long })).failed, undefined);
  assert.equal((await guard.observe({ ...names, result: { a: long.slice(0, 200_000) } })).failed, undefined);
  assert.deepEqual(fake.faults, []);
  assert.match(fake.events('tool_call')[1].args_sha256, /^[0-9a-f]{64}$/);
  const [result] = fake.events('tool_result');
  assert.ok(result.truncated && result.result.length === 65_536 && result.result_sha256.length === 64);
  // Ideographs and control characters are written in more bytes than they have characters.
  for (const wide of ['漢'.repeat(100_000), '\u0001'.repeat(100_000)]) {
    await guard.observe({ ...names, args: wide, result: wide });
    const { args, args_sha256, result: cut } = fake.events('tool_result').at(-1);
    assert.ok(args === undefined && args_sha256.length === 64 && Buffer.byteLength(JSON.stringify(cut)) <= 65_540);
  }
});

test('wrap: allowed, nudged behind the result, refused, and what the function throws', async () => {
  const fake = await fakeGuard();
  closers.push(fake.close);
  const { guard } = guardOf(fake.url);
  let runs = 0;
  async function look(args: { q: string }): Promise<string> {
    runs += 1;
    if (args.q === 'bad') throw new TypeError('bad query');
    return `found ${args.q}`;
  }
  const guarded = guard.wrap(look, { session_id: 'w' });
  const got = [];
  for (let at = 0; at < 6; at += 1) got.push(await guarded({ q: 'x' }));
  assert.equal(runs, 4);
  assert.match(got[2]!, /^found x\n\nNUDGE: the same look call/);
  assert.equal(got[3], 'found x');
  assert.match(got[5]!, /^REFUSED/);
  for (let at = 0; at < 3; at += 1) {
    await assert.rejects(guarded({ q: 'bad' }), (error: Error) => error instanceof TypeError && error.message.includes('NUDGE') === (at === 2));
  }
  assert.deepEqual(fake.events('tool_result').at(-1).error, { type: 'TypeError', message: 'bad query' });
  assert.deepEqual(fake.faults, []);
});

test('without a place the guard is where the hooks find it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lw-'));
  closers.push(() => rm(directory, { recursive: true }));
  const fake = await fakeGuard({ token: 't' });
  closers.push(fake.close);
  await mkdir(join(directory, 'loopwarden'));
  await writeFile(join(directory, 'loopwarden', 'hook-address'), `${fake.url.replace('http://', '')}\n`);
  await writeFile(join(directory, 'loopwarden', 'hook-token'), 't\n');
  process.env['XDG_CONFIG_HOME'] = directory;
  const guard = new Guard({ deadlineMs: 10_000, connectMs: 10_000 });
  closers.push(() => guard.close());
  assert.equal((await guard.check(CALL)).failed, undefined);
  for (const wrong of ['localhost', 'http://localhost:1', 'a b:1']) {
    await writeFile(join(directory, 'loopwarden', 'hook-address'), wrong);
    assert.throws(() => new Guard(), TypeError);
  }
});

test('wrong options show before an agent runs', () => {
  for (const options of [{ url: 'http://x', socketPath: '/x' }, { url: 'not a url' }, { url: 'ftp://x' }, { url: 'http://x', deadlineMs: 0 }, { url: 'http://x', deadlineMs: NaN }, { url: 'http://x', connectMs: 0 }]) {
    assert.throws(() => new Guard(options), TypeError);
  }
});

test('the version is that of the package', () => {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  assert.equal(VERSION, manifest.version);
});

test('a stop that fails closed holds where no guard answers, until its end', async () => {
  const stopped = { ...deny, message: 'stopped', fail: 'closed', stop: true, expires_at: '2999-01-01T00:00:00Z' };
  let said: object | undefined = stopped;
  const { url } = await server((_, response) => {
    response.writeHead(said === undefined ? 503 : 200);
    response.end(JSON.stringify(said ?? {}));
  });
  const { guard } = guardOf(url);
  const caller = { name: 'test', can: ['deny'] as const };
  assert.equal((await guard.check(CALL, caller)).fail, 'closed');
  const over = { ...CALL, session_id: 'over' };
  said = { ...stopped, expires_at: '2000-01-01T00:00:00Z' };
  await guard.check(over, caller);
  said = undefined;
  const held = await guard.check(CALL, caller);
  assert.deepEqual([held.decision, held.message, held.failed === undefined], ['deny', 'stopped', false]);
  assert.equal((await guard.observe(CALL, caller)).decision, 'allow', 'a call that has run cannot be refused');
  assert.equal((await guard.check(over, caller)).decision, 'allow', 'it has ended');
  assert.equal((await guard.check({ ...CALL, session_id: 'other' }, caller)).decision, 'allow');
  assert.equal((await guard.check(CALL, { name: 'test', can: ['context_after'] })).decision, 'allow');

  const allowed = { v: 1, decision: 'allow', action: 'none', recorded: true };
  const { guard: other } = guardOf(url);
  said = stopped;
  await other.check(CALL, caller);
  said = { ...allowed, state: { stale: true, source: 'embedded' } };
  const stale = await other.check(CALL, caller);
  assert.deepEqual([stale.decision, stale.stale, stale.failed], ['deny', true, undefined], 'a guard that has just started knows of no stop');
  for (const state of [undefined, null, {}, { stale: 'no' }]) {
    said = { ...allowed, state };
    const silent = await other.check(CALL, caller);
    assert.deepEqual([silent.decision, silent.stale], ['deny', true], 'an answer that does not say that it knows');
  }
  said = { ...allowed, state: { stale: false, source: 'embedded' } };
  assert.equal((await other.check(CALL, caller)).decision, 'allow', 'whoever knows releases');
  said = undefined;
  assert.equal((await other.check(CALL, caller)).decision, 'allow');
});
