/**
 * Claude Agent SDK: hooks for `query({ prompt, options: { hooks: guardHooks(guard) } })`.
 *
 * A refusal is the SDK's denial of a call with our text as its reason. A nudge is context beside the call.
 */

import { eventOf, textOf, type GuardedCall, type Report } from '../around.js';
import type { Decision } from '../decision.js';
import type { Caller } from '../caller.js';
import type { Guard } from '../guard.js';
import { sessions } from '../whose.js';

const CALLER: Caller = { name: 'claude-agent-sdk', can: ['deny', 'context_before', 'context_after', 'stop'] };

export interface ClaudeAgentOptions {
  /** The conversation. Default: the SDK's own session. */
  sessionId?: string | undefined;
}

/** What the SDK hands to a hook; only what is read here. */
interface HookInput {
  hook_event_name: string;
  session_id?: string;
  /** Only in a sub-agent. */
  agent_id?: string;
  tool_name?: string;
  tool_input?: unknown;
  tool_response?: unknown;
  error?: string;
  is_interrupt?: boolean;
}

type HookAnswer = Record<string, unknown>;
// The SDK's own type of an answer is a union of all that any hook may say.
type Hook = (input: any, toolUseId: string | undefined) => Promise<any>;
type HookEvent = 'PreToolUse' | 'PostToolUse' | 'PostToolUseFailure' | 'UserPromptSubmit';

/** Hooks for the four events that are needed. To keep hooks of your own, join the lists. */
export function guardHooks(guard: Guard, { sessionId }: ClaudeAgentOptions = {}): Record<HookEvent, { hooks: Hook[] }[]> {
  const sessionOf = sessions(guard, sessionId);
  const callOf = (input: HookInput, toolUseId: string | undefined): GuardedCall => ({
    session_id: sessionOf(undefined, input.session_id),
    agent_id: input.agent_id,
    tool: input.tool_name ?? 'unknown',
    args: input.tool_input,
    call_id: toolUseId,
  });
  const after = async (input: HookInput, toolUseId: string | undefined, report: Report): Promise<HookAnswer> =>
    answer(input.hook_event_name, await guard.observe({ ...eventOf(callOf(input, toolUseId)), ...report }, CALLER));

  const hooks: Record<HookEvent, Hook> = {
    PreToolUse: async (input: HookInput, id) => {
      const decision = await guard.check(eventOf(callOf(input, id)), CALLER);
      return answer(input.hook_event_name, decision);
    },
    PostToolUse: (input: HookInput, id) => after(input, id, { result: input.tool_response, outcome: 'ok' }),
    PostToolUseFailure: (input: HookInput, id) => after(input, id, failed(input)),
    UserPromptSubmit: async (input: HookInput) => {
      // A person has spoken: what was repeated before may be asked for again.
      const { session_id, agent } = eventOf(callOf(input, undefined));
      await guard.observe({ session_id, agent: agent ?? {}, kind: 'message', role: 'user' }, CALLER);
      return {};
    },
  };
  const matchers = Object.entries(hooks).map(([event, hook]) => [event, [{ hooks: [safe(hook)] }]]);
  return Object.fromEntries(matchers) as ReturnType<typeof guardHooks>;
}

/** The SDK refuses a call whose hook throws. */
function safe(hook: Hook): Hook {
  return async (input, toolUseId) => {
    try {
      return await hook(input, toolUseId);
    } catch {
      return {};
    }
  };
}

/** No opinion is an empty answer: `allow` would skip the person's permission. */
function answer(hookEventName: string, decision: Decision): HookAnswer {
  const stop = decision.stop ? { continue: false, stopReason: textOf(decision) } : {};
  if (decision.decision === 'deny' && hookEventName === 'PreToolUse') {
    const hookSpecificOutput = { hookEventName, permissionDecision: 'deny', permissionDecisionReason: textOf(decision) };
    return { hookSpecificOutput, ...stop };
  }
  if (decision.message === undefined || decision.decision === 'deny') return stop;
  return { hookSpecificOutput: { hookEventName, additionalContext: decision.message }, ...stop };
}

/** The error of a shell begins with its exit code. */
function failed({ error = '', is_interrupt }: HookInput): Report {
  if (is_interrupt) return { outcome: 'cancelled' };
  const code = /^Exit code (\d{1,3})\b/.exec(error)?.[1];
  const message = error.slice(0, 4_096);
  return { outcome: 'error', result: error, error: { type: 'tool', message, ...(code && { exit_code: Number(code) }) } };
}
