/** The plugin of opencode: in the real program with a fake model, and by itself with guards that are hostile. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { fakeChat, toolResults } from './fake-chat.js';
import { fakeGuard } from './fake-guard.js';
import { loop, parallel, type Plan, type PlannedCall } from './plan.js';
import { OTHER, skip as noStranger, stranger } from './stranger.js';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const PLUGIN = here('../../opencode/loopwarden.ts');

/** The program, without the part of its package that picks one for the machine. */
const PROGRAM = here('../../opencode/node_modules/opencode-linux-x64-baseline/bin/opencode');
const skip = existsSync(PROGRAM) ? false : 'opencode is tested on Linux on x86-64';

// One home for all runs: the first installs what opencode wants to have beside a plugin.
const home = await mkdtemp(join(tmpdir(), 'lw-'));
const project = join(home, 'project');
await mkdir(join(project, '.opencode', 'plugin'), { recursive: true });
await copyFile(PLUGIN, join(project, '.opencode', 'plugin', 'loopwarden.ts'));
after(() => rm(home, { recursive: true, force: true }));

/** Says where the guard is, as the installer of hooks does. */
async function placeGuard(config: string, url: string): Promise<void> {
  await mkdir(join(config, 'loopwarden'), { recursive: true });
  await writeFile(join(config, 'loopwarden', 'hook-address'), url.replace('http://', ''));
}

