/**
 * The decision itself: a function of what is in force, what the caller can do and what it was told. It changes nothing. It decides
 * as the guard does; vectors that the guard has answered hold both to it.
 */

import { MESSAGE_CHARS_MAX, type Placement } from './decision.js';
import type { Ability } from './caller.js';
import { isStop, stops, type Verdict } from './verdict.js';

/** Where an agent is. */
export type Phase = 'before' | 'after' | 'turn';

/** A verdict in force, seen from one event. */
export interface Candidate {
  verdict: Verdict;
  /** It binds the call of the event. */
  matches: boolean;
  /** A nudge that may be handed out now. */
  isDue: boolean;
  /** It comes from the history of others: it is to be said at a call that it binds, and at no other. */
  isOfOthers: boolean;
}

/** What is decided. Without a verdict there is nothing to do. */
export interface Outcome {
  verdict?: Verdict;
  isDenied?: boolean;
  message?: string;
  placement?: Placement;
  stop?: boolean;
  /** A nudge is handed out. */
  isTold?: boolean;
  /** These are to be said after the call. */
  held?: readonly Verdict[];
}

const PREFIX = '[System] ';
const NO_TEXT = 'This call was refused: it is part of a loop that goes on.';
const ONCE = ' The same call will be let through if it is needed.';

export function decide(phase: Phase, can: readonly Ability[], candidates: readonly Candidate[]): Outcome {
  const speaksAfter = can.includes('context_after') || can.includes('replace_result');
  switch (phase) {
    case 'before':
      return before(can, candidates, speaksAfter);
    case 'after': {
      const stop = strongest(candidates.filter((held) => stops(held.verdict) && !held.isOfOthers));
      if (stop !== undefined && can.includes('stop')) {
        return { verdict: stop, message: plain(stop.message), placement: 'append_to_result', stop: true };
      }
      return speaksAfter ? nudge(candidates.filter(isDue), 'append_to_result') : {};
    }
    case 'turn':
      if (!can.includes('context_before') && !can.includes('context_after')) return {};
      return nudge(candidates.filter((held) => isDue(held) && !held.isOfOthers), 'next_turn');
    default:
      return {};
  }
}

function before(can: readonly Ability[], candidates: readonly Candidate[], speaksAfter: boolean): Outcome {
  const verdict = strongest(candidates.filter((held) => held.verdict.action === 'block' && held.matches));
  if (verdict !== undefined) {
    const told = { verdict, message: plain(verdict.message), placement: 'before' } as const;
    if (can.includes('deny')) return { ...told, isDenied: true, stop: stops(verdict) && can.includes('stop') };
    // The call would be refused, but the caller cannot.
    return can.includes('context_before') ? told : { verdict };
  }
  const due = candidates.filter(isDue);
  if (can.includes('context_before')) return nudge(due, 'before');
  if (speaksAfter) return { held: due.filter((held) => held.isOfOthers).map((held) => held.verdict) };
  if (!can.includes('deny')) return {};
  // A call that would have been the repeat is refused once, with the nudge as the reason. Never another one.
  const repeated = strongest(due.filter((held) => held.matches && held.verdict.scope.fingerprint !== undefined));
  if (repeated === undefined) return {};
  return { verdict: repeated, isDenied: true, message: once(repeated.message), placement: 'before', isTold: true };
}

function nudge(due: readonly Candidate[], placement: Placement): Outcome {
  const verdict = strongest(due);
  return verdict === undefined ? {} : { verdict, message: plain(verdict.message), placement, isTold: true };
}

function isDue({ isDue, verdict }: Candidate): boolean {
  return isDue && verdict.action === 'nudge';
}

/** The firmer one first, then the later one, then any, but always the same. */
function strongest(candidates: readonly Candidate[]): Verdict | undefined {
  return candidates
    .map(({ verdict }) => verdict)
    .reduce<Verdict | undefined>((best, next) => (best === undefined || !isFirmer(best, next) ? next : best), undefined);
}

function isFirmer(one: Verdict, other: Verdict): boolean {
  if (isStop(one.scope) !== isStop(other.scope)) return isStop(one.scope);
  if (one.level !== other.level) return one.level > other.level;
  if (one.issuedMs !== other.issuedMs) return one.issuedMs > other.issuedMs;
  return one.commandId > other.commandId;
}

/** The text of a command for a model: bounded, never empty. */
export function plain(message: string): string {
  // Text that poses as a word of the system may be taken for an injection.
  const text = message.replaceAll(PREFIX, '').trim();
  return text === '' ? NO_TEXT : cut(text, MESSAGE_CHARS_MAX);
}

/** The text of a nudge that comes as the refusal of one call. */
export function once(message: string): string {
  return cut(plain(message), MESSAGE_CHARS_MAX - ONCE.length) + ONCE;
}

function cut(text: string, most: number): string {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join('')}…`;
}
