/**
 * LangChain.js: a middleware for `createAgent`.
 *
 * A refusal is a tool message with status `error`, and the tool does not run. A nudge is behind the content of the tool's message.
 * Put it first in the list: middleware behind it that retries calls then does so inside of one.
 */

import { ToolMessage, createMiddleware } from 'langchain';

import { appended, around, type GuardedCall, type Report } from '../around.js';
import type { Caller } from '../caller.js';
import type { Guard } from '../guard.js';
import { sessions, Turns } from '../whose.js';

const CALLER: Caller = { name: 'langchain', can: ['deny', 'context_after'] };

export interface LangChainOptions {
  /** The conversation. Default: `configurable.thread_id` of the run. */
  sessionId?: string | undefined;
  /** Which agent of it has this middleware; default `main`. */
  agentId?: string | undefined;
}

/** The middleware: `createAgent({ …, middleware: [guardMiddleware(guard)] })`. */
export function guardMiddleware(guard: Guard, { sessionId, agentId }: LangChainOptions = {}): ReturnType<typeof createMiddleware> {
  const find = sessions(guard, sessionId);
  const sessionOf = (runtime?: { configurable?: { thread_id?: string } }): string =>
    find(undefined, runtime?.configurable?.thread_id);
  const turns = new Turns();

  return createMiddleware({
    name: 'loopwarden',
    async beforeAgent(state, runtime) {
      // A person has spoken: what was repeated before may be asked for again.
      if (state.messages.at(-1)?.getType() !== 'human') return;
      const event = { session_id: sessionOf(runtime), agent: { id: agentId }, kind: 'message', role: 'user' } as const;
      await guard.observe(event, CALLER);
    },
    async wrapToolCall(request, handler) {
      const { id, name, args } = request.toolCall;
      const call: GuardedCall = {
        session_id: sessionOf(request.runtime),
        agent_id: agentId,
        tool: name,
        args,
        call_id: id,
        turn: turns.of(request.state.messages),
      };
      const error = (content: string): ToolMessage => new ToolMessage({ content, name, tool_call_id: id ?? '', status: 'error' });
      try {
        return await around<Awaited<ReturnType<typeof handler>>>(guard, CALLER, call, () => handler(request), {
          refuse: error,
          append: (result, message) =>
            ToolMessage.isInstance(result) ? copy(result, appended(result.content, message) as ToolMessage['content']) : result,
          pauses: isControl,
          report: (result) => (ToolMessage.isInstance(result) ? reportOf(result) : { outcome: 'unknown' }),
        });
      } catch (thrown) {
        // With a middleware, LangChain ends the run for an exception that it otherwise gives to the model. That stays as it was.
        const cause = innermost(thrown);
        if (request.runtime.signal?.aborted || isControl(cause) || nameOf(cause) === 'ToolInvocationError') throw thrown;
        return error(`${cause}\n Please fix your mistakes.`);
      }
    },
  });
}

function reportOf({ content, status }: ToolMessage): Report {
  if (status === 'error') return { outcome: 'error', result: content, error: { type: 'ToolMessage' } };
  return { outcome: 'ok', result: content };
}

function copy(message: ToolMessage, content: ToolMessage['content']): ToolMessage {
  const { name, tool_call_id, status, artifact, additional_kwargs, response_metadata, id } = message;
  return new ToolMessage({
    content,
    tool_call_id,
    artifact,
    additional_kwargs,
    response_metadata,
    ...(name === undefined ? {} : { name }),
    ...(status === undefined ? {} : { status }),
    ...(id === undefined ? {} : { id }),
  });
}

const nameOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.name : '');

/** What LangGraph throws to pause or to go elsewhere. */
function isControl(thrown: unknown): boolean {
  return /^(Graph\w+|NodeInterrupt|ParentCommand)$/.test(nameOf(innermost(thrown)));
}

/** What was thrown first: each middleware wraps it once more. */
function innermost(thrown: unknown): unknown {
  let cause = thrown;
  while (cause instanceof Error && cause.name === 'MiddlewareError' && cause.cause !== undefined) cause = cause.cause;
  return cause;
}
