/** Answers of the guard, read with suspicion: what is not understood is `allow`. */

/** Longest text for a model; a longer one is cut. Characters. */
export const MESSAGE_CHARS_MAX = 1_000;

/** Where a text for the model goes. */
export type Placement = 'before' | 'append_to_result' | 'next_turn';

/** What an agent may do next, and what its model should read. */
export interface Decision {
  /** Whether the call may run. */
  decision: 'allow' | 'deny';
  /** What it comes from. A nudge is `allow` with a message. */
  action: 'none' | 'nudge' | 'block';
  /** Text for the model; with `deny` never empty. */
  message?: string;
  placement?: Placement;
  command_id?: string;
  episode?: string;
  level?: number;
  reason?: { code: string; summary?: string };
  expires_at?: string;
  advice?: string;
  /** End the turn of the agent. */
  stop: boolean;
  /** An operator's stop: where no guard answers any more, it holds until `expires_at`. */
  fail?: 'closed';
  /** Decided without fresh verdicts. */
  stale: boolean;
  /** Whether the event was taken. */
  recorded: boolean;
  /** Why there was no usable answer: the guard was not asked, or what it said was not understood. */
  failed?: string;
}

/** The call may run, and there is nothing to say. */
export function allow(failed?: string): Decision {
  return {
    decision: 'allow',
    action: 'none',
    stop: false,
    stale: false,
    recorded: false,
    ...(failed === undefined ? {} : { failed }),
  };
}

/**
 * Reads the body of an answer. Only known fields of their own type are taken.
 *
 * @throws Error that says what is wrong; never with a part of the body.
 */
export function readDecision(body: string): Decision {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    throw new Error('the answer is not JSON');
  }
  if (!isObject(answer)) throw new Error('the answer is not an object');
  if (answer['v'] !== 1) throw new Error('the answer has an unknown version');
  const { decision } = answer;
  if (decision !== 'allow' && decision !== 'deny') throw new Error('the answer has an unknown decision');
  const message = readMessage(answer['message']);
  if (decision === 'deny' && message === undefined) throw new Error('the answer refuses without a message');

  const read = allow();
  read.decision = decision;
  if (decision === 'deny') read.action = 'block';
  else if (answer['action'] === 'nudge' && message !== undefined) read.action = 'nudge';
  if (message !== undefined && read.action !== 'none') read.message = message;
  const { placement, level, reason, state } = answer;
  if (placement === 'before' || placement === 'append_to_result' || placement === 'next_turn') read.placement = placement;
  if (Number.isInteger(level)) read.level = level as number;
  for (const name of ['command_id', 'episode', 'expires_at', 'advice'] as const) {
    const text = readName(answer[name]);
    if (text !== undefined) read[name] = text;
  }
  const code = isObject(reason) ? readName(reason['code']) : undefined;
  if (isObject(reason) && code !== undefined) {
    const summary = readMessage(reason['summary']);
    read.reason = summary === undefined ? { code } : { code, summary };
  }
  if (decision === 'deny' && answer['fail'] === 'closed') read.fail = 'closed';
  read.stop = answer['stop'] === true;
  // An answer that does not say that it knows does not know.
  read.stale = !isObject(state) || state['stale'] !== false;
  read.recorded = answer['recorded'] === true;
  return read;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function readName(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= 256 ? value : undefined;
}

/** Text without control characters but line ends and tabs, cut at its limit between characters. */
function readMessage(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const clean = value.slice(0, 2 * MESSAGE_CHARS_MAX).toWellFormed().replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
  const cut = [...clean].slice(0, MESSAGE_CHARS_MAX).join('').trim();
  return cut === '' ? undefined : cut;
}
