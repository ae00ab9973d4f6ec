// Written by `loopwarden hook install opencode`; `loopwarden hook uninstall opencode` takes it away.
// Asks loopwarden before and after each call, at /v1/hooks/opencode. Without an answer in time everything goes on as without it.

const ADDRESS = "http://@ADDRESS@/v1/hooks/opencode";
const WAIT_MS = 150;
const FAILURES_MAX = 3;
const PAUSE_MS = 5000;

let failures = 0;
let pausedUntil = 0;

async function ask(body) {
  if (Date.now() < pausedUntil) return {};
  try {
    const answer = await fetch(ADDRESS, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(WAIT_MS),
    });
    const text = await answer.text();
    failures = 0;
    return answer.ok && text ? JSON.parse(text) : {};
  } catch {
    failures += 1;
    if (failures >= FAILURES_MAX) pausedUntil = Date.now() + PAUSE_MS;
    return {};
  }
}

export const Loopwarden = async () => {
  // Texts that wait for a result to stand behind, by session; failed calls have none of their own.
  const held = new Map();
  // Calls that were refused or reported already.
  const done = new Set();
  const note = (callID) => {
    if (done.size > 1000) done.clear();
    done.add(callID);
  };
  return {
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const { deny } = await ask({ hook: "tool.execute.before", tool, sessionID, callID, args });
      if (deny) {
        note(callID);
        throw new Error(deny);
      }
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) => {
      note(callID);
      const metadata = { exit: result?.metadata?.exit };
      const output = typeof result?.output === "string" ? result.output : "";
      const { append } = await ask({ hook: "tool.execute.after", tool, sessionID, callID, args, output, metadata });
      const texts = [held.get(sessionID), append].filter(Boolean);
      held.delete(sessionID);
      if (texts.length && typeof result?.output === "string") result.output += "\n\n" + texts.join("\n\n");
    },
    "chat.message": async ({ sessionID, messageID }, { parts }) => {
      const typed = (parts ?? []).filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text);
      if (typed.length) await ask({ hook: "chat.message", sessionID, messageID, text: typed.join("\n") });
    },
    event: async ({ event }) => {
      const part = event?.properties?.part;
      if (event?.type === "session.created") {
        await ask({ hook: "session.created", sessionID: event.properties?.info?.id });
      } else if (event?.type === "message.part.updated" && part?.type === "tool" && part.state?.status === "error") {
        if (done.has(part.callID)) return;
        note(part.callID);
        const { sessionID, callID, tool } = part;
        const { append } = await ask({ hook: "tool.error", tool, sessionID, callID, args: part.state.input, error: part.state.error });
        if (append) held.set(sessionID, append);
      }
    },
  };
};
