// Written by `loopwarden hook install opencode`; `loopwarden hook uninstall opencode` takes it away.
// Asks loopwarden before and after each call, by the program loopwarden-hook, as other agents do: it knows where loopwarden is, looks who
// listens there, and gives up in time. Without an answer everything goes on as without it.

import { spawn } from "node:child_process";

const PROGRAM = "@PROGRAM@";
// The program gives up long before. Milliseconds.
const WAIT_MS = 15000;
const ANSWER_LENGTH_MAX = 64 * 1024;

function ask(body) {
  return new Promise((resolve) => {
    let text = "";
    const read = () => {
      try {
        resolve(JSON.parse(text));
      } catch {
        resolve({});
      }
    };
    try {
      const child = spawn(PROGRAM, ["opencode"], { stdio: ["pipe", "pipe", "ignore"], timeout: WAIT_MS });
      child.on("error", () => resolve({}));
      child.on("close", read);
      child.stdin.on("error", () => {});
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (part) => {
        if (text.length <= ANSWER_LENGTH_MAX) text += part;
      });
      child.stdin.end(JSON.stringify(body));
    } catch {
      resolve({});
    }
  });
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
