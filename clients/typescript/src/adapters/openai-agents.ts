/**
 * OpenAI Agents: guardrails on every function tool that an agent has when it runs, those of its MCP servers too.
 *
 * A refusal stands in the place of the tool's result. A nudge is behind it.
 */

import { ask, type Asked, type GuardedCall } from '../around.js';
import type { Caller } from '../caller.js';
import type { Guard } from '../guard.js';
import { sessions, type SessionId } from '../whose.js';

const CALLER: Caller = { name: 'openai-agents', can: ['deny', 'context_after'] };
const NAME = 'loopwarden';
/** Calls under way that are remembered. */
const OPEN_MAX = 1_024;

export interface OpenAiAgentsOptions {
  /** The conversation: one text, or made of the context that the run was given. */
  sessionId?: SessionId<any>;
}

/** What is read of an agent of the framework. */
interface AgentLike {
  name: string;
  handoffs?: readonly any[];
  getAllTools(...args: any[]): Promise<any[]>;
}

/** What the framework tells a guardrail. */
interface Data {
  context: { context?: unknown };
  agent: AgentLike;
  toolCall: { callId?: string; name: string; arguments: string };
  output?: unknown;
}

type Verdict = { behavior: { type: 'allow' } | { type: 'rejectContent'; message: string } };
const ALLOW: Verdict = { behavior: { type: 'allow' } };
const instead = (message: string): Verdict => ({ behavior: { type: 'rejectContent', message } });

/** The guardrails of one guard. Tools are shared by agents: which of them calls, and in which session, is asked at each call. */
class Rails {
  readonly sessions = new WeakMap<AgentLike, (data: Data) => string>();
  readonly #open = new Map<string, Asked>();
  readonly input: { type: 'tool_input'; name: string; run: (data: Data) => Promise<Verdict> };
  readonly output: { type: 'tool_output'; name: string; run: (data: Data) => Promise<Verdict> };

  constructor(guard: Guard) {
    this.input = { type: 'tool_input', name: NAME, run: (data) => this.#before(guard, data) };
    this.output = { type: 'tool_output', name: NAME, run: (data) => this.#after(data) };
  }

  async #before(guard: Guard, data: Data): Promise<Verdict> {
    const session_id = this.sessions.get(data.agent)?.(data);
    if (session_id === undefined) return ALLOW;
    const { name: tool, arguments: args, callId: call_id } = data.toolCall;
    const call: GuardedCall = { session_id, agent_id: data.agent.name, tool, args, call_id };
    const asked = await ask(guard, CALLER, call);
    if (asked.refusal !== undefined) return instead(asked.refusal);
    const [oldest] = this.#open.keys();
    if (this.#open.size >= OPEN_MAX && oldest !== undefined) this.#open.delete(oldest);
    this.#open.set(`${session_id}\u001f${data.agent.name}\u001f${call_id}`, asked);
    return ALLOW;
  }

  async #after(data: Data): Promise<Verdict> {
    const key = `${this.sessions.get(data.agent)?.(data)}\u001f${data.agent.name}\u001f${data.toolCall.callId}`;
    const asked = this.#open.get(key);
    this.#open.delete(key);
    const message = await asked?.done({ result: data.output, outcome: 'ok' });
    if (!message) return ALLOW;
    return instead(`${typeof data.output === 'string' ? data.output : JSON.stringify(data.output)}\n\n${message}`);
  }
}

const railsOf = new WeakMap<Guard, Rails>();

/** Guards an agent and all that it can hand off to. An agent that is a tool of it (`asTool`) is guarded by a call of its own. */
export function guardAgent<A extends AgentLike>(guard: Guard, agent: A, { sessionId }: OpenAiAgentsOptions = {}): A {
  const rails = railsOf.get(guard) ?? new Rails(guard);
  railsOf.set(guard, rails);
  const find = sessions(guard, sessionId);
  const sessionOf = ({ context }: Data): string => find(context.context);
  const visit = (one: AgentLike): void => {
    if (rails.sessions.has(one)) return;
    rails.sessions.set(one, sessionOf);
    const getAllTools = one.getAllTools.bind(one);
    one.getAllTools = async (...args) => {
      const tools = await getAllTools(...args);
      for (const tool of tools) if (tool.type === 'function' && !tool.inputGuardrails?.includes(rails.input)) {
        tool.inputGuardrails = [...(tool.inputGuardrails ?? []), rails.input];
        tool.outputGuardrails = [...(tool.outputGuardrails ?? []), rails.output];
      }
      return tools;
    };
    for (const handoff of one.handoffs ?? []) visit(handoff.agent ?? handoff);
  };
  visit(agent);
  return agent;
}
