/** A plan as a chat model of LangChain.js. */

import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage, type BaseMessage } from '@langchain/core/messages';
import type { ChatResult } from '@langchain/core/outputs';

import type { Plan } from './plan.js';

export class FakeChatModel extends BaseChatModel {
  readonly plan: Plan;

  constructor(plan: Plan) {
    super({});
    this.plan = plan;
  }

  _llmType(): string {
    return 'fake';
  }

  override bindTools(): this {
    return this;
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    // Tools of this turn: what came after the last word of a person.
    const from = messages.findLastIndex((message) => message.getType() === 'human');
    const results = read(messages.slice(from));
    const tool_calls = this.plan(results).map(({ id, name, args }) => ({ id, name, args, type: 'tool_call' as const }));
    const message = new AIMessage({ content: tool_calls.length > 0 ? '' : 'done', tool_calls });
    return { generations: [{ text: 'done', message }] };
  }
}

/** What a model has read of tools. */
export const read = (messages: BaseMessage[]): string[] => messages.filter((message) => message.getType() === 'tool').map(({ content }) => (typeof content === 'string' ? content : JSON.stringify(content)));
