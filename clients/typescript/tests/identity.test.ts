/** Identity of calls: published vectors, the cases that loopwarden itself is held to, and where it is there the program. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { callSha256, canonical, canonicalArgs, Digits, fingerprint, identityText, means, NotJson, parse, type Call, type Command, type Identity } from '@loopwarden/client';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const vectors = JSON.parse(readFileSync(here('../tests/vectors.json'), 'utf8')) as {
  canonical: [string, string][];
  fingerprint: [string, string, Identity, string][];
};

test('canonical arguments', () => {
  for (const [args, text] of vectors.canonical) assert.equal(canonicalArgs(args), text, args);
  assert.equal(canonicalArgs(undefined), '{}');
  assert.equal(canonicalArgs(null), '{}');
  assert.equal(canonicalArgs({ b: 2n ** 64n, a: -0, c: undefined, d: [undefined, () => 1], e: new Date(0) }), '{"a":0,"b":18446744073709551616,"d":[null,null],"e":"1970-01-01T00:00:00.000Z"}');
  assert.equal(callSha256('search', '{ }'), callSha256('search'));
});

test('text and object of the same arguments are one call', () => {
  for (const [args, text] of vectors.canonical.filter(([args]) => args.trim().startsWith('{') && !args.includes('719925') && args !== '{"a":')) {
    assert.equal(canonicalArgs(JSON.parse(args)), text, args);
    assert.equal(canonicalArgs(parse(args)), text, args);
  }
});

test('published fingerprints', () => {
  for (const [tool, args, identity, hash] of vectors.fingerprint) {
    assert.equal(fingerprint(tool, args, identity), hash, tool);
    assert.equal(fingerprint(tool, JSON.parse(args), identity), hash, tool);
  }
  assert.equal(fingerprint('Bash', '{}', { kind: 'opaque' }), undefined);
  assert.equal(fingerprint('Bash', '{}', { kind: 'new' } as unknown as Identity), undefined);
});

test('which arguments count', () => {
  const text = (args: unknown, identity: Identity): string | undefined => identityText('t', args, identity);
  assert.equal(text({ a: 1, b: 2 }, { kind: 'coarse', args: ['a', 'x'] }), 't:{"a":1}');
  assert.equal(text({ b: 2 }, { kind: 'coarse', args: ['a'] }), 't:{"b":2}');
  assert.equal(text('text', { kind: 'coarse', args: ['a'] }), 't:text');
  assert.equal(text({ a: 1 }, { kind: 'call', args: ['b'] }), 't\n{}');
  assert.equal(text([1], { kind: 'call', args: ['b'] }), 't\n[1]');
  assert.equal(text({ a: { b: 1 }, b: 2 }, { kind: 'args', args_ignored: ['b'] }), '{"a":{"b":1}}');
  assert.equal(text({ __proto__: null, a: 1 }, { kind: 'coarse', args: ['toString'] }), 't:{"a":1}');
});

test('what is too deep, too large or no JSON ends', () => {
  const deep = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  assert.equal(canonicalArgs(deep(64)), deep(64));
  // Deeper text stays text, as in loopwarden.
  assert.equal(canonicalArgs(` ${deep(65)}`), ` ${deep(65)}`);
  for (const source of ['', '{', '[', '[1', '[1,', '{"a"', '{"a":', '{"a":1,', ']', '[}', '{]', 'nul', '"', '"\\', '"\\u12', `"${'a\\n'.repeat(100_000)}`, '1 2', '--1', '1.', '.5', 'NaN', deep(100_000)]) {
    assert.throws(() => parse(source), NotJson, source.slice(0, 20));
  }
  const cycle: unknown[] = [];
  cycle.push(cycle, cycle);
  assert.throws(() => canonical(cycle), NotJson);
  let wide: unknown = [];
  for (let at = 0; at < 60; at += 1) wide = [wide, wide];
  assert.throws(() => canonical(wide), NotJson);
  assert.throws(() => canonical('x'.repeat(2_000_000)), NotJson);
  assert.deepEqual(parse('[1e400]'), [new Digits('1e400')]);
});

const block = (scope: Partial<Command['scope']>, more: Partial<Command> = {}): Command => ({ action: 'block', session_id: 's', scope: { kind: 'agent', agent_id: 'main', ...scope }, ...more });
const CALL: Call = { session_id: 's', tool: 'Bash', args: { command: 'cargo test -p core' } };

test('which calls a command means', () => {
  const print = { tool: 'Bash', fingerprint: 'a4404e81f177a67db9d08a78ed566b35' };
  const swarm = (scope: Partial<Command['scope']> = {}): Command => block({ kind: 'swarm', ...print, ...scope }, { swarm_id: 'w' });
  const yes: [Command, Call][] = [
    [block({}), CALL],
    [block({ tool: 'Bash' }), CALL],
    [block(print), CALL],
    [block({ ...print, identity: { kind: 'call', args_ignored: ['description'] } }), { ...CALL, args: '{"description":"d","command":"cargo test -p core"}' }],
    [block({ agent_id: 'fixer' }), { ...CALL, agent_id: 'fixer' }],
    [block({ kind: 'session' }), { ...CALL, agent_id: 'fixer' }],
    [swarm(), { ...CALL, session_id: 'other', swarm_id: 'w' }],
    [swarm({ only: [{ session_id: 'other', agent_id: 'main' }] }), { ...CALL, session_id: 'other', swarm_id: 'w' }],
    [block({ kind: 'fleet', ...print }), { ...CALL, session_id: 'other' }],
    [block({ kind: 'fleet', ...print }, { tenant: 't' }), { ...CALL, tenant: 't' }],
    [block({ tool: 'Bash', fingerprint: '0'.repeat(32), identity: { kind: 'opaque' } }, { action: 'nudge' }), CALL],
  ];
  for (const [command, call] of yes) assert.ok(means(command, call), JSON.stringify([command, call]));
  const no: [Command, Call][] = [
    [block({ tool: 'bash' }), CALL],
    [block(print), { ...CALL, args: { command: 'cargo test' } }],
    [block({ ...print, identity: { kind: 'opaque' } }), CALL],
    [block({ ...print, identity: { kind: 'new' } as unknown as Identity }), CALL],
    [block({}), { ...CALL, agent_id: 'fixer' }],
    [block({}), { ...CALL, session_id: 'other' }],
    [block({}), { ...CALL, tenant: 't' }],
    [block({ kind: 'planet' as 'fleet' }), CALL],
    [swarm(), CALL],
    [block({ kind: 'swarm', ...print }), CALL],
    [swarm(), { ...CALL, swarm_id: 'v' }],
    [swarm({ only: [{ session_id: 's', agent_id: 'fixer' }] }), { ...CALL, swarm_id: 'w' }],
    [{} as Command, CALL],
    [block(print), { ...CALL, args: { get command(): never { throw new Error('getter'); } } }],
  ];
  for (const [command, call] of no) assert.ok(!means(command, call), JSON.stringify(command));
});

// Beside the repository, where the reference cases are kept.
const SHARED = here('../../../../shared/cases/');

test('facts of the reference cases', { skip: existsSync(SHARED) ? false : 'the reference cases are not beside the repository' }, () => {
  let facts = 0;
  const lines = (file: string): unknown[] => readFileSync(join(SHARED, file), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  for (const file of ['attocode.jsonl', 'cortex.jsonl', 'hackeurope.jsonl', 'ironcurtain.jsonl', 'rockbot.jsonl', 'peers/cases.jsonl']) {
    for (const { events, assert: given = {}, name, profile } of lines(file) as any[]) {
      const [{ tool } = { tool: '' }] = events;
      const of = (at: number): [string, unknown] => [events[at].tool, events[at].args];
      for (const [at, text] of [...(given.canonical_args ?? []), ...(given.jcs ?? [])]) {
        assert.equal(canonicalArgs(events[at].args), text, name ?? tool);
        facts += 1;
      }
      for (const [at, hash] of [...(given.call_sha256 ?? []), ...(given.sha256 ?? [])]) {
        assert.equal(callSha256(...of(at)), hash, name ?? tool);
        facts += 1;
      }
      if (profile !== 'attocode') continue;
      const coarse: Identity = { kind: 'coarse', args: ['path', 'file_path', 'command', 'pattern', 'query', 'url', 'content', 'offset', 'limit'] };
      for (const [one, two, same] of given.fingerprint_equal ?? []) {
        assert.equal(fingerprint(...of(one), coarse) === fingerprint(...of(two), coarse), same, name);
        facts += 1;
      }
      for (const [at, text] of given.fingerprint_is ?? []) {
        // A shell read has no text that a worker could make.
        if (text.includes(':file_read:')) continue;
        assert.equal(identityText(...of(at), coarse), text, name);
        facts += 1;
      }
    }
  }
  assert.ok(facts >= 11, `${facts} facts`);
});

const BINARY = process.env['LOOPWARDEN_BINARY'];

test('the program makes the same texts and hashes', { skip: BINARY ? false : 'LOOPWARDEN_BINARY is not set' }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'lw-'));
  try {
    const cases = [...vectors.canonical.map(([source]) => source), ...randomSources(2_000)].map((args, at) => ({
      name: `vector-${at}`,
      profile: 'default',
      policy: {},
      events: [{ id: `${at}`, kind: 'tool', session_id: 's', seq: 0, time: '2026-01-01T00:00:00.000Z', tool: 'größe', args }],
      assert: { canonical_args: [[0, canonicalArgs(args)]], call_sha256: [[0, callSha256('größe', args)]] },
    }));
    const file = join(directory, 'cases.jsonl');
    writeFileSync(file, cases.map((line) => JSON.stringify(line)).join('\n'));
    const { status, stdout } = spawnSync(BINARY!, ['test', file], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
    assert.equal(status, 0, stdout.slice(0, 2_000));
    assert.match(stdout, new RegExp(`${cases.length}`));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

/** JSON source text of all kinds, always the same (mulberry32). */
function randomSources(count: number): string[] {
  let seed = 1;
  const below = (limit: number): number => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
  const space = (): string => ['', '', ' ', '\n\t'][below(4)]!;
  const text = (): string => `"${Array.from({ length: below(6) }, () => ['a', 'Z', '\\u00e9', 'é', '\\n', '\\/', '\\"', '\\u001f', '😀', '\\ud83d\\ude00', '\\ue000', '\uffee', '\u2028', '0'][below(14)]).join('')}"`;
  const number = (): string => {
    const sign = ['', '-'][below(2)];
    const digits = (length: number): string => Array.from({ length }, () => below(10)).join('').replace(/^0+(?=.)/, '');
    const fraction = ['', '', `.${below(1_000_000)}`, '.0', `.${'0'.repeat(below(8))}${below(99)}`][below(5)];
    const exponent = ['', '', `e${below(25)}`, `E-${below(25)}`, `e+${below(330)}`][below(5)];
    return `${sign}${digits(1 + below(24))}${fraction}${exponent}`;
  };
  const value = (depth: number): string => {
    const kind = below(depth > 3 ? 4 : 7);
    if (kind < 2) return number();
    if (kind === 2) return text();
    if (kind === 3) return ['true', 'false', 'null'][below(3)]!;
    const list = Array.from({ length: below(4) }, () => `${space()}${kind === 4 ? '' : `${text()}${space()}:`}${value(depth + 1)}${space()}`);
    return kind === 4 ? `[${list.join(',')}]` : `{${list.join(',')}}`;
  };
  return Array.from({ length: count }, () => `${space()}${value(0)}${space()}`);
}
