/** The live page of loopwarden names whom stops mean: its own code, without a browser. CLIENT_VECTORS names the rows of stops. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';

interface Stop {
  is: string;
  subject: object;
  whom: string;
  query: string;
}

const FILE = process.env['CLIENT_VECTORS'];
const PAGE = new URL('../../../src/loopwarden/http/views/page/page.js', import.meta.url);
const skip = FILE === undefined ? 'CLIENT_VECTORS names no vectors: `cargo test --test it vectors` writes them' : false;
const lines = FILE === undefined ? [] : readFileSync(FILE, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line) as Stop);
const stops = lines.filter(({ is }) => is === 'stop');

test('the page shows whom a stop means, and releases exactly them', { skip }, async () => {
  assert.equal(stops.length, 6);
  const asked: string[] = [];
  // The functions of the card of stops; what they show and send is caught.
  const source = readFileSync(PAGE, 'utf8');
  const card = source.slice(source.indexOf('// Whom operators stop'), source.indexOf('async function act('));
  const release = source.slice(source.indexOf('function release('), source.indexOf('function stopRow('));
  const context = createContext({ URLSearchParams, act: (method: string, path: string) => asked.push(`${method} ${path}`) });
  const page = runInContext(`${card}\n${release}\n({ whom, release })`, context) as { whom(of: object): string; release(of: object): unknown };
  const parameters = (query: string | undefined): unknown => Object.fromEntries(new URLSearchParams(query));
  for (const { subject, whom, query } of stops) {
    assert.equal(page.whom(subject), whom);
    await page.release(subject);
    const [request, sent] = asked.at(-1)?.split('?') ?? [];
    assert.deepEqual([request, parameters(sent)], ['DELETE v1/stops', parameters(query)], whom);
  }
});
