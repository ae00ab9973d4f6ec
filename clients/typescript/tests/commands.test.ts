/** Commands in force, one rule at a time. What many of them mean together, the vectors say. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Commands, type Who } from '@loopwarden/client';

const NOW = Date.parse('2026-01-05T09:00:00Z');
const WHO: Who = { session_id: 's' };
const ARGS = { command: 'cargo test -p core' };
const SCOPE = { kind: 'session', agent_id: 'main', tool: 'Bash', fingerprint: 'a4404e81f177a67db9d08a78ed566b35' };

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

function stop(seq: number, kind: string, fields: Record<string, unknown>, action = 'block'): Record<string, unknown> {
  const wide = { scope: { kind, by: 'stop' }, level: 4, advice: 'stop', reason: { code: action === 'block' ? 'stop' : 'release' } };
  const { session_id: _, ...rest } = command(seq, { id: `${kind}${seq}`, action, ...wide });
  return { ...rest, ...fields };
}

test('a stop of an operator refuses all calls of whom it names, and no other command lifts it', () => {
  for (const [kind, fields, who] of [
    ['session', { session_id: 's' }, { session_id: 's', agent_id: 'any' }],
    ['agent', { scope: { kind: 'agent', name: 'fixer', by: 'stop' } }, { session_id: 'any', agent_id: 'fixer' }],
    ['swarm', { swarm_id: 'w' }, { session_id: 'any', swarm_id: 'w' }],
    ['tenant', { tenant: 't' }, { session_id: 'any', tenant: 't' }],
    ['all', {}, { session_id: 'any', tenant: 'any' }],
  ] as const) {
    const commands = new Commands(() => NOW);
    const ask = (of: Who): ReturnType<Commands['decide']> => commands.decide({ who: of, tool: 'Bash', args: ARGS, can: ['deny', 'stop'] });
    commands.apply(command(1, { id: 'block', ...(kind === 'session' ? {} : { session_id: 'any' }) }));
    assert.equal(commands.apply(stop(1, kind, fields)), 'applied', kind);
    assert.deepEqual([ask(who).decision, ask(who).stop, ask(who).reason?.code], ['deny', true, 'stop'], kind);
    assert.equal(ask({ session_id: 'x', agent_id: 'y', swarm_id: 'z', tenant: 'u' }).decision === 'deny', kind === 'all', kind);
    commands.apply(command(2, { id: 'lift', action: 'unblock', ...(kind === 'session' ? {} : { session_id: 'any' }) }));
    assert.equal(ask(who).decision, 'deny', kind);
    assert.equal(commands.apply(stop(2, kind, fields, 'unblock')), 'applied', kind);
    assert.equal(ask(who).decision, 'allow', kind);
    assert.equal(commands.apply({ ...stop(1, kind, fields), id: 'late' }), 'stale', kind);
  }
});

test('a budget of a group refuses all calls of its agents, whatever they have of their own, and of nobody else', () => {
  for (const [kind, name] of [['agent', 'fixer'], ['session', 's'], ['swarm', 'w'], ['tenant', undefined], ['label', 'team=search']] as const) {
    const commands = new Commands(() => NOW);
    const who: Who = { session_id: 's', agent_id: 'fixer', swarm_id: 'w', tenant: 't', labels: { team: 'search' } };
    const field = kind === 'session' || kind === 'swarm' ? `${kind}_id` : undefined;
    const scope = { kind, by: 'budget/b/day', ...(field === undefined && name !== undefined ? { name } : {}) };
    const of = (seq: number, fields: Record<string, unknown> = {}): Record<string, unknown> => {
      const { session_id: _, ...rest } = command(seq, { tenant: 't', level: 4, reason: { code: 'budget' }, scope });
      return { ...rest, ...(field === undefined ? {} : { [field]: name }), ...fields };
    };
    commands.apply(command(7, { id: 'own', tenant: 't', action: 'nudge', scope: { kind: 'session', agent_id: 'fixer' } }));
    assert.equal(commands.apply(of(1)), 'applied', kind);
    const ask = (other: Who): string | undefined => {
      const { decision, reason } = commands.decide({ who: other, tool: 'Bash', args: { any: 1 }, can: ['deny'] });
      return decision === 'deny' ? reason?.code : undefined;
    };
    assert.equal(ask(who), 'budget', kind);
    assert.equal(ask({ ...who, tenant: undefined }), undefined, kind);
    const another: Who = { session_id: 'x', agent_id: 'y', swarm_id: 'z', tenant: 't', labels: { team: 'x' } };
    assert.equal(ask(another), kind === 'tenant' ? 'budget' : undefined, kind);
    assert.equal(commands.apply(of(2, { id: 'lift', action: 'unblock' })), 'applied', kind);
    assert.equal(ask(who), undefined, kind);
    assert.equal(commands.apply(of(3, { scope: { ...scope, kind: 'galaxy' } })), 'unknown', kind);
    assert.equal(commands.apply(of(4, { scope: { kind: 'label', by: 'budget/b/day' } })), 'malformed', kind);
  }
});

test('a nudge of a budget is given to each agent of the group once', () => {
  const commands = new Commands(() => NOW);
  commands.apply(command(1, { action: 'nudge', scope: { kind: 'label', name: 'team=search', by: 'budget/b/day' } }));
  for (const session_id of ['s', 'x']) {
    const who: Who = { session_id, labels: { team: 'search' } };
    const said = (['before', 'after', 'after'] as const).map((phase) => commands.decide({ who, phase, tool: 'Bash', args: {}, can: ['context_after'] }).message);
    assert.deepEqual(said, [undefined, 'text 1', undefined], session_id);
  }
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
