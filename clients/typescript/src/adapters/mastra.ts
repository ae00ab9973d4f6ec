/**
 * Mastra: every tool of a set asks before it runs and reports after.
 *
 * A refusal is an error of the tool, which Mastra gives to the model as such. A nudge is behind the result.
 */

import { appended, around, type GuardedCall } from '../around.js';
import type { Caller } from '../caller.js';
import type { Guard } from '../guard.js';
import { refuse, withText } from '../model-output.js';
import { sessions, type SessionId } from '../whose.js';

const CALLER: Caller = { name: 'mastra', can: ['deny', 'context_after'] };

export interface MastraOptions {
  /** The conversation. Default: the thread of the agent's memory. */
  sessionId?: SessionId<ToolContext>;
  /** Which agent of it has these tools. Default: Mastra's id of the agent. */
  agentId?: string | undefined;
}

/** What Mastra hands to a tool; only what is read here. */
export interface ToolContext {
  agent?: { agentId?: string; toolCallId?: string; threadId?: string };
  requestContext?: unknown;
  [field: string]: unknown;
}

interface ToolLike {
  id?: string;
  execute?: ((input: any, context: any) => unknown) | undefined;
  toModelOutput?: ((output: any) => any) | undefined;
}

const isGuarded = Symbol('loopwarden');

/** The same tools, guarded. */
export function guardTools<T extends Record<string, any>>(guard: Guard, tools: T, options: MastraOptions = {}): T {
  const { sessionId, agentId } = options;
  const sessionOf = sessions(guard, sessionId);
  const callOf = (tool: string, args: unknown, context: ToolContext = {}): GuardedCall => {
    const { agent } = context;
    return {
      session_id: sessionOf(context, agent?.threadId),
      agent_id: agentId ?? agent?.agentId,
      tool,
      args,
      call_id: agent?.toolCallId,
    };
  };
  const guarded = Object.entries(tools).map(([name, tool]) => [name, guardTool(guard, tool, callOf.bind(null, name))]);
  return Object.fromEntries(guarded) as T;
}

function guardTool(guard: Guard, tool: ToolLike, callOf: (args: unknown, context?: ToolContext) => GuardedCall): ToolLike {
  const { execute, toModelOutput } = tool;
  if (typeof execute !== 'function' || isGuarded in tool) return tool;
  /** Results of ours, and what they were made of. */
  const made = new WeakMap<object, { result: unknown; message: string }>();
  const append = (result: unknown, message: string): unknown => {
    const whole = appended(result, message);
    if (toModelOutput === undefined) return whole;
    const held = { result, notice: message };
    made.set(held, { result, message });
    return held;
  };
  // A tool is an object of a class, with methods that the agent calls.
  return Object.assign(Object.create(Object.getPrototypeOf(tool)) as ToolLike, tool, {
    [isGuarded]: true,
    execute: (input: unknown, context?: ToolContext) =>
      around(guard, CALLER, callOf(input, context), () => execute.call(tool, input, context), { refuse, append }),
    ...(toModelOutput !== undefined && {
      async toModelOutput(output: unknown) {
        const known = typeof output === 'object' && output !== null ? made.get(output) : undefined;
        if (known === undefined) return toModelOutput.call(tool, output);
        return withText(await toModelOutput.call(tool, known.result), known.message);
      },
    }),
  });
}
