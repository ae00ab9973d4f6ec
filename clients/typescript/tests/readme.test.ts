/** The pieces of the README, run as they stand there, in front of and behind what a reader has already. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { fakeAnthropic, toolResults } from './fake-anthropic.js';
import { fakeGuard } from './fake-guard.js';
import { loop } from './plan.js';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const folder = here('readme');
await mkdir(folder, { recursive: true });

const readme = await readFile(here('../README.md'), 'utf8');
const pieces = new Map([...readme.matchAll(/^## (.+?)(?: \(.*\))?\n```ts\n([^]*?)```$/gm)].map(([, title, code]) => [title!, code!]));

const plan = `import { loop } from '../plan.js';\nconst plan = loop();\nconst chatId = 'readme', prompt = 'go';`;
const zod = `import { z } from 'zod';\nconst schema = z.object({ q: z.string() });`;

/** What a reader has before the piece, and what must be true behind it. */
const AROUND: Record<string, [string, string]> = {
  'Any function': [
    `const chatId = 'readme';\nconst searchTheWeb = async ({ q }: { q: string }): Promise<string> => 'nothing about ' + q;`,
    `let last = found;\nfor (let at = 0; at < 4; at += 1) last = await search({ q: 'loops' });\nif (!last.startsWith('REFUSED')) throw new Error(last);`,
  ],
  'Vercel AI SDK': [
    `${plan}\n${zod}\nimport { generateText, isStepCount, tool } from 'ai';\nimport { fakeModel } from '../fake-language-model.js';
const { model, results } = fakeModel(plan);\nconst tools = { search: tool({ inputSchema: schema, execute: async ({ q }) => 'nothing about ' + q }) };`,
    `if (text !== 'done' || results.length !== 5) throw new Error(JSON.stringify(results));`,
  ],
  'OpenAI Agents': [
    `${plan}\n${zod}\nimport { Agent, run, setTracingDisabled, tool } from '@openai/agents';\nimport { FakeModel } from '../fake-openai-model.js';
setTracingDisabled(true);\nconst model = new FakeModel(plan);\nconst search = tool({ name: 'search', description: 'd', parameters: schema, execute: async ({ q }) => 'nothing about ' + q });
const agent = new Agent({ name: 'main', model, tools: [search] });`,
    `if (result.finalOutput !== 'done' || model.results.length !== 5) throw new Error(JSON.stringify(model.results));`,
  ],
  'Claude Agent SDK': [
    `import { z } from 'zod';\nimport { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk';\nconst prompt = 'go';
const search = tool('search', 'd', { q: z.string() }, async ({ q }) => ({ content: [{ type: 'text', text: 'nothing about ' + q }] }));
const options = { mcpServers: { lw: createSdkMcpServer({ name: 'lw', tools: [search] }) }, allowedTools: ['mcp__lw__search'], settingSources: [], maxTurns: 30 };
let last: unknown;\nconst show = (message: { type: string }): void => { last = message.type; };`,
    `if (last !== 'result') throw new Error(String(last));`,
  ],
  'LangChain.js': [
    `${plan}\n${zod}\nimport { createAgent, tool } from 'langchain';\nimport { FakeChatModel } from '../fake-langchain-model.js';
const model = new FakeChatModel(plan);\nconst tools = [tool(async ({ q }: { q: string }) => 'nothing about ' + q, { name: 'search', description: 'd', schema })];
const messages = [{ role: 'user', content: prompt }];`,
    `if (result.messages.filter((message) => message.getType() === 'tool').length !== 5) throw new Error(JSON.stringify(result.messages));`,
  ],
  Mastra: [
    `${plan}\n${zod}\nimport { Agent } from '@mastra/core/agent';\nimport { createTool } from '@mastra/core/tools';\nimport { fakeModel } from '../fake-language-model.js';
const fake = fakeModel(plan);\nconst model = fake.model as any, instructions = 'go', userId = 'u';
const tools = { search: createTool({ id: 'search', description: 'd', inputSchema: schema, execute: async ({ q }) => 'nothing about ' + q }) };`,
    `if (fake.results.length < 4) throw new Error(text);`,
  ],
};

test('every piece has its surroundings', () => {
  assert.deepEqual([...pieces.keys()].sort(), Object.keys(AROUND).sort());
  for (const [title, code] of pieces) assert.ok(code.trim().split('\n').length <= 5, `${title} has at most five lines`);
});

for (const [title, [before, behind]] of Object.entries(AROUND)) {
  test(`${title}: the loop is refused`, async () => {
    const fake = await fakeGuard();
    const named = (body: any): any[] => loop()(toolResults(body)).map((call) => ({ ...call, name: 'mcp__lw__search' }));
    const model = await fakeAnthropic(named);
    try {
      const home = join(folder, title.replace(/\W/g, '-'));
      await mkdir(join(home, '.config', 'loopwarden'), { recursive: true });
      await writeFile(join(home, '.config', 'loopwarden', 'hook-address'), fake.url.replace('http://', ''));
      const file = `${home}.ts`;
      await writeFile(file, `${before}\n${pieces.get(title)}\n${behind}\n`);
      const env = {
        PATH: process.env['PATH'], HOME: home, LOOPWARDEN_HOOK_WAIT_MS: '10000', ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'x',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', DISABLE_TELEMETRY: '1', NODE_NO_WARNINGS: '1',
      };
      const [code, out] = await new Promise<[number | null, string]>((resolve) => {
        const child = spawn(process.execPath, [file], { env, cwd: home, stdio: ['ignore', 'pipe', 'pipe'] });
        let text = '';
        for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (text += part));
        child.on('close', (status) => resolve([status, text]));
      });
      assert.equal(code, 0, out);
      assert.deepEqual(fake.faults, []);
      assert.equal(fake.checks.filter(({ answer }) => answer.decision === 'deny').length, 1, out);
    } finally {
      await Promise.all([fake.close(), model.close()]);
    }
  });
}

test('the pieces have the types that the packages want', async () => {
  const config = { extends: '../../tests/tsconfig.json', compilerOptions: { noEmit: true, rootDir: '../..', allowImportingTsExtensions: true }, include: ['*.ts'], exclude: [] };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
  for (const [title, [before, behind]] of Object.entries(AROUND)) {
    await writeFile(join(folder, `${title.replace(/\W/g, '-')}.ts`), `${before.replaceAll("'../", "'../../tests/")}\n${pieces.get(title)}\n${behind}\nexport {};\n`);
  }
  const [code, out] = await new Promise<[number | null, string]>((resolve) => {
    const child = spawn(here('../node_modules/.bin/tsc'), ['-p', folder], { stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (text += part));
    child.on('close', (status) => resolve([status, text]));
  });
  assert.equal(code, 0, out);
});
