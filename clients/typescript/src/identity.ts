/** Which calls are the same: the same text and hash as loopwarden makes. */

import { createHash } from 'node:crypto';

import { canonical, Digits, parse } from './canonical.js';

/** How `scope.fingerprint` of a command is made. */
export interface Identity {
  kind?: 'call' | 'coarse' | 'args' | 'opaque' | null;
  /** Only these top-level arguments. */
  args?: readonly string[];
  /** All but these. */
  args_ignored?: readonly string[];
}

/** What arguments are, once looked at: JSON, also where they came as text that holds JSON, or other text. */
function argsView(args: unknown): { value: unknown } | { text: string } {
  if (args === undefined || args === null) return { value: {} };
  if (typeof args !== 'string') return { value: args };
  try {
    return { value: parse(args) };
  } catch {
    return { text: args.toWellFormed() };
  }
}

/** Canonical arguments: JSON in its one spelling, other text as it is, `{}` where absent. */
export function canonicalArgs(args: unknown): string {
  const view = argsView(args);
  return 'text' in view ? view.text : (canonical(view.value) ?? '{}');
}

/** The same with some of the top-level arguments. */
function chosenArgs(args: unknown, isChosen: (name: string) => boolean): string {
  const view = argsView(args);
  if ('text' in view) return view.text;
  // Members are chosen after `toJSON` has spoken: what counts is what goes over the wire.
  const value = parse(canonical(view.value) ?? '{}');
  if (!isObject(value)) return canonical(value) ?? '{}';
  const kept = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of Object.entries(value)) if (isChosen(name)) kept[name] = member;
  return canonical(kept) ?? '{}';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Digits);
}

function hasAny(args: unknown, names: readonly string[]): boolean {
  const view = argsView(args);
  const value = 'value' in view ? view.value : undefined;
  return isObject(value) && names.some((name) => Object.hasOwn(value, name));
}

/** The text whose hash identifies a call, or nothing where a worker cannot make it. */
export function identityText(tool: string, args: unknown, identity?: Identity | null): string | undefined {
  const { kind, args: only = [], args_ignored: ignored = [] } = identity ?? {};
  const counts = (name: string): boolean => (only.length === 0 || only.includes(name)) && !ignored.includes(name);
  switch (kind ?? 'call') {
    case 'call':
      return `${tool}\n${chosenArgs(args, counts)}`;
    case 'args':
      return chosenArgs(args, counts);
    case 'coarse':
      return `${tool}:${hasAny(args, only) ? chosenArgs(args, (name) => only.includes(name)) : canonicalArgs(args)}`;
    default:
      return undefined;
  }
}

/** SHA-256 of a text in UTF-8, 64 hex digits. */
export function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}

/** SHA-256 of tool, line feed and canonical arguments. */
export function callSha256(tool: string, args?: unknown): string {
  return sha256(`${tool}\n${canonicalArgs(args)}`);
}

/** What `scope.fingerprint` is for a call: 32 hex digits, or nothing where a worker cannot tell. */
export function fingerprint(tool: string, args?: unknown, identity?: Identity | null): string | undefined {
  const text = identityText(tool, args, identity);
  return text === undefined ? undefined : sha256(text).slice(0, 32);
}
