/** The adapter of the Vercel AI SDK with the real package and its mock model. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { generateText, isStepCount, streamText, tool, type ModelMessage } from 'ai';
import { z } from 'zod';

import { Guard } from '@loopwarden/client';
import { guardTools } from '@loopwarden/client/ai-sdk';

import { guarded } from './fake-guard.js';
import { fakeModel, read } from './fake-language-model.js';
import { delegate, failing, loop, parallel, work, type Plan } from './plan.js';

let runs = 0;
const inputSchema = z.object({ q: z.string() });
const search = tool({ inputSchema, execute: async ({ q }) => ((runs += 1), `nothing about ${q}`) });
const objects = tool({ inputSchema, execute: async () => ({ hits: [] as string[] }) });
const broken = tool({ inputSchema, execute: async (): Promise<string> => { throw new TypeError('out of order'); } });

async function run(tools: any, plan: Plan): Promise<string[]> {
  const result = await generateText({ model: fakeModel(plan).model, tools, prompt: 'go', stopWhen: isStepCount(25) });
  assert.equal(result.text, 'done');
  return read(result.responseMessages as ModelMessage[]);
}

test('a loop is nudged once, refused, and ends', async () => {
  const { fake, guard } = await guarded();
  runs = 0;
  const results = await run(guardTools(guard, { search }, { sessionId: 's1' }), loop());
  assert.equal(results.length, 5);
  assert.equal(runs, 4);
  assert.match(results[2]!, /^nothing about the same\n\nNUDGE: the same search call/);
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  assert.match(results[4]!, /REFUSED/);
  assert.deepEqual(fake.faults, []);
  assert.deepEqual(fake.events('tool_call').map(({ turn }) => turn), [1, 2, 3, 4, 5]);
  assert.equal(fake.checks[0]!.client.name, 'ai-sdk');
});

test('work is left alone', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardTools(guard, { search }, { sessionId: () => 's2' }), work);
  assert.deepEqual(results, Array.from({ length: 7 }, (_, at) => `nothing about question ${at}`));
  assert.equal(fake.checks.length, 14);
  assert.deepEqual(fake.faults, []);
});

test('parallel calls are each asked about, and each refused', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardTools(guard, { search }, { sessionId: 's3' }), parallel);
  assert.equal(results.length, 6);
  assert.ok(results.slice(4).every((text) => text.includes('REFUSED')));
  assert.equal(results.filter((text) => text.includes('NUDGE')).length, 1);
  // Equal calls of one reply are one piece of evidence: they have one turn.
  assert.deepEqual(fake.events('tool_call').map(({ turn }) => turn), [1, 1, 2, 2, 3, 3]);
});

test('a result that is no text stays as it is; the model reads the nudge behind it', async () => {
  const { guard } = await guarded();
  const tools = guardTools(guard, { search: objects }, { sessionId: 's4' });
  const result = await generateText({ model: fakeModel(loop()).model, tools, prompt: 'go', stopWhen: isStepCount(25) });
  const outputs = result.steps.flatMap(({ toolResults }) => toolResults).map(({ output }) => output);
  assert.deepEqual(outputs, [{ hits: [] }, { hits: [] }, { hits: [] }, { hits: [] }]);
  assert.match(read(result.responseMessages as ModelMessage[])[2]!, /^{"hits":\[\]}\n\nNUDGE/);
});

test('a tool with a say in what the model reads', async () => {
  const { guard } = await guarded();
  const spoken = tool({ inputSchema, execute: async () => ({ n: 1 }), toModelOutput: ({ output }) => ({ type: 'content', value: [{ type: 'text', text: `n is ${output.n}` }] }) });
  const results = await run(guardTools(guard, { search: spoken }, { sessionId: 's5' }), loop());
  assert.match(results[2]!, /n is 1.*NUDGE/);
  assert.match(results[4]!, /^REFUSED/);
});

test('a tool that fails: the nudge is behind the error, then it is refused', async () => {
  const { fake, guard } = await guarded();
  const results = await run(guardTools(guard, { broken }, { sessionId: 's6' }), failing);
  assert.match(results[2]!, /out of order\n\nNUDGE/);
  assert.match(results[4]!, /REFUSED/);
  assert.deepEqual(fake.events('tool_result')[0].error, { type: 'TypeError', message: 'out of order' });
});

test('streamed, with a tool that yields results', async () => {
  const { guard } = await guarded();
  const yields = tool({ inputSchema, async *execute() { yield 'searching'; yield 'nothing'; } });
  const result = streamText({ model: fakeModel(loop()).model, tools: guardTools(guard, { search: yields }, { sessionId: 's7' }), prompt: 'go', stopWhen: isStepCount(25) });
  const seen: string[] = [];
  for await (const part of result.stream) if (part.type === 'tool-result' && part.preliminary) seen.push(part.output as string);
  assert.equal(await result.text, 'done');
  const results = read((await result.responseMessages) as ModelMessage[]);
  assert.deepEqual(seen.slice(0, 2), ['searching', 'nothing']);
  assert.match(results[2]!, /^nothing\n\nNUDGE/);
  assert.match(results[4]!, /REFUSED/);
});

test('a sub-agent is an agent of its own', async () => {
  const { fake, guard } = await guarded();
  const inner = guardTools(guard, { search }, { sessionId: 's8', agentId: 'researcher' });
  const research = tool({ inputSchema: z.object({ prompt: z.string() }), execute: async () => (await run(inner, loop())).at(-1)! });
  const results = await run(guardTools(guard, { research }, { sessionId: 's8' }), delegate('research'));
  assert.match(results[0]!, /REFUSED/);
  assert.deepEqual([...new Set(fake.events('tool_call').map(({ agent }) => agent.id))], ['main', 'researcher']);
});

test('no session: a random one, with a warning; tools are guarded once, and those of the provider not at all', async () => {
  const { fake, guard, warnings } = await guarded();
  const provided = tool({ inputSchema });
  const tools = guardTools(guard, guardTools(guard, { search, provided }));
  assert.equal(tools.provided, provided);
  await run(tools, loop());
  assert.equal(fake.events('tool_call').length, 5);
  assert.equal(new Set(fake.events('tool_call').map(({ session_id }) => session_id)).size, 1);
  assert.equal(warnings.length, 1);
});

test('without a guard all goes on', async () => {
  const guard = new Guard({ url: 'http://127.0.0.1:1', warn: () => {} });
  const results = await run(guardTools(guard, { search }, { sessionId: 's9' }), loop());
  assert.equal(results.length, 20);
  assert.ok(results.every((text) => text === 'nothing about the same'));
});
