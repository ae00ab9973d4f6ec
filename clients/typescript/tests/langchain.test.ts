/** The adapter of LangChain.js with the real packages and a fake chat model. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { BaseMessage } from '@langchain/core/messages';
import { Command, interrupt, MemorySaver } from '@langchain/langgraph';
import { createAgent, createMiddleware, tool } from 'langchain';
import { z } from 'zod';

import { Guard } from '@loopwarden/client';
import { guardMiddleware } from '@loopwarden/client/langchain';

import { guarded } from './fake-guard.js';
import { FakeChatModel, read } from './fake-langchain-model.js';
import { delegate, failing, loop, parallel, work, type Plan } from './plan.js';

let runs = 0;
const schema = z.object({ q: z.string() });
const search = tool(async ({ q }) => ((runs += 1), `nothing about ${q}`), { name: 'search', description: 'd', schema });
const broken = tool(async () => { throw new TypeError('out of order'); }, { name: 'broken', description: 'd', schema });

const agentOf = (plan: Plan, tools: any[], middleware: any[]): any => createAgent({ model: new FakeChatModel(plan), tools, middleware });

async function run(agent: any, threadId = 't'): Promise<BaseMessage[]> {
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, { configurable: { thread_id: threadId }, recursionLimit: 100 });
  assert.equal(messages.at(-1).content, 'done');
  return messages;
}

test('a loop is nudged once, refused, and ends', async () => {
  const { fake, guard } = await guarded();
  runs = 0;
  const messages = await run(agentOf(loop(), [search], [guardMiddleware(guard)]), 't1');
  const results = read(messages);
  assert.equal(results.length, 5);
  assert.equal(runs, 4);
  assert.match(results[2]!, /^nothing about the same\n\nNUDGE/);
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.match(results[4]!, /^REFUSED/);
  assert.equal((messages.at(-2) as any).status, 'error');
  assert.deepEqual(fake.faults, []);
  assert.ok(fake.checks.every(({ event }) => event.session_id === 't1'));
  assert.deepEqual(fake.events('tool_call').map(({ turn }) => turn), [1, 2, 3, 4, 5]);
});

test('work is left alone', async () => {
  const { fake, guard } = await guarded();
  const results = read(await run(agentOf(work, [search], [guardMiddleware(guard, { sessionId: 's2' })])));
  assert.deepEqual(results, Array.from({ length: 7 }, (_, at) => `nothing about question ${at}`));
  assert.ok(fake.checks.every(({ event }) => event.session_id === 's2'));
  assert.deepEqual(fake.faults, []);
});

test('a person who asks again starts anew', async () => {
  const { fake, guard } = await guarded();
  const agent = agentOf(loop(), [search], [guardMiddleware(guard)]);
  for (let turn = 0; turn < 2; turn += 1) assert.equal(read(await run(agent, 't2')).length, 5);
  assert.equal(fake.events('message').length, 2);
  assert.equal(fake.events('tool_call').length, 10);
});

test('parallel calls are each asked about, and each refused', async () => {
  const { fake, guard } = await guarded();
  const results = read(await run(agentOf(parallel, [search], [guardMiddleware(guard)])));
  assert.equal(results.length, 6);
  assert.ok(results.slice(4).every((text) => text.includes('REFUSED')));
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.deepEqual(fake.events('tool_call').map(({ turn }) => turn), [1, 1, 2, 2, 3, 3]);
});

test('a tool that fails: the model reads its error as without a middleware, then the nudge, then the refusal', async () => {
  const { fake, guard } = await guarded();
  const bare = read((await agentOf((results) => (results.length > 0 ? [] : failing(results)), [broken], []).invoke({ messages: 'go' })).messages);
  const results = read(await run(agentOf(failing, [broken], [guardMiddleware(guard)])));
  assert.equal(results[0], bare[0]);
  assert.match(results[2]!, /out of order\n\nNUDGE/);
  assert.match(results[4]!, /^REFUSED/);
  assert.deepEqual(fake.events('tool_result')[0].error, { type: 'TypeError', message: 'out of order' });
});

test('behind another middleware, and in front of one', async () => {
  const { guard } = await guarded();
  const other = createMiddleware({ name: 'other', wrapToolCall: (request, handler) => handler(request) });
  const inside = read(await run(agentOf(failing, [broken], [guardMiddleware(guard), other]), 'a'));
  assert.match(inside[2]!, /out of order[^]*NUDGE/);
  const outside = read(await run(agentOf(loop(), [search], [other, guardMiddleware(guard)]), 'b'));
  assert.match(outside[4]!, /^REFUSED/);
});

test('arguments of the wrong form are the affair of the framework', async () => {
  const { guard } = await guarded();
  const wrong: Plan = (results) => (results.length > 0 ? [] : [{ id: 'w1', name: 'search', args: { q: 7 } }]);
  assert.match(read(await run(agentOf(wrong, [search], [guardMiddleware(guard)])))[0]!, /schema|expected|invalid/i);
});

test('a pause for a person is no failure, and the call that goes on is the same one', async () => {
  const { fake, guard } = await guarded();
  const ask = tool(async () => `person said ${interrupt('sure?')}`, { name: 'search', description: 'd', schema });
  const once: Plan = (results) => (results.length > 0 ? [] : loop()(results));
  const agent: any = createAgent({ model: new FakeChatModel(once), tools: [ask], middleware: [guardMiddleware(guard)], checkpointer: new MemorySaver() });
  const config = { configurable: { thread_id: 'p' } };
  const paused = await agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, config);
  assert.equal(paused.__interrupt__[0].value, 'sure?');
  assert.equal(fake.events('tool_result').length, 0);
  const { messages } = await agent.invoke(new Command({ resume: 'yes' }), config);
  assert.deepEqual(read(messages), ['person said yes']);
  assert.equal(new Set(fake.events('tool_call').map(({ id }) => id)).size, 1);
  assert.equal(fake.events('tool_result')[0].outcome, 'ok');
});

test('a sub-agent is an agent of its own', async () => {
  const { fake, guard } = await guarded();
  const sub = agentOf(loop(), [search], [guardMiddleware(guard, { sessionId: 's5', agentId: 'researcher' })]);
  const research = tool(async () => read(await run(sub)).at(-1)!, { name: 'research', description: 'd', schema: z.object({ prompt: z.string() }) });
  const results = read(await run(agentOf(delegate('research'), [research], [guardMiddleware(guard, { sessionId: 's5' })])));
  assert.match(results[0]!, /REFUSED/);
  assert.deepEqual([...new Set(fake.events('tool_call').map(({ agent }) => agent.id))], ['main', 'researcher']);
});

test('without a guard all goes on', async () => {
  const guard = new Guard({ url: 'http://127.0.0.1:1', warn: () => {} });
  assert.equal(read(await run(agentOf(loop(), [search], [guardMiddleware(guard)]))).length, 20);
});
