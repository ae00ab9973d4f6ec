/** Where the guard is, unless the caller says: the same files as loopwarden's hooks for coding agents look into. */

import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

import type { Address } from './transport.js';

/** Where a guard on this machine listens without further settings. */
const ADDRESS = '127.0.0.1:9464';
/** How long loopwarden's hooks wait for an answer, and at most. Milliseconds. */
const WAIT_MS = 150;
const WAIT_MS_MAX = 10_000;
/** Longest file that is read. Bytes. */
const FILE_BYTES_MAX = 4 * 1024;

/**
 * `hook-address` (`host:port`, or `unix:` and a path), `hook-token` and `hook-uid` below the user's configuration of loopwarden.
 *
 * @throws TypeError if the file holds no address.
 */
export function findPlace(): Address {
  const { XDG_CONFIG_HOME: set = '' } = process.env;
  const folder = join(isAbsolute(set) ? set : join(homedir(), '.config'), 'loopwarden');
  const address = firstLine(join(folder, 'hook-address')) ?? ADDRESS;
  const token = firstLine(join(folder, 'hook-token'));
  const uid = firstLine(join(folder, 'hook-uid')) ?? '';
  const guardUid = /^\d+$/.test(uid) ? Number(uid) : undefined;
  if (address.startsWith('unix:')) return { socketPath: address.slice('unix:'.length), token, guardUid };
  if (!/^[\w.[\]:-]+:\d+$/.test(address)) throw new TypeError('`hook-address` holds neither `host:port` nor `unix:` and a path');
  return { url: `http://${address}`, token, guardUid };
}

/** How long to wait for an answer: as the hooks, which take it from the environment. Milliseconds. */
export function waitMs(): number {
  const set = Number(process.env['LOOPWARDEN_HOOK_WAIT_MS']);
  return set >= 1 ? Math.min(set, WAIT_MS_MAX) : WAIT_MS;
}

/** The first line of a file, if it is a plain text. */
function firstLine(path: string): string | undefined {
  try {
    const file = statSync(path);
    if (!file.isFile() || file.size > FILE_BYTES_MAX) return undefined;
    const line = readFileSync(path, 'utf8').split('\n', 1)[0]?.trim() ?? '';
    return /^[\x20-\x7e]+$/.test(line) ? line : undefined;
  } catch {
    return undefined;
  }
}
