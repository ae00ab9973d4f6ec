/** The adapter of Mastra with the real package and the mock model of the AI SDK. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { z } from 'zod';

import { Guard } from '@loopwarden/client';
import { guardTools } from '@loopwarden/client/mastra';

import { guarded } from './fake-guard.js';
import { fakeModel } from './fake-language-model.js';
import { delegate, failing, loop, parallel, work, type Plan } from './plan.js';

let runs = 0;
const inputSchema = z.object({ q: z.string() });
const search = createTool({ id: 'search', description: 'd', inputSchema, execute: async ({ q }) => ((runs += 1), `nothing about ${q}`) });
const objects = createTool({ id: 'search', description: 'd', inputSchema, outputSchema: z.object({ hits: z.array(z.string()) }), execute: async () => ({ hits: [] }) });
const spoken = createTool({ id: 'search', description: 'd', inputSchema, execute: async () => ({ n: 1 }), toModelOutput: (output: any) => ({ type: 'text', value: `n is ${output.n}` }) });
const broken = createTool({ id: 'broken', description: 'd', inputSchema, execute: async () => { throw new TypeError('out of order'); } });

async function run(tools: any, plan: Plan, more: object = {}): Promise<string[]> {
  const { model, results } = fakeModel(plan);
  const agent = new Agent({ id: 'main-agent', name: 'main-agent', instructions: 'go', model: model as any, tools, ...more });
  const { text } = await agent.generate('go', { maxSteps: 25 });
  assert.equal(text, 'done');
  return results;
}

test('a loop is nudged once, refused, and ends', async () => {
  const { fake, guard } = await guarded();
  runs = 0;
  const results = await run(guardTools(guard, { search }, { sessionId: 's1' }), loop());
  assert.equal(results.length, 5);
  assert.equal(runs, 4);
  assert.match(results[2]!, /^nothing about the same\n\nNUDGE/);
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.match(results[4]!, /REFUSED/);
  assert.deepEqual(fake.faults, []);
  assert.deepEqual([...new Set(fake.events('tool_call').map(({ agent }) => agent.id))], ['main-agent']);
  assert.equal(new Set(fake.events('tool_call').map(({ call_id }) => call_id)).size, 5);
});

test('work is left alone', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardTools(guard, { search }, { sessionId: () => 's2' }), work);
  assert.deepEqual(results, Array.from({ length: 7 }, (_, at) => `nothing about question ${at}`));
  assert.deepEqual(fake.faults, []);
});

test('parallel calls are each asked about, and each refused', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardTools(guard, { search }, { sessionId: 's3' }), parallel);
  assert.equal(results.length, 6);
  assert.ok(results.slice(4).every((text) => text.includes('REFUSED')));
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.equal(fake.events('tool_call').length, 6);
});

test('a result that is no text has the nudge beside it', async () => {
  const { guard } = await guarded();
  const results = await run(guardTools(guard, { search: objects }, { sessionId: 's4' }), loop());
  assert.match(results[2]!, /"hits":\[\].*NUDGE/);
  assert.match(results[4]!, /REFUSED/);
});

test('a tool with a say in what the model reads', async () => {
  const { guard } = await guarded();
  const results = await run(guardTools(guard, { search: spoken }, { sessionId: 's5' }), loop());
  assert.equal(results[1], 'n is 1');
  assert.match(results[2]!, /^n is 1\n\nNUDGE/);
  assert.match(results[4]!, /REFUSED/);
});

test('a tool that fails: the nudge is behind the error, then it is refused', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardTools(guard, { broken }, { sessionId: 's6' }), failing);
  assert.match(results[2]!, /out of order[^]*NUDGE/);
  assert.match(results[4]!, /REFUSED/);
  assert.match(fake.events('tool_result')[0].error.message, /out of order/);
});

test('a sub-agent is an agent of its own', async () => {
  const { fake, guard } = await guarded();
  const sub = fakeModel(loop());
  const helper = new Agent({ id: 'helper', name: 'helper', description: 'd', instructions: 'go', defaultOptions: { maxSteps: 25 }, model: sub.model as any, tools: guardTools(guard, { search }, { sessionId: 's7' }) });
  await run(guardTools(guard, { search }, { sessionId: 's7' }), delegate('agent-helper'), { agents: { helper } });
  assert.match(sub.results[4]!, /REFUSED/);
  assert.deepEqual([...new Set(fake.events('tool_call').map(({ agent }) => agent.id))], ['helper']);
});

test('without a guard all goes on', async () => {
  const guard = new Guard({ url: 'http://127.0.0.1:1', warn: () => {} });
  const results = await run(guardTools(guard, { search }, { sessionId: 's8' }), loop());
  assert.equal(results.length, 20);
});
