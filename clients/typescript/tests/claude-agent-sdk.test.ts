/** The adapter of the Claude Agent SDK with the real package, the program in it, and a fake model on loopback. */

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { createSdkMcpServer, query, tool, type Options } from '@anthropic-ai/claude-agent-sdk';
import { z } from 'zod';

import { Guard } from '@loopwarden/client';
import { guardHooks } from '@loopwarden/client/claude-agent-sdk';

import { fakeAnthropic, toolResults } from './fake-anthropic.js';
import { guarded } from './fake-guard.js';
import { failing, loop, parallel, work, type Plan } from './plan.js';

const home = await mkdtemp(join(tmpdir(), 'lw-'));
after(() => rm(home, { recursive: true, force: true }));

let runs = 0;
const schema = { q: z.string() };
const text = (value: string): { content: { type: 'text'; text: string }[] } => ({ content: [{ type: 'text', text: value }] });
const server = (): any =>
  createSdkMcpServer({
    name: 'lw',
    tools: [
      tool('search', 'd', schema, async ({ q }) => ((runs += 1), text(`nothing about ${q}`))),
      tool('broken', 'd', schema, async () => { throw new TypeError('out of order'); }),
    ],
  });

/** One run; what the model was sent last, as text, and the results of tools in it. */
async function run(guard: Guard, plan: Plan, more: Partial<Options> = {}, choose?: (body: any) => Plan): Promise<{ last: string; results: string[]; bodies: any[] }> {
  const named = (given: Plan): Plan => (results) => given(results).map((call) => ({ ...call, name: /^(search|broken)$/.test(call.name) ? `mcp__lw__${call.name}` : call.name }));
  const model = await fakeAnthropic((body) => named(choose?.(body) ?? plan)(toolResults(body)));
  try {
    const { PATH } = process.env;
    const env = {
      PATH, HOME: home, CLAUDE_CONFIG_DIR: join(home, '.claude'), ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'x',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', DISABLE_TELEMETRY: '1', CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
    };
    const options: Options = {
      env, cwd: home, hooks: guardHooks(guard), mcpServers: { lw: server() }, settingSources: [],
      allowedTools: ['mcp__lw__search', 'mcp__lw__broken', 'Bash', 'Agent'], maxTurns: 40, ...more,
    };
    let answer: any;
    for await (const message of query({ prompt: 'go', options })) if (message.type === 'result') answer = message;
    assert.ok(answer, 'the run ended');
    const body = model.bodies.at(-1);
    return { last: JSON.stringify(body.messages), results: toolResults(body), bodies: model.bodies };
  } finally {
    await model.close();
  }
}

test('a loop is nudged once, refused, and ends', async () => {
  const { fake, guard } = await guarded();
  runs = 0;
  const { last, results } = await run(guard, loop());
  assert.equal(results.length, 5);
  assert.equal(runs, 4);
  assert.equal(last.split('NUDGE: the same').length, 2, last);
  assert.match(results[4]!, /REFUSED/);
  assert.deepEqual(fake.faults, []);
  assert.equal(fake.events('message').length, 1);
  assert.equal(new Set(fake.checks.map(({ event }) => event.session_id)).size, 1);
  assert.match(fake.events('tool_call')[0].call_id, /^toolu_/);
});

test('work is left alone', async () => {
  const { fake, guard } = await guarded();
  const { last, results } = await run(guard, work);
  assert.equal(results.length, 7);
  assert.ok(!/NUDGE|REFUSED|loopwarden/.test(last));
  assert.equal(fake.events('tool_result').length, 7);
  assert.ok(fake.events('tool_result').every(({ outcome }) => outcome === 'ok'));
  assert.deepEqual(fake.faults, []);
});

test('parallel calls are each asked about, and each refused', async () => {
  const { guard } = await guarded();
  const { last, results } = await run(guard, parallel);
  assert.equal(results.length, 6);
  assert.ok(results.slice(4).every((result) => result.includes('REFUSED')));
  assert.equal(last.split('NUDGE: the same').length, 2);
});

test('a tool that fails is nudged and refused as well', async () => {
  const { fake, guard } = await guarded();
  const { last, results } = await run(guard, failing);
  assert.match(results[4]!, /REFUSED/);
  assert.ok(last.includes('NUDGE: the same'));
  const [first] = fake.events('tool_result');
  assert.equal(first.outcome, 'error');
  assert.match(first.error.message, /out of order/);
});

test('a shell that fails: the exit code is reported', async () => {
  const { fake, guard } = await guarded();
  const shell: Plan = (results) => (results.length > 0 ? [] : [{ id: 'sh1', name: 'Bash', args: { command: 'echo out; exit 3', description: 'd' } }]);
  await run(guard, shell);
  assert.deepEqual(fake.events('tool_result').map(({ outcome, error }) => [outcome, error.exit_code]), [['error', 3]]);
});

test('a sub-agent is an agent of its own in the same session', async () => {
  const { fake, guard } = await guarded();
  const delegate: Plan = (results) => (results.length > 0 ? [] : [{ id: 'd1', name: 'Agent', args: { description: 'd', prompt: 'SUB TASK', subagent_type: 'researcher' } }]);
  const isSub = (body: any): boolean => JSON.stringify(body.messages[0]).includes('SUB TASK');
  const agents = { researcher: { description: 'd', prompt: 'You search.', tools: ['mcp__lw__search'] } };
  await run(guard, delegate, { agents }, (body) => (isSub(body) ? loop() : delegate));
  const callers = new Map<string, number>();
  for (const { agent } of fake.events('tool_call')) callers.set(agent.id === 'main' ? 'main' : 'sub', (callers.get(agent.id === 'main' ? 'main' : 'sub') ?? 0) + 1);
  assert.deepEqual([...callers], [['main', 1], ['sub', 5]]);
  assert.equal(new Set(fake.checks.map(({ event }) => event.session_id)).size, 1);
});

test('an answer that says stop ends the run', async () => {
  const { fake, guard } = await guarded({ stop: true });
  const { results } = await run(guard, () => [{ id: `s${Math.random()}`, name: 'search', args: { q: 'the same' } }], { maxTurns: 40 });
  assert.equal(fake.events('tool_call').length, 5);
  assert.ok(results.length <= 5);
});

test('without a guard all goes on', async () => {
  const guard = new Guard({ url: 'http://127.0.0.1:1', warn: () => {} });
  const { results } = await run(guard, (given) => (given.length >= 6 ? [] : loop()(given)));
  assert.equal(results.length, 6);
});
