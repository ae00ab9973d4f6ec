/** Nothing is sent to another user of the machine, and nothing of his comes back. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import * as net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { Guard } from '@loopwarden/client';

import { answering, readRow, strangerAt, type Row } from '../dist/peer.js';
import { OTHER, skip, stranger } from './stranger.js';

for (const kind of ['tcp', 'unix']) {
  test(`another user who listens gets nothing and says nothing: ${kind}`, { skip }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lw-'));
    chmodSync(folder, 0o1777);
    const path = kind === 'unix' ? join(folder, 's') : '';
    const other = await stranger(path);
    try {
      const place = kind === 'unix' ? { socketPath: path } : { url: `http://127.0.0.1:${other.place}` };
      const make = (guardUid?: number): Guard => new Guard({ ...place, guardUid, deadlineMs: 10_000, connectMs: 10_000, warn: () => {} });
      const guard = make();
      const seen = other.got();
      const decision = await guard.check({ session_id: 's', tool: 't', args: 's3cret' });
      assert.equal(decision.decision, 'allow');
      assert.match(String(decision.failed), /^user 65534 listens there/);
      assert.equal(await seen, 'got:;');
      guard.close();
      const named = make(OTHER);
      assert.equal((await named.check({ session_id: 's', tool: 't' })).decision, 'deny');
      named.close();
    } finally {
      other.child.kill();
      await rm(folder, { recursive: true, force: true });
    }
  });
}

test('listeners of this user are known', { skip: process.platform === 'linux' ? false : 'only Linux tells' }, async () => {
  for (const host of ['127.0.0.1', '::1', '::']) {
    const server = net.createServer();
    server.listen(0, host);
    const listens = await Promise.race([once(server, 'listening').then(() => true), once(server, 'error').then(() => false)]);
    if (!listens) continue; // a machine without IPv6
    const { port } = server.address() as net.AddressInfo;
    for (const to of host === '::' ? ['::1', '127.0.0.1'] : [host]) {
      const socket = net.connect(port, to);
      await once(socket, 'connect');
      assert.equal(strangerAt(socket, undefined), undefined, `${host} ${to}`);
      socket.destroy();
    }
    server.close();
  }
});

test('who answers is whom the kernel prefers, and who has accepted', () => {
  const at = (local: string, uid: number, remote = '00000000:0000'): Row => ({ local, remote, isListening: remote === '00000000:0000', uid });
  const [server, client] = ['7f000001:24f8', '7f000001:1388'];
  const [exact, all, six] = [at(server, 1), at('00000000:24f8', 3), at(`${'0'.repeat(32)}:24f8`, 4)];
  const accepted = at(server, 7, client);
  const cases: [Row[], number[]][] = [
    [[six, all], [3]],
    [[six, exact], [1]],
    [[six], [4]],
    [[exact, accepted, at(server, 8, '7f000001:1389')], [1, 7]],
    [[accepted], []],
    [[at('7f000001:24f9', 9), at('7f000002:24f8', 9), at(`${'0'.repeat(31)}1:24f8`, 9)], []],
  ];
  for (const [rows, uids] of cases) assert.deepEqual(answering(rows, server, client), uids);
});

test('rows of the kernel are read', () => {
  const row = '   0: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1 0';
  const read = { local: '7f000001:24f8', remote: '00000000:0000', isListening: true, uid: 1000 };
  assert.deepEqual(readRow(row), read);
  assert.deepEqual(readRow(row.replace('0100007F:', '0000000000000000FFFF00000100007F:')), read);
  for (const bad of ['', '  sl  local_address rem_address   st', row.replace(' 77 ', ' 0 '), row.replace('24F8', 'x'), 'a b c d e f g h i j']) assert.equal(readRow(bad), undefined);
});
