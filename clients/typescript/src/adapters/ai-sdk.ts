/**
 * Vercel AI SDK: every tool of a set asks before it runs and reports after.
 *
 * A refusal is an error of the tool, which the SDK gives to the model as such. A nudge is behind what the model reads of the
 * result; the result itself stays as it is, unless it is text.
 */

import { around, ask, type GuardedCall } from '../around.js';
import type { Caller } from '../caller.js';
import type { Guard } from '../guard.js';
import { plainOutput, refuse, withText } from '../model-output.js';
import { sessions, Turns, type SessionId } from '../whose.js';

const CALLER: Caller = { name: 'ai-sdk', can: ['deny', 'context_after'] };
/** Texts that wait to be read by the model. */
const WAITING_MAX = 256;

export interface AiSdkOptions {
  /** The conversation: one text, or one for each call. */
  sessionId?: SessionId<ToolCallOptions>;
  /** Which agent of it has these tools; default `main`. */
  agentId?: string | undefined;
}

/** What the SDK hands to a tool; only what is read here. */
export interface ToolCallOptions {
  toolCallId: string;
  messages?: readonly unknown[];
  context?: unknown;
}

interface ToolLike {
  execute?: ((input: any, options: any) => unknown) | undefined;
  toModelOutput?: ((given: any) => any) | undefined;
}

const isGuarded = Symbol('loopwarden');

/** The same tools, guarded. Tools that the provider runs are left as they are. */
export function guardTools<T extends Record<string, any>>(guard: Guard, tools: T, options: AiSdkOptions = {}): T {
  const sessionOf = sessions(guard, options.sessionId);
  const turns = new Turns();
  const callOf = (tool: string, args: unknown, call: ToolCallOptions): GuardedCall => ({
    session_id: sessionOf(call),
    agent_id: options.agentId,
    tool,
    args,
    call_id: call.toolCallId,
    turn: turns.of(call.messages),
  });
  const guarded = Object.entries(tools).map(([name, tool]) => [name, guardTool(guard, tool, callOf.bind(null, name))]);
  return Object.fromEntries(guarded) as T;
}

type CallOf = (args: unknown, call: ToolCallOptions) => GuardedCall;

function guardTool(guard: Guard, tool: ToolLike, callOf: CallOf): ToolLike {
  const { execute, toModelOutput } = tool;
  if (typeof execute !== 'function' || isGuarded in tool) return tool;
  const waiting = new Map<string, string>();
  const append = ({ toolCallId }: ToolCallOptions, result: unknown, message: string): unknown => {
    if (typeof result === 'string' && toModelOutput === undefined) return `${result}\n\n${message}`;
    const [oldest] = waiting.keys();
    if (waiting.size >= WAITING_MAX && oldest !== undefined) waiting.delete(oldest);
    waiting.set(toolCallId, message);
    return result;
  };
  return {
    ...tool,
    [isGuarded]: true,
    // A tool that yields results is one that yields results: the SDK shows those before the last.
    execute: isGenerator(execute)
      ? async function* (input: unknown, call: ToolCallOptions) {
          const asked = await ask(guard, CALLER, callOf(input, call));
          if (asked.refusal !== undefined) refuse(asked.refusal);
          let result: unknown;
          try {
            for await (const part of execute.call(tool, input, call) as AsyncIterable<unknown>) yield (result = part);
          } catch (error) {
            await asked.failed(error);
            throw error;
          }
          const message = await asked.done({ result, outcome: 'ok' });
          if (message !== '') yield append(call, result, message);
        }
      : (input: unknown, call: ToolCallOptions) =>
          around(guard, CALLER, callOf(input, call), () => execute.call(tool, input, call), {
            refuse,
            append: append.bind(null, call),
          }),
    async toModelOutput(given: { toolCallId: string; output: unknown }) {
      const read = toModelOutput === undefined ? plainOutput(given.output) : await toModelOutput.call(tool, given);
      const message = waiting.get(given.toolCallId);
      return message === undefined ? read : withText(read, message);
    },
  } as ToolLike;
}

function isGenerator(execute: unknown): boolean {
  return Object.prototype.toString.call(execute) === '[object AsyncGeneratorFunction]';
}