async function run(guardUrl: string, plan: (body: any) => PlannedCall[]): Promise<string[]> {
  const model = await fakeChat(plan);
  try {
    const provider = { fake: { npm: '@ai-sdk/openai-compatible', name: 'fake', options: { baseURL: `${model.url}/v1`, apiKey: 'x' }, models: { fake: { name: 'fake' } } } };
    await writeFile(join(project, 'opencode.json'), JSON.stringify({ model: 'fake/fake', provider, autoupdate: false, share: 'disabled' }));
    await placeGuard(join(home, '.config'), guardUrl);
    const off = Object.fromEntries(['AUTOUPDATE', 'MODELS_FETCH', 'DEFAULT_PLUGINS', 'LSP_DOWNLOAD', 'SHARE'].map((what) => [`OPENCODE_DISABLE_${what}`, '1']));
    const env = { PATH: process.env['PATH'], HOME: home, LOOPWARDEN_HOOK_WAIT_MS: '10000', ...off };
    const child = spawn(PROGRAM, ['run', '--auto', 'go'], { cwd: project, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (out += part));
    const code = await new Promise((resolve) => child.on('close', resolve));
    assert.equal(code, 0, out);
    return toolResults(model.bodies.at(-1) ?? { messages: [] });
  } finally {
    await model.close();
  }
}

const shell = (plan: Plan, command = 'echo hi') => (body: any): PlannedCall[] =>
  plan(toolResults(body)).map(({ id }, at) => ({ id, name: 'bash', args: { command: command.replace('N', String(toolResults(body).length + at)), description: 'd' } }));

test('a loop is nudged once, refused, and ends', { skip }, async () => {
  const fake = await fakeGuard();
  const results = await run(fake.url, shell(loop()));
  await fake.close();
  assert.equal(results.length, 5);
  assert.match(results[2]!, /^hi\n[^]*NUDGE: the same bash call/);
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.match(results[4]!, /^REFUSED/);
  assert.deepEqual(fake.faults, []);
  assert.equal(fake.events('message').length, 1);
  assert.deepEqual(fake.events('tool_result').map(({ outcome }) => outcome), ['ok', 'ok', 'ok', 'ok']);
});

test('work is left alone', { skip }, async () => {
  const fake = await fakeGuard();
  const results = await run(fake.url, shell((given) => (given.length >= 6 ? [] : loop()(given)), 'echo N'));
  await fake.close();
  assert.deepEqual(results.map((text) => text.trim()), ['0', '1', '2', '3', '4', '5']);
  assert.deepEqual(fake.faults, []);
});

test('parallel calls are each asked about, and each refused', { skip }, async () => {
  const fake = await fakeGuard();
  const results = await run(fake.url, shell(parallel));
  await fake.close();
  assert.equal(fake.events('tool_call').length, 6);
  assert.ok(results.slice(4).every((text) => text.includes('REFUSED')));
});

test('a shell that fails, and a tool that fails', { skip }, async () => {
  const fake = await fakeGuard();
  const plan = (body: any): PlannedCall[] => {
    const at = toolResults(body).length;
    if (at === 0) return [{ id: 'f1', name: 'bash', args: { command: 'exit 3', description: 'd' } }];
    if (at === 1) return [{ id: 'f2', name: 'read', args: { filePath: join(project, 'no-such-file') } }];
    return at === 2 ? [{ id: 'f3', name: 'read', args: { filePath: 7 } }] : [];
  };
  await run(fake.url, plan);
  await fake.close();
  const [first, second, third] = fake.events('tool_result');
  assert.deepEqual([first.tool, first.outcome, first.error.exit_code], ['bash', 'error', 3]);
  assert.deepEqual([second.tool, second.outcome], ['read', 'error']);
  assert.match(second.error.message, /no-such-file/);
  // Arguments that opencode does not take.
  assert.match(third.error.message, /invalid arguments/);
  assert.deepEqual(fake.faults, []);
});

test('a sub-agent is an agent of its own in the same session', { skip }, async () => {
  const fake = await fakeGuard();
  const task = { description: 'd', prompt: 'SUB TASK', subagent_type: 'general' };
  const delegate = (body: any): PlannedCall[] => (toolResults(body).length > 0 ? [] : [{ id: 't1', name: 'task', args: task }]);
  const isSub = (body: any): boolean => body.messages.some(({ role, content }: any) => role === 'user' && JSON.stringify(content).includes('SUB TASK'));
  await run(fake.url, (body) => (isSub(body) ? shell(loop())(body) : delegate(body)));
  await fake.close();
  assert.equal(new Set(fake.checks.map(({ event }) => event.session_id)).size, 1);
  const agents = fake.events('tool_call').map(({ agent }) => agent.id);
  assert.equal(agents[0], 'main');
  assert.equal(agents.filter((id) => id === agents[1]).length, 5);
  assert.equal(fake.events('message').length, 1);
});

test('without a guard all goes on', { skip }, async () => {
  const results = await run('http://127.0.0.1:1', shell((given) => (given.length >= 6 ? [] : loop()(given))));
  assert.deepEqual(results.map((text) => text.trim()), ['hi', 'hi', 'hi', 'hi', 'hi', 'hi']);
});

const deny = { v: 1, decision: 'deny', action: 'block', message: 'no' };
const HOSTILE: [string, number, string][] = [
  ['garbage', 200, '\u0000{{{'],
  ['nothing', 200, ''],
  ['null', 200, 'null'],
  ['another version', 200, JSON.stringify({ ...deny, v: 2 })],
  ['an unknown decision', 200, JSON.stringify({ ...deny, decision: 'ask' })],
  ['a refusal without a text', 200, JSON.stringify({ ...deny, message: 5 })],
  ['a huge answer', 200, JSON.stringify({ ...deny, more: 'x'.repeat(10_000_000) })],
  ['a status', 403, JSON.stringify(deny)],
];

/** The hooks of the plugin with a guard that answers so. */
async function hooks(answer: (response: http.ServerResponse) => void): Promise<{ plugin: any; requests: () => number; close: () => void }> {
  let requests = 0;
  const server = http.createServer((request, response) => {
    requests += 1;
    request.resume();
    request.on('end', () => answer(response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  process.env['XDG_CONFIG_HOME'] = home;
  await placeGuard(home, `127.0.0.1:${(server.address() as AddressInfo).port}`);
  const module = await import(PLUGIN);
  return { plugin: await module.LoopwardenPlugin(), requests: () => requests, close: () => (server.closeAllConnections(), server.close()) };
}

const CALL = { tool: 'bash', sessionID: 's', callID: 'c', args: {} };

for (const [name, status, body] of HOSTILE) {
  test(`${name}: the call runs, and its output stays`, async () => {
    const { plugin, close } = await hooks((response) => void response.writeHead(status).end(body));
    const output = { output: 'out', metadata: {} };
    await plugin['tool.execute.before'](CALL, { args: {} });
    await plugin['tool.execute.after'](CALL, output);
    await plugin['chat.message']({ sessionID: 's' });
    await plugin.event({ event: { type: 'message.part.updated', properties: { part: { type: 'tool', state: { status: 'error' } } } } });
    assert.equal(output.output, 'out');
    close();
  });
}

test('a guard that never answers is left at the deadline, and alone after three', async () => {
  const { plugin, requests, close } = await hooks(() => {});
  for (let at = 0; at < 6; at += 1) await plugin['tool.execute.before'](CALL, { args: {} });
  assert.equal(requests(), 3);
  close();
});

test('a stop that fails closed holds where no guard answers, until its end', async () => {
  const later = (ms: number): string => new Date(Date.now() + ms).toISOString();
  for (const [fields, isHeld] of [
    [{ fail: 'closed', expires_at: later(3_600_000) }, true],
    [{ fail: 'closed', expires_at: later(-1) }, false],
    [{ expires_at: later(3_600_000) }, false],
  ] as const) {
    let answers = 1;
    const { plugin, close } = await hooks((response) => {
      if (answers-- > 0) response.end(JSON.stringify({ ...deny, ...fields }));
      else response.destroy();
    });
    await assert.rejects(plugin['tool.execute.before'](CALL, { args: {} }), /no/);
    for (let at = 0; at < 5; at += 1) {
      const call = plugin['tool.execute.before']({ ...CALL, callID: String(at) }, { args: {} });
      await (isHeld ? assert.rejects(call, /no/) : call);
    }
    await plugin['tool.execute.before']({ ...CALL, sessionID: 'other' }, { args: {} });
    close();
  }
});

test('a guard without fresh verdicts releases nobody, and one with them does', async () => {
  const closed = { ...deny, fail: 'closed', expires_at: new Date(Date.now() + 3_600_000).toISOString() };
  const allowed = (stale: boolean): object => ({ v: 1, decision: 'allow', action: 'none', state: { stale, source: 'embedded' } });
  let said: object = closed;
  const { plugin, close } = await hooks((response) => void response.end(JSON.stringify(said)));
  const call = (callID: string): Promise<void> => plugin['tool.execute.before']({ ...CALL, callID }, { args: {} });
  await assert.rejects(call('1'), /no/);
  said = allowed(true);
  await assert.rejects(call('2'), /no/);
  for (const other of [{ v: 1, decision: 'allow', action: 'none' }, { ...deny, message: 'a block', state: { stale: true } }]) {
    said = other;
    await assert.rejects(call('unknown'));
    said = allowed(true);
    await assert.rejects(call('still'), /no/, 'whoever does not say that he knows releases nobody');
  }
  said = allowed(false);
  await call('3');
  said = allowed(true);
  await call('4');
  close();
});

test('what opencode hands over in another form is no refusal, and neither is a file without an address', async () => {
  const { plugin, close } = await hooks((response) => void response.end('{}'));
  for (const hook of Object.values<any>(plugin)) for (const input of [undefined, null, 7, {}]) await hook(input, input);
  close();
  await placeGuard(home, 'nowhere');
  const module = await import(PLUGIN);
  assert.deepEqual(await module.LoopwardenPlugin(), {});
});

test('another user who listens gets nothing and says nothing', { skip: noStranger }, async () => {
  const other = await stranger();
  process.env['XDG_CONFIG_HOME'] = home;
  process.env['LOOPWARDEN_HOOK_WAIT_MS'] = '10000';
  await placeGuard(home, `127.0.0.1:${other.place}`);
  const module = await import(PLUGIN);
  const plugin = await module.LoopwardenPlugin();
  await plugin['tool.execute.before'](CALL, { args: { a: 's3cret' } });
  // Whom the file names is asked, and his refusal counts: it is the first that he hears.
  const seen = other.got();
  await writeFile(join(home, 'loopwarden', 'hook-uid'), `${OTHER}\n`);
  await assert.rejects(plugin['tool.execute.before']({ ...CALL, callID: 'd' }, { args: { a: 'b' } }), /Run: curl evil/);
  assert.match(await seen, /^got:POST [^]*"a":"b"/);
  other.child.kill();
  await rm(join(home, 'loopwarden', 'hook-uid'));
});
