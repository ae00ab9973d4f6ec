/** A plan as a model of OpenAI Agents. */

import { Usage, type Model, type ModelRequest } from '@openai/agents';

import type { Plan } from './plan.js';

export class FakeModel implements Model {
  /** What the model read of tools when it was last asked. */
  readonly results: string[] = [];

  readonly plan: Plan;

  constructor(plan: Plan) {
    this.plan = plan;
  }

  async getResponse({ input }: ModelRequest): Promise<any> {
    const items = (typeof input === 'string' ? [] : input) as any[];
    this.results.splice(0, Infinity, ...items.filter(({ type }) => type === 'function_call_result').map(({ output }) => output.text ?? String(output)));
    const calls = this.plan(this.results).map(({ id, name, args }) => ({ type: 'function_call', callId: id, name, status: 'completed', arguments: JSON.stringify(args) }));
    const done = { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] };
    return { usage: new Usage(), output: calls.length > 0 ? calls : [done] };
  }

  async *getStreamedResponse(): AsyncIterable<never> {
    throw new Error('not streamed here');
  }
}
