/** One request and its answer over a kept connection, within a deadline and a size. */

import * as http from 'node:http';
import * as https from 'node:https';
import type { Socket } from 'node:net';

import { strangerAt, strangerAtFile } from './peer.js';

/** Largest answer that is read. Bytes: a decision has a text of at most 1,000 characters. */
const ANSWER_BYTES_MAX = 64 * 1024;
/** Connections to the guard at once. */
const SOCKETS_MAX = 32;

/** Where the guard listens. */
export interface Address {
  /** Base URL, `http` or `https`. */
  url?: string | URL | undefined;
  /** Path of its Unix socket. */
  socketPath?: string | undefined;
  /** Bearer token. */
  token?: string | undefined;
  /** Number of the user that runs the guard on this machine, where it is neither this user nor root. */
  guardUid?: number | undefined;
}

/** How long to wait. Milliseconds. */
export interface Patience {
  connectMs: number;
  deadlineMs: number;
}

export class Transport {
  readonly #options: http.RequestOptions;
  readonly #request: typeof http.request;
  readonly #agent: http.Agent;
  readonly #stranger: (socket: Socket) => Error | undefined;

  /** @throws TypeError if the address is none. */
  constructor({ url, socketPath, token, guardUid }: Address) {
    if ((url === undefined) === (socketPath === undefined)) throw new TypeError('one of `url` and `socketPath` must be set');
    const base = new URL(url ?? 'http://localhost/');
    if (base.protocol !== 'http:' && base.protocol !== 'https:') throw new TypeError('`url` must begin with http:// or https://');
    const { request, Agent } = base.protocol === 'https:' ? https : http;
    this.#request = request;
    // Over TLS the guard's certificate says who it is.
    this.#stranger = (socket) => {
      if (socketPath !== undefined) return strangerAtFile(socketPath, guardUid);
      return base.protocol === 'https:' ? undefined : strangerAt(socket, guardUid);
    };
    this.#agent = new Agent({ keepAlive: true, maxSockets: SOCKETS_MAX });
    this.#options = {
      method: 'POST',
      agent: this.#agent,
      path: `${base.pathname.replace(/\/+$/, '')}/v1/check`,
      headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      ...(socketPath === undefined
        ? { host: base.hostname.replace(/^\[(.*)\]$/, '$1'), ...(base.port === '' ? {} : { port: base.port }) }
        : { socketPath }),
    };
  }

  /**
   * Posts a check. The body of the answer, if that is 200.
   *
   * @throws Error that says what went wrong.
   */
  async post(body: string, patience: Patience): Promise<string> {
    const until = performance.now() + patience.deadlineMs;
    try {
      return await this.#once(body, patience);
    } catch (error) {
      // The guard has closed a connection that was idle: that says nothing about the guard.
      const leftMs = until - performance.now();
      if (!(error instanceof Stale) || leftMs <= 0) throw error;
      return await this.#once(body, { ...patience, deadlineMs: leftMs });
    }
  }

  /** Closes connections that are kept. */
  close(): void {
    this.#agent.destroy();
  }

  #once(body: string, { connectMs, deadlineMs }: Patience): Promise<string> {
    return new Promise((resolve, reject) => {
      const bytes = Buffer.from(body);
      const request = this.#request({ ...this.#options, headers: { ...this.#options.headers, 'content-length': bytes.length } });
      let connecting: NodeJS.Timeout | undefined;
      const whole = setTimeout(() => fail(new Error(`no answer within ${Math.round(deadlineMs)} ms`)), deadlineMs);
      const end = (settle: () => void): void => {
        clearTimeout(whole);
        clearTimeout(connecting);
        settle();
      };
      const fail = (error: Error & { code?: string }): void => {
        const isStale = request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
        end(() => reject(isStale ? new Stale(error.message) : error));
        request.destroy();
      };
      request.on('socket', (socket) => {
        if (!socket.connecting) return;
        connecting = setTimeout(() => fail(new Error(`no connection within ${Math.round(connectMs)} ms`)), connectMs);
        socket.once('connect', () => {
          clearTimeout(connecting);
          // Nothing has been written so far.
          const stranger = this.#stranger(socket);
          if (stranger !== undefined) fail(stranger);
        });
      });
      request.on('error', fail);
      request.on('response', (response) => {
        const parts: Buffer[] = [];
        let length = 0;
        response.on('error', fail);
        response.on('data', (part: Buffer) => {
          length += part.length;
          if (length > ANSWER_BYTES_MAX) fail(new Error(`an answer of more than ${ANSWER_BYTES_MAX} bytes`));
          else parts.push(part);
        });
        response.on('end', () => {
          if (response.statusCode === 200) end(() => resolve(Buffer.concat(parts).toString('utf8')));
          // The connection is good for the next request.
          else end(() => reject(new Error(`status ${response.statusCode}`)));
        });
      });
      request.end(bytes);
    });
  }
}

/** A kept connection that was closed at the other end. */
class Stale extends Error {}
