/** The adapter of OpenAI Agents with the real package and a model of its small interface. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Agent, handoff, Runner, setTracingDisabled, tool } from '@openai/agents';
import { z } from 'zod';

import { Guard } from '@loopwarden/client';
import { guardAgent } from '@loopwarden/client/openai-agents';

import { guarded } from './fake-guard.js';
import { FakeModel } from './fake-openai-model.js';
import { delegate, failing, loop, parallel, work, type Plan } from './plan.js';

setTracingDisabled(true);

let runs = 0;
const parameters = z.object({ q: z.string() });
const search = tool({ name: 'search', description: 'd', parameters, execute: async ({ q }) => ((runs += 1), `nothing about ${q}`) });
const broken = tool({ name: 'broken', description: 'd', parameters, execute: async () => { throw new TypeError('out of order'); } });

async function run(agent: Agent<any, any>, context: object = {}): Promise<string[]> {
  const result = await new Runner().run(agent, 'go', { maxTurns: 25, context });
  assert.equal(result.finalOutput, 'done');
  return ((agent as any).model as FakeModel).results;
}

const agentOf = (plan: Plan, tools: any[] = [search], more: object = {}): Agent<any, any> => new Agent({ name: 'main', model: new FakeModel(plan), tools, ...more });

test('a loop is nudged once, refused, and ends', async () => {
  const { fake, guard } = await guarded();
  runs = 0;
  const results = await run(guardAgent(guard, agentOf(loop()), { sessionId: 's1' }));
  assert.equal(results.length, 5);
  assert.equal(runs, 4);
  assert.match(results[2]!, /^nothing about the same\n\nNUDGE/);
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.match(results[4]!, /^REFUSED/);
  assert.deepEqual(fake.faults, []);
  assert.equal(fake.events('tool_call')[0].args, '{"q":"the same"}');
});

test('work is left alone; the session comes from the context of the run', async () => {
  const { fake, guard } = await guarded();
  const agent = guardAgent(guard, agentOf(work), { sessionId: (context) => context.conversation });
  const results = await run(agent, { conversation: 'c1' });
  assert.deepEqual(results, Array.from({ length: 7 }, (_, at) => `nothing about question ${at}`));
  await run(agent, { conversation: 'c2' });
  assert.deepEqual([...new Set(fake.checks.map(({ event }) => event.session_id))], ['c1', 'c2']);
  assert.deepEqual(fake.faults, []);
});

test('parallel calls are each asked about, and each refused', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardAgent(guard, agentOf(parallel), { sessionId: 's3' }));
  assert.equal(results.length, 6);
  assert.ok(results.slice(4).every((text) => text.includes('REFUSED')));
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.equal(fake.events('tool_call').length, 6);
});

test('a tool that fails is nudged and refused as well', async () => {
  const { guard } = await guarded();
  const results = await run(guardAgent(guard, agentOf(failing, [broken]), { sessionId: 's4' }));
  assert.match(results[2]!, /^An error occurred[^]*\n\nNUDGE/);
  assert.match(results[4]!, /REFUSED/);
});

test('hand-offs and agents as tools are agents of their own; tools may be shared', async () => {
  const { fake, guard } = await guarded();
  const sub = guardAgent(guard, agentOf(loop(), [search], { name: 'sub' }), { sessionId: 's5' });
  const helper = agentOf(loop(), [search], { name: 'helper' });
  const asTool = sub.asTool({ toolName: 'ask_sub', toolDescription: 'd' });
  const first: Plan = (results) => (results.some((text) => text.includes('done')) ? [{ id: 'h1', name: 'transfer_to_helper', args: {} }] : delegate('ask_sub')(results));
  const main = agentOf(first, [asTool], { handoffs: [handoff(helper)] });
  helper.handoffs.push(main);
  guardAgent(guard, main, { sessionId: 's5' });
  const result = await new Runner().run(main, 'go', { maxTurns: 25 });
  assert.equal(result.finalOutput, 'done');
  const callers = new Map<string, number>();
  for (const { agent } of fake.events('tool_call')) callers.set(agent.id, (callers.get(agent.id) ?? 0) + 1);
  assert.deepEqual([...callers], [['main', 1], ['sub', 5], ['helper', 5]]);
  assert.deepEqual(fake.faults, []);
});

test('an agent without a guard may share tools with one that has; one is guarded once', async () => {
  const { fake, guard, warnings } = await guarded();
  guardAgent(guard, guardAgent(guard, agentOf(loop())));
  assert.equal((await run(guardAgent(guard, agentOf(loop())))).length, 5);
  assert.equal((await run(agentOf(loop()))).length, 20);
  assert.equal(fake.events('tool_call').length, 5);
  assert.deepEqual(fake.faults, []);
  assert.equal(warnings.length, 1);
});

test('without a guard all goes on', async () => {
  const guard = new Guard({ url: 'http://127.0.0.1:1', warn: () => {} });
  const results = await run(guardAgent(guard, agentOf(loop()), { sessionId: 's6' }));
  assert.equal(results.length, 20);
});
