// The card of all sessions: a question to the process, asked when somebody wants it, after an act, and again and again where it is cheap.
const SESSIONS_SHOWN = 50, CHEAP_MAX = 5000, LIST_EVERY_MS = 10000;
let listedAt = 0, looksAt = 0;
const dollars = micro => micro ? "$" + (micro / 1e6).toLocaleString("en", { maximumFractionDigits: micro < 1e6 ? 4 : 2 }) : "–";
// What is only meant so has the colour of what it would be.
const markOf = state => ({ stopped: "block", blocked: "block", would_block: "block", asks_human: "block", nudged: "nudge", would_nudge: "nudge", looping: "nudge" })[state] || "quiet";
const wordsOf = state => ({ would_nudge: "would be nudged", would_block: "would be blocked", asks_human: "asks for a person" })[state] || state;
function sessionRow(row) {
  const open = make("button", { type: "button", class: "name", on: { click: () => choose("sessions", row.session_id, row.tenant || "") } }, row.session_id);
  const cell = (content, kind) => make("td", { class: kind }, content);
  return make("tr", null, cell(open), cell(row.agent_id), cell(row.tenant || "–", row.tenant ? "" : "quiet"), cell(number(row.calls), "number"),
    cell(dollars(row.cost_micro_usd), "number"), cell(wordsOf(row.state), "word " + markOf(row.state)), cell(row.code || "–", row.code ? "" : "quiet"),
    cell(row.loops_since ? clock(row.loops_since) : "–", row.loops_since ? "" : "quiet"), latest.may_act ? cell(sessionButton(row)) : null);
}
// Whoever stops says why: the card below asks for it. What is released is named as it was stopped.
function sessionButton({ session_id, tenant, stop }) {
  if (!stop) return make("button", { type: "button", class: "act danger", on: { click: () => askWhy(session_id, tenant || "") } }, "Stop");
  const of = stop.scope === "session" ? "" : " " + whom(stop);
  return make("button", { type: "button", class: "act", on: { click: () => release(stop) } }, "Release" + of);
}
async function askWhy(session_id, tenant) {
  await choose("sessions", session_id, tenant);
  $("reason").focus();
}
async function showSessions(isDue) {
  const now = Date.now();
  if (!isDue && (looksAt > CHEAP_MAX || now - listedAt < LIST_EVERY_MS)) return;
  listedAt = now;
  const form = new FormData($("which")), query = new URLSearchParams({ state: form.get("state"), sort: form.get("sort"), limit: SESSIONS_SHOWN });
  if (form.get("tenant").trim()) query.set("tenant", form.get("tenant").trim());
  const note = text => { $("sessions-note").textContent = text; };
  try {
    const found = await ask("sessions?" + query);
    looksAt = found.looked_at;
    // Rebuilding moves the focus: never under a hand on the keys.
    if (!isDue && $("sessions").contains(document.activeElement)) return;
    const heads = [["session"], ["agent"], ["tenant"], ["calls", 1], ["cost", 1], ["state"], ["detector"], ["loop since"], ...(latest.may_act ? [[""]] : [])];
    const head = make("tr", null, ...heads.map(([name, isNumber]) => make("th", { class: isNumber ? "number" : "" }, name)));
    $("sessions").replaceChildren(head, ...found.sessions.map(sessionRow));
    note((found.sessions.length < found.found ? "The first " + found.sessions.length + " of " : "") + number(found.found) + " agents, "
      + number(found.looked_at) + " looked at" + (found.more && found.sessions.length === found.found ? "; there may be others" : "") + ", at "
      + clock(new Date(now + aheadMs).toISOString()) + "." + (found.sessions.some(row => row.cost_micro_usd) ? "" : " No cost reported.") + (looksAt > CHEAP_MAX ? " List looks again." : ""));
  } catch (error) {
    note(error.message);
  }
}
