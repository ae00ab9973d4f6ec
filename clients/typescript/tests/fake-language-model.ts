/** A plan as a mock model of the AI SDK, which Mastra takes too. */

import { MockLanguageModelV4, simulateReadableStream } from 'ai/test';

import type { Plan } from './plan.js';

/** What a model has read of tools: text, also inside of JSON and parts. */
export function read(prompt: readonly any[]): string[] {
  const parts = prompt.filter(({ role }) => role === 'tool').flatMap(({ content }) => content);
  return parts.map(({ output }) => (typeof output.value === 'string' ? output.value : JSON.stringify(output.value)));
}

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };

/** The model, and what it read of tools when it was last asked. */
export function fakeModel(plan: Plan): { model: MockLanguageModelV4; results: string[] } {
  const results: string[] = [];
  const reply = (prompt: readonly any[]): any[] => {
    results.splice(0, Infinity, ...read(prompt));
    return plan(results).map(({ id, name, args }) => ({ type: 'tool-call', toolCallId: id, toolName: name, input: JSON.stringify(args) }));
  };
  const finishReason = (calls: any[]): any => ({ unified: calls.length > 0 ? 'tool-calls' : 'stop', raw: undefined });
  const model = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const calls = reply(prompt);
      return { content: calls.length > 0 ? calls : [{ type: 'text', text: 'done' }], finishReason: finishReason(calls), usage, warnings: [] };
    },
    doStream: async ({ prompt }) => {
      const calls = reply(prompt);
      const text = [{ type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: 'done' }, { type: 'text-end', id: 't' }];
      const chunks = [{ type: 'stream-start', warnings: [] }, ...(calls.length > 0 ? calls : text), { type: 'finish', finishReason: finishReason(calls), usage }] as any[];
      return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) };
    },
  });
  return { model, results };
}
