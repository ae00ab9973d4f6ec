/** The model's side of chat completions, streamed, on loopback. */

import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import type { PlannedCall } from './plan.js';

export interface FakeChat {
  url: string;
  /** Bodies of requests with tools, in order. */
  bodies: any[];
  close(): Promise<void>;
}

/** Texts of the results of tools that a request holds, in order. */
export function toolResults(body: any): string[] {
  return body.messages.filter(({ role }: any) => role === 'tool').map(({ content }: any) => (typeof content === 'string' ? content : JSON.stringify(content)));
}

export async function fakeChat(plan: (body: any) => PlannedCall[]): Promise<FakeChat> {
  const bodies: any[] = [];
  const server = http.createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      if (request.method !== 'POST' || !request.url?.endsWith('/chat/completions')) return void response.end('{}');
      const body = JSON.parse(Buffer.concat(parts).toString('utf8'));
      // A title, a summary: requests without tools are not the agent.
      const calls = (body.tools?.length ?? 0) > 0 ? (bodies.push(body), plan(body)) : [];
      const tool_calls = calls.map(({ id, name, args }, index) => ({ index, id, type: 'function', function: { name, arguments: JSON.stringify(args) } }));
      const delta = calls.length > 0 ? { role: 'assistant', tool_calls } : { role: 'assistant', content: 'done' };
      const chunk = (more: object, finish_reason: string | null): string =>
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: body.model, choices: [{ index: 0, delta: more, finish_reason }], usage: { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 } })}\n\n`;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`${chunk(delta, null)}${chunk({}, calls.length > 0 ? 'tool_calls' : 'stop')}data: [DONE]\n\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    close: () => new Promise((resolve) => (server.close(() => resolve()), server.closeAllConnections())),
  };
}
