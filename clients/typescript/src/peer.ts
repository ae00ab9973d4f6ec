/**
 * Who listens on this machine: this user, root, or the user that the caller names. Anybody else may have taken the guard's address while it
 * was away; he would read what agents do, and answer for it. The kernel says who it is, on Linux. Elsewhere it does not, and nobody is refused.
 */

import { closeSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { isIPv4, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { dirname } from 'node:path';

/** Of a kernel's table of connections. Bytes. Listeners stand in front. */
const TABLE_BYTES_MAX = 1024 * 1024;
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6'];
const LISTEN = '0A';
const ROOT = 0;
const GROUP_AND_OTHERS_WRITE = 0o022;
const STICKY = 0o1000;
/** What nobody listens at but for every address; IPv4 within IPv6 counts as IPv4. */
const ANY_4 = '0'.repeat(8);
const ANY_6 = '0'.repeat(32);
const MAPPED = `${'0'.repeat(20)}ffff`;

/** A socket that a process holds. Addresses are hexadecimal, in the order of the network, with the port. */
export interface Row {
  local: string;
  remote: string;
  isListening: boolean;
  uid: number;
}

/** Why nothing may be sent over a connection that has just been made; nothing where it may. */
export function strangerAt(socket: Socket, named: number | undefined): Error | undefined {
  const { localAddress, localPort, remoteAddress, remotePort } = socket;
  if (process.platform !== 'linux' || remoteAddress === undefined || localAddress === undefined) return undefined;
  const ip = hex(remoteAddress);
  if (!(ip.length === 8 ? ip.startsWith('7f') : ip === `${'0'.repeat(31)}1`)) return undefined;
  return unknown(answering(rows(), end(remoteAddress, remotePort!), end(localAddress, localPort!)), named);
}

/** Why nothing may be sent to a socket file; nothing where it is of a known user, and nobody else can put another in its place. */
export function strangerAtFile(path: string, named: number | undefined): Error | undefined {
  if (process.geteuid === undefined) return undefined;
  try {
    let held = realpathSync(path);
    const owners = [statSync(held).uid];
    while (held !== dirname(held)) {
      held = dirname(held);
      const { mode, uid } = statSync(held);
      if ((mode & GROUP_AND_OTHERS_WRITE) !== 0 && (mode & STICKY) === 0) return new Error(`others may put a socket file of theirs into ${held}`);
      owners.push(uid);
    }
    return unknown(owners, named);
  } catch {
    // Whoever connects finds out what is wrong.
    return undefined;
  }
}

function unknown(uids: number[], named: number | undefined): Error | undefined {
  const stranger = uids.find((uid) => uid !== process.geteuid?.() && uid !== ROOT && uid !== named);
  if (stranger !== undefined) return new Error(`user ${stranger} listens there, neither you nor root`);
  return uids.length === 0 ? new Error('it cannot be told which user listens there') : undefined;
}

/** Users of those who may answer a connection: whoever has accepted it, and the listeners that the kernel prefers for it. */
export function answering(rows: Row[], server: string, client: string): number[] {
  const [ip, port] = server.split(':');
  const rank = ({ local, isListening }: Row): number => {
    const [at, of] = local.split(':');
    if (!isListening || of !== port) return Infinity;
    if (at === ip) return 0;
    if (at === ANY_4 && ip!.length === 8) return 1;
    return at === ANY_6 ? 2 : Infinity;
  };
  const best = Math.min(...rows.map(rank));
  if (best === Infinity) return [];
  const hasAccepted = ({ local, remote, isListening }: Row): boolean => !isListening && local === server && remote === client;
  return rows.filter((row) => rank(row) === best || hasAccepted(row)).map(({ uid }) => uid);
}

/** Reads a line of the kernel's table. Sockets that no process holds have neither a user nor an inode. */
export function readRow(line: string): Row | undefined {
  const [, local, remote, state, , , , uid, , inode] = line.trim().split(/\s+/);
  const [from, to] = [address(local), address(remote)];
  if (from === undefined || to === undefined || inode === undefined || inode === '0' || !/^\d+$/.test(uid!)) return undefined;
  return { local: from, remote: to, isListening: state === LISTEN, uid: Number(uid) };
}

function rows(): Row[] {
  return TABLES.flatMap((path) => {
    try {
      const file = openSync(path, 'r');
      try {
        const bytes = Buffer.alloc(TABLE_BYTES_MAX);
        let length = 0;
        for (let read = 1; read > 0 && length < bytes.length; length += read) read = readSync(file, bytes, length, bytes.length - length, null);
        return bytes.toString('latin1', 0, length).split('\n').map(readRow).filter((row) => row !== undefined);
      } finally {
        closeSync(file);
      }
    } catch {
      return [];
    }
  });
}

/** An address as the kernel writes it: words of 32 bits, their bytes in the order of the machine. */
function address(text = ''): string | undefined {
  const [, ip, port] = /^((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4})$/i.exec(text) ?? [];
  if (ip === undefined || port === undefined) return undefined;
  const words = ip.match(/.{8}/g)!.map((word) => (endianness() === 'LE' ? word.match(/../g)!.reverse().join('') : word));
  return `${plain(words.join('').toLowerCase())}:${port.toLowerCase()}`;
}

function end(ip: string, port: number): string {
  return `${hex(ip)}:${port.toString(16).padStart(4, '0')}`;
}

/** An address as hexadecimal digits. */
function hex(ip: string): string {
  const four = /[^:]*$/.exec(ip)![0];
  const digits = (text: string): string => text.split('.').map((part) => Number(part).toString(16).padStart(2, '0')).join('');
  if (isIPv4(ip)) return digits(ip);
  const six = isIPv4(four) ? `${ip.slice(0, -four.length)}${digits(four).replace(/^(.{4})/, '$1:')}` : ip.replace(/%.*/, '');
  const [head = '', tail] = six.split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [front, back] = [groups(head), groups(tail ?? '')];
  const zeros = Array<string>(tail === undefined ? 0 : 8 - front.length - back.length).fill('0');
  return plain([...front, ...zeros, ...back].map((group) => group.padStart(4, '0')).join('').toLowerCase());
}

function plain(ip: string): string {
  return ip.length === 32 && ip.startsWith(MAPPED) ? ip.slice(MAPPED.length) : ip;
}
