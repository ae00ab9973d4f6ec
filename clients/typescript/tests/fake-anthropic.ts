/** The model's side of the Anthropic Messages API, streamed, on loopback. */

import * as http from 'node:http';
import type { AddressInfo } from 'node:net';

import type { PlannedCall } from './plan.js';

export interface FakeAnthropic {
  url: string;
  /** Bodies of requests for messages, in order. */
  bodies: any[];
  close(): Promise<void>;
}

/** Texts of the results of tools that a request holds, in order. */
export function toolResults(body: any): string[] {
  const parts = body.messages.flatMap(({ content }: any) => (Array.isArray(content) ? content : []));
  return parts.filter(({ type }: any) => type === 'tool_result').map(({ content }: any) => (typeof content === 'string' ? content : JSON.stringify(content)));
}

export async function fakeAnthropic(plan: (body: any) => PlannedCall[]): Promise<FakeAnthropic> {
  const bodies: any[] = [];
  const server = http.createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const path = request.url?.split('?')[0];
      if (request.method !== 'POST' || path !== '/v1/messages') {
        response.writeHead(200, { 'content-type': 'application/json' }).end(path?.endsWith('count_tokens') ? '{"input_tokens":10}' : '{}');
        return;
      }
      const body = JSON.parse(Buffer.concat(parts).toString('utf8'));
      // A title, a summary: requests without tools are not the agent.
      const calls = (body.tools?.length ?? 0) > 0 ? (bodies.push(body), plan(body)) : [];
      reply(body, calls, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    close: () => new Promise((resolve) => (server.close(() => resolve()), server.closeAllConnections())),
  };
}

function reply(body: any, calls: PlannedCall[], response: http.ServerResponse): void {
  const blocks = calls.length > 0 ? calls.map(({ id, name, args }) => ({ type: 'tool_use', id: `toolu_${id}`, name, input: args })) : [{ type: 'text', text: 'done' }];
  const stop_reason = calls.length > 0 ? 'tool_use' : 'end_turn';
  const message = { id: `msg_${Math.random()}`, type: 'message', role: 'assistant', model: body.model, stop_sequence: null, usage: { input_tokens: 5, output_tokens: 1 } };
  if (!body.stream) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...message, content: blocks, stop_reason }));
    return;
  }
  const events: any[] = [{ type: 'message_start', message: { ...message, content: [], stop_reason: null } }];
  blocks.forEach((block: any, index) => {
    const isText = block.type === 'text';
    events.push({ type: 'content_block_start', index, content_block: isText ? { type: 'text', text: '' } : { ...block, input: {} } });
    events.push({ type: 'content_block_delta', index, delta: isText ? { type: 'text_delta', text: block.text } : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) } });
    events.push({ type: 'content_block_stop', index });
  });
  events.push({ type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } }, { type: 'message_stop' });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''));
}
