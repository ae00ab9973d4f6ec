// Two agents that loop, reported by the Node SDK of OpenTelemetry over HTTP: one traced by hand, one by the AI SDK's own instrumentation.
//
//     PACKAGES=DIRECTORY node agents.mjs http://HOST:PORT      the directory holds node_modules
//
// Each asks for the same call eight times and gets the same failure or the same empty answer. Prints the session of each, a tab, and one of
// its calls as an event has it.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// This file lies outside of the directory with the packages.
const require = createRequire(`${process.env.PACKAGES}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

const { SpanStatusCode, context, trace } = await load('@opentelemetry/api');
const { BatchSpanProcessor, NodeTracerProvider } = await load('@opentelemetry/sdk-trace-node');
const { OTLPTraceExporter: ProtobufExporter } = await load('@opentelemetry/exporter-trace-otlp-proto');
const { OTLPTraceExporter: JsonExporter } = await load('@opentelemetry/exporter-trace-otlp-http');
const { generateText, stepCountIs, tool } = await load('ai');
const { MockLanguageModelV3 } = await load('ai/test');
const { z } = await load('zod');

const CALLS = 8;
const address = process.argv[2];

function provider(Exporter) {
  const exporter = new Exporter({ url: `${address}/v1/traces`, compression: 'gzip' });
  return new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
}

/** In protobuf. The conversation id stands on the parent only, which ends last. */
async function byHand() {
  const spans = provider(ProtobufExporter);
  const tracer = spans.getTracer('by-hand');
  const parent = tracer.startSpan('invoke_agent fixer', {
    attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.conversation.id': 'node-by-hand' },
  });
  for (let number = 0; number < CALLS; number += 1) {
    const attributes = {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'shell',
      'gen_ai.tool.call.id': `call-${number}`,
      'gen_ai.tool.call.arguments': '{"command": "npm test"}',
    };
    const span = tracer.startSpan('execute_tool shell', { attributes }, trace.setSpan(context.active(), parent));
    span.recordException(new Error('no such script: test'));
    span.setStatus({ code: SpanStatusCode.ERROR, message: 'no such script: test' });
    span.end();
  }
  parent.end();
  await spans.shutdown();
  const error = { type: 'Error', message: 'no such script: test' };
  return ['node-by-hand', { tool: 'shell', args: { command: 'npm test' }, outcome: 'error', error }];
}

/** In JSON. A model that always asks for the same call, played by a function. */
async function byAiSdk() {
  const spans = provider(JsonExporter);
  let steps = 0;
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  const model = new MockLanguageModelV3({
    doGenerate: async () => {
      steps += 1;
      const call = { type: 'tool-call', toolCallId: `call-${steps}`, toolName: 'search', input: '{"query":"loop detection"}' };
      const content = steps <= CALLS ? [call] : [{ type: 'text', text: 'nothing found' }];
      const unified = steps <= CALLS ? 'tool-calls' : 'stop';
      return { content, finishReason: { unified, raw: unified }, usage, warnings: [] };
    },
  });
  const search = tool({
    description: 'Searches.',
    inputSchema: z.object({ query: z.string() }),
    execute: async ({ query }) => `no results for ${query}`,
  });
  await generateText({
    model,
    tools: { search },
    prompt: 'find out about loop detection',
    stopWhen: stepCountIs(CALLS + 1),
    experimental_telemetry: { isEnabled: true, tracer: spans.getTracer('ai'), metadata: { sessionId: 'node-by-ai-sdk' } },
  });
  await spans.shutdown();
  const call = { tool: 'search', args: { query: 'loop detection' }, outcome: 'ok', result: 'no results for loop detection' };
  return ['node-by-ai-sdk', call];
}

for (const [session, call] of [await byHand(), await byAiSdk()]) console.log(`${session}\t${JSON.stringify(call)}`);
