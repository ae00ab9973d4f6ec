/** Which calls a command means: the same text and hash as loopwarden makes, and the scope compared with a call. */

import { createHash } from 'node:crypto';

import { canonical, Digits, parse } from './canonical.js';

/** How `scope.fingerprint` of a command is made. */
export interface Identity {
  kind: 'call' | 'coarse' | 'args' | 'opaque';
  /** Only these top-level arguments. */
  args?: readonly string[];
  /** All but these. */
  args_ignored?: readonly string[];
}

/** Whom and which calls a command binds; `scope` of a command, as it is on the wire. */
export interface Scope {
  kind: 'agent' | 'session' | 'swarm' | 'fleet';
  agent_id?: string;
  tool?: string;
  fingerprint?: string;
  identity?: Identity;
  only?: readonly { session_id: string; agent_id: string }[];
}

/** What of a command is needed to tell which calls it means. */
export interface Command {
  action: string;
  session_id?: string;
  swarm_id?: string;
  tenant?: string;
  scope: Scope;
}

/** A call that is about to run. */
export interface Call {
  session_id: string;
  agent_id?: string;
  swarm_id?: string;
  tenant?: string;
  tool: string;
  args?: unknown;
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
export function identityText(tool: string, args: unknown, identity: Identity = { kind: 'call' }): string | undefined {
  const { kind, args: only = [], args_ignored: ignored = [] } = identity;
  const counts = (name: string): boolean => (only.length === 0 || only.includes(name)) && !ignored.includes(name);
  switch (kind) {
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
export function fingerprint(tool: string, args?: unknown, identity?: Identity): string | undefined {
  const text = identityText(tool, args, identity);
  return text === undefined ? undefined : sha256(text).slice(0, 32);
}

/** Whether a command means a call. What cannot be told is not meant: a command is never widened. */
export function means(command: Command, call: Call): boolean {
  try {
    return bindsCaller(command, call) && bindsCall(command, call);
  } catch {
    return false;
  }
}

function bindsCaller({ scope, ...command }: Command, call: Call): boolean {
  const agent = call.agent_id ?? 'main';
  if ((command.tenant ?? '') !== (call.tenant ?? '')) return false;
  switch (scope.kind) {
    case 'agent':
      return command.session_id === call.session_id && scope.agent_id === agent;
    case 'session':
      return command.session_id === call.session_id;
    case 'swarm':
    case 'fleet': {
      if (scope.kind === 'swarm' && (call.swarm_id === undefined || command.swarm_id !== call.swarm_id)) return false;
      return scope.only?.some((only) => only.session_id === call.session_id && only.agent_id === agent) ?? true;
    }
    default:
      return false;
  }
}

function bindsCall({ action, scope }: Command, call: Call): boolean {
  if (scope.tool !== undefined && scope.tool !== call.tool) return false;
  if (scope.fingerprint === undefined) return true;
  // Only nudges are opaque; they go to the next call of the tool.
  if (scope.identity?.kind === 'opaque') return action === 'nudge';
  return scope.fingerprint === fingerprint(call.tool, call.args, scope.identity);
}
