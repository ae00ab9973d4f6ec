/** The client and adapters with the program itself as the guard: embedded, default policy, live. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Agent, Runner, setTracingDisabled, tool as openaiTool } from '@openai/agents';
import { generateText, isStepCount, tool as aiTool } from 'ai';
import { createAgent, tool as langchainTool } from 'langchain';
import { z } from 'zod';

import { Guard } from '@loopwarden/client';
import { guardTools } from '@loopwarden/client/ai-sdk';
import { guardMiddleware } from '@loopwarden/client/langchain';
import { guardAgent } from '@loopwarden/client/openai-agents';

import { FakeChatModel, read as readMessages } from './fake-langchain-model.js';
import { fakeModel } from './fake-language-model.js';
import { FakeModel } from './fake-openai-model.js';
import type { Plan } from './plan.js';

setTracingDisabled(true);

const BINARY = process.env['LOOPWARDEN_BINARY'];
// Not in the system's temporary directory: the program refuses to keep state there.
const folder = fileURLToPath(new URL(`real-guard-${process.pid}`, import.meta.url));

/** The program, ready; its address. */
async function start(): Promise<string> {
  await mkdir(folder, { recursive: true });
  const settings = ['http.listen=127.0.0.1:0', 'lanes=1', 'mode=live'].flatMap((setting) => ['--set', setting]);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('LOOPWARDEN_')));
  const child = spawn(BINARY!, ['run', '--log-level', 'warn', '--data-dir', `${folder}/data`, ...settings], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  after(async () => {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });
  let greeting = '';
  for await (const line of createInterface(child.stdout)) {
    greeting += `${line}\n`;
    if (line.includes('/v1/commands?')) break;
  }
  return /http:\/\/[^/\s]+/.exec(greeting)![0];
}

const url = BINARY ? await start() : '';
const hasCheck = BINARY !== undefined && (await fetch(`${url}/v1/check`, { method: 'POST', body: '{}' })).status !== 404;
const skip = hasCheck ? false : BINARY ? 'this program serves no checks' : 'LOOPWARDEN_BINARY is not set';

let calls = 0;
const call = (q: string): { id: string; name: string; args: { q: string } } => ({ id: `call_${(calls += 1)}`, name: 'search', args: { q } });
const ANSWER = 'nothing was found here';
/** The same call until one has another answer than its tool gives. */
const loop: Plan = (results) => (results.length >= 30 || results.some((text) => !text.includes(ANSWER)) ? [] : [call('the same')]);
/** Questions about other things, with other answers. */
const SUBJECTS = ['rivers', 'bread', 'glass', 'comets', 'violins', 'granite', 'tides', 'moss', 'engines', 'paper', 'salt', 'bees'];
const work: Plan = (results) => (results.length >= SUBJECTS.length ? [] : [call(SUBJECTS[results.length]!)]);

const answer = (q: string): string => (q === 'the same' ? ANSWER : `a page about ${q}: ${q.split('').reverse().join('')} ${q.length}`);
const schema = z.object({ q: z.string() });

/** One run of an agent in a framework: what its model read of the tool. */
const FRAMEWORKS: Record<string, (guard: Guard, plan: Plan, session: string) => Promise<string[]>> = {
  async 'plain functions'(guard, plan, session_id) {
    const search = guard.wrap(({ q }: { q: string }) => answer(q), { tool: 'search', session_id });
    const results: string[] = [];
    for (let [next] = plan(results); next !== undefined; [next] = plan(results)) results.push(await search(next.args as { q: string }));
    return results;
  },
  async 'AI SDK'(guard, plan, sessionId) {
    const { model, results } = fakeModel(plan);
    const tools = guardTools(guard, { search: aiTool({ inputSchema: schema, execute: async ({ q }) => answer(q) }) }, { sessionId });
    await generateText({ model, tools, prompt: 'go', stopWhen: isStepCount(40) });
    return results;
  },
  async 'OpenAI Agents'(guard, plan, sessionId) {
    const model = new FakeModel(plan);
    const search = openaiTool({ name: 'search', description: 'd', parameters: schema, execute: async ({ q }) => answer(q) });
    await new Runner().run(guardAgent(guard, new Agent({ name: 'main', model, tools: [search] }), { sessionId }), 'go', { maxTurns: 40 });
    return model.results;
  },
  async LangChain(guard, plan, thread_id) {
    const search = langchainTool(async ({ q }: { q: string }) => answer(q), { name: 'search', description: 'd', schema });
    const agent = createAgent({ model: new FakeChatModel(plan), tools: [search], middleware: [guardMiddleware(guard)] });
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, { configurable: { thread_id }, recursionLimit: 200 });
    return readMessages(messages);
  },
};

for (const [name, run] of Object.entries(FRAMEWORKS)) {
  test(`${name}: a loop is nudged, then refused; work is left alone`, { skip }, async () => {
    const warnings: string[] = [];
    const guard = new Guard({ url, deadlineMs: 10_000, connectMs: 10_000, warn: (text) => warnings.push(text) });
    const looped = await run(guard, loop, `${name} loops`);
    const worked = await run(guard, work, `${name} works`);
    guard.close();
    const refused = looped.filter((text) => !text.includes(ANSWER));
    assert.deepEqual(warnings, []);
    assert.equal(refused.length, 1, looped.join('\n'));
    assert.match(refused[0]!, /search/);
    const nudged = looped.slice(0, -1).filter((text) => text !== ANSWER);
    assert.ok(nudged.length >= 1 && looped[3] === nudged[0], looped.join('\n'));
    assert.equal(new Set(nudged).size, nudged.length);
    assert.deepEqual(worked, SUBJECTS.map(answer));
  });
}
