/** Commands in force, one rule at a time. What many of them mean together, the vectors say. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Commands, type Who } from '@loopwarden/client';

const NOW = Date.parse('2026-01-05T09:00:00Z');
const WHO: Who = { session_id: 's' };
const ARGS = { command: 'cargo test -p core' };
const SCOPE = { kind: 'agent', agent_id: 'main', tool: 'Bash', fingerprint: 'a4404e81f177a67db9d08a78ed566b35' };

function command(seq: number, fields: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    v: 1, id: `C${seq}`, action: 'block', session_id: 's', scope: SCOPE, level: 3, epoch: 1, seq, episode: 'e', mode: 'live',
    issued_at: '2026-01-05T09:00:00Z', expires_at: '2026-01-05T09:10:00Z', reason: { code: 'exact_repeat' }, message: `text ${seq}`, ...fields,
  };
}

test('a block refuses what it matches and nothing else', () => {
  let now = NOW;
  const commands = new Commands(() => now);
  const isDenied = (who: Who, tool: string, args: unknown): boolean => commands.decide({ who, tool, args }).decision === 'deny';
  assert.equal(commands.apply(command(1)), 'applied');
  assert.equal(commands.decide({ who: WHO, tool: 'Bash', args: ARGS }).message, 'text 1');
  assert.ok(isDenied(WHO, 'Bash', '{ "command" : "cargo test -p core" }'));
  for (const [who, tool, args] of [
    [WHO, 'bash', ARGS],
    [WHO, 'Bash', { command: 'ls' }],
    [{ session_id: 't' }, 'Bash', ARGS],
    [{ ...WHO, agent_id: 'fixer' }, 'Bash', ARGS],
    [{ ...WHO, tenant: 't' }, 'Bash', ARGS],
    [WHO, 'Bash', { get command(): never { throw new Error('getter'); } }],
  ] as const) assert.ok(!isDenied(who, tool, args), JSON.stringify([who, tool]));
  now += 600_000;
  assert.ok(!isDenied(WHO, 'Bash', ARGS));
});

test('numbers are compared without loss', () => {
  const commands = new Commands(() => NOW);
  const text = (id: string, seq: string, action = 'block'): string => JSON.stringify(command(1, { id, action })).replace('"seq":1', `"seq":${seq}`);
  assert.equal(commands.read(text('a', '9007199254740993')), 'applied');
  assert.equal(commands.read(text('b', '9007199254740992', 'unblock')), 'stale');
  assert.equal(commands.read(text('c', '9007199254740994', 'unblock')), 'applied');
  assert.equal(commands.read(text('d', '18446744073709551616')), 'malformed');
  assert.equal(commands.apply(command(1, { id: 'e', seq: 9007199254740995n })), 'applied');
});

test('memory is bounded', () => {
  const commands = new Commands(() => NOW);
  for (let number = 0; number < 100_010; number += 1) commands.apply(command(1, { id: String(number), session_id: String(number) }));
  const isDenied = (session_id: string): boolean => commands.decide({ who: { session_id }, tool: 'Bash', args: ARGS }).decision === 'deny';
  assert.deepEqual([isDenied('9'), isDenied('10')], [false, true]);
});

test('a person voids what was not said', () => {
  const commands = new Commands(() => NOW);
  commands.apply(command(1, { action: 'nudge' }));
  commands.beginAnew(WHO);
  assert.equal(commands.decide({ who: WHO, tool: 'Bash', args: ARGS }).action, 'none');
});
