/** The vectors that the guard is held to as well: `cargo test --test it vectors` writes them, CLIENT_VECTORS names the file. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { canonicalArgs, Commands, fingerprint, timeMs, type Ability, type Decision, type Identity, type Phase, type Who } from '@loopwarden/client';

interface Step {
  now: number;
  command?: string;
  phase: Phase | 'anew';
  who: Who;
  tool?: string;
  args?: string;
  can: Ability[];
  answer: unknown;
}

interface Vector {
  is: 'text' | 'units' | 'print' | 'time' | 'story' | 'binding' | 'stop';
  units: number[];
  list: string;
  args: string;
  text: string;
  spellings: string[];
  tool: string;
  identity: Identity | null;
  fingerprint: string | null;
  ms: number | null;
  steps: Step[];
}

const FILE = process.env['CLIENT_VECTORS'];
const skip = FILE === undefined ? 'CLIENT_VECTORS names no vectors: `cargo test --test it vectors` writes them' : false;
const vectors = FILE === undefined ? [] : readFileSync(FILE, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line) as Vector);
const of = (is: Vector['is']): Vector[] => vectors.filter((vector) => vector.is === is);

/** Arguments as a worker may have them: a text that holds JSON, and values where these lose nothing. */
function forms(source: string): unknown[] {
  const value = JSON.parse(source) as unknown;
  if (typeof value === 'string') return [value];
  return isExact(source, value) ? [source, value] : [source];
}

/** Whether no number was changed: integers keep their digits, and the others are below infinity. */
function isExact(source: string, value: unknown): boolean {
  const numbers = source.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.eE+-]*/g) ?? [];
  const isKept = (number: string): boolean => (/[.eE]/.test(number) ? Number.isFinite(Number(number)) : Number.isSafeInteger(Number(number)));
  return value !== undefined && numbers.every(isKept);
}

test('canonical texts', { skip }, () => {
  for (const { args, text, spellings } of of('text')) {
    for (const source of [args, ...spellings]) for (const form of forms(source)) assert.equal(canonicalArgs(form), text, source);
  }
});

test('halves of surrogate pairs', { skip }, () => {
  for (const { units, text, list } of of('units')) {
    const value = String.fromCharCode(...units);
    assert.deepEqual([canonicalArgs(value), canonicalArgs([value])], [text, list], JSON.stringify(units));
  }
});

test('fingerprints', { skip }, () => {
  for (const { tool, args, identity, fingerprint: print } of of('print')) {
    for (const form of forms(args)) assert.equal(fingerprint(tool, form, identity) ?? null, print, JSON.stringify([tool, args, identity]));
  }
});

test('times', { skip }, () => {
  for (const { text, ms } of of('time')) assert.equal(timeMs(text) ?? null, ms, text);
});

function told({ decision, action, stop, message, placement, command_id, level }: Decision): unknown {
  return JSON.parse(JSON.stringify({ decision, action, stop, message, placement, command_id, level }));
}

test('whom stops, budgets and trees bind', { skip }, () => {
  assert.equal(of('binding').length, 28, 'seven kinds, four acts');
  for (const { steps } of of('binding')) {
    let now = 0;
    const commands = new Commands(() => now);
    for (const step of steps) {
      now = step.now;
      if (step.command !== undefined) {
        assert.equal(commands.read(step.command), 'applied', step.command);
      } else {
        const { who, phase, tool, args, can } = step;
        assert.notEqual(phase, 'anew');
        assert.deepEqual(told(commands.decide({ who, phase: phase as Phase, tool, args, can })), step.answer, JSON.stringify(step));
      }
    }
  }
});

test('stories', { skip }, () => {
  const said = new Map<string, number>();
  for (const [number, { steps }] of of('story').entries()) {
    let now = 0;
    const commands = new Commands(() => now);
    for (const [at, step] of steps.entries()) {
      now = step.now;
      if (step.command !== undefined) {
        const word = commands.read(step.command);
        said.set(word, (said.get(word) ?? 0) + 1);
      } else if (step.phase === 'anew') {
        commands.beginAnew(step.who);
      } else {
        const { who, phase, tool, args, can } = step;
        assert.deepEqual(told(commands.decide({ who, phase, tool, args, can })), step.answer, `${number}, ${at}: ${JSON.stringify(step)}`);
      }
    }
  }
  // None of the ways in which a command can end is missing.
  for (const word of ['applied', 'duplicate', 'stale', 'expired', 'not_live', 'malformed', 'unknown']) assert.ok((said.get(word) ?? 0) >= 20, word);
});

test('there are ten thousand', { skip }, () => {
  const questions = vectors.reduce((sum, { steps }) => sum + (steps?.length ?? 1), 0);
  assert.ok(questions >= 10_000, String(questions));
});
