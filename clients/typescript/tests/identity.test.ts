/** Identity of calls: published vectors, and the cases that loopwarden itself is held to. `vectors.test.ts` has more. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { callSha256, canonical, canonicalArgs, Digits, fingerprint, identityText, NotJson, parse, type Identity } from '@loopwarden/client';

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
