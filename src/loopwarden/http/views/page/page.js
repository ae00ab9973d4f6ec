const FEED_MAX = 200, LOOPS_MAX = 100, RATE_POINTS = 120, EVERY_MS = 2000;
const $ = id => document.getElementById(id);
// Text only: nothing that comes over the wire is ever read as markup.
function make(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name === "class") node.className = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined && child !== ""));
  return node;
}
const number = value => value === null || value === undefined ? "–" : Number(value).toLocaleString("en");
const clock = iso => iso ? String(iso).slice(11, 19) : "";
// By how much the clock of the process is ahead of the browser's: what expires does so by the former.
let aheadMs = 0;
async function ask(path, how = { headers: { accept: "application/json" } }) {
  const response = await fetch(path, how);
  const date = Date.parse(response.headers.get("date"));
  if (date) aheadMs = date - Date.now();
  const value = await response.json();
  if (!response.ok) throw new Error(value.message || response.status);
  return value;
}

function showPairs(id, pairs) {
  $(id).replaceChildren(...pairs.map(([name, value]) => make("div", null, make("dt", null, name), make("dd", null, value))));
}
// Agents ask a process with a log of its own, or a guard beside them, which has metrics and no page.
function showGuard(guard) {
  $("guard-card").hidden = !guard || !guard.checks;
  if (!guard) return;
  showPairs("guard", [
    ["agents", number(guard.agents)], ["checks", number(guard.checks)], ["blocks obeyed", number(guard.blocks_obeyed)],
    ["calls in spite", number(guard.calls_in_spite)], ["nudges delivered", number(guard.nudges_delivered)],
    ["loops that went on", number(guard.nudges_unheeded)],
  ]);
}
// What comes in another form than events, and how much of its calls can be compared.
function showSenders(input) {
  const senders = (input && input.senders) || [], twofold = (input && input.two_sources) || { sessions: 0, examples: [] };
  $("senders-card").hidden = !senders.length && !twofold.sessions;
  const heads = [["sender"], ["records", 1], ["calls", 1], ["with arguments", 1], ["with results", 1], ["refused", 1], ["compared"], ["to switch on"]];
  const head = make("tr", null, ...heads.map(([name, isNumber]) => make("th", { class: isNumber ? "number" : "" }, name)));
  const count = value => make("td", { class: "number" }, number(value));
  $("senders").replaceChildren(head, ...senders.map(sender => make("tr", null, make("td", null, sender.who),
    count(sender.records), count(sender.calls), count(sender.calls_with_arguments), count(sender.results_with_content), count(sender.refused),
    make("td", { class: sender.compared === "names only" ? "bad" : "" }, sender.compared || "no calls"),
    make("td", { class: "quiet" }, (sender.switch_on || []).join("; ")))));
  $("two-sources").hidden = !twofold.sessions;
  $("two-sources").textContent = number(twofold.sessions) + (twofold.sessions === 1 ? " session is" : " sessions are")
    + " reported by two sources, so that calls count twice: "
    + twofold.examples.map(({ session_id, sources }) => session_id + " (" + sources.join(", ") + ")").join(", ");
}

let before = null, rates = [];
function showNumbers(now) {
  const at = performance.now();
  let rate = null;
  if (before && now.events >= before.events) rate = (now.events - before.events) * 1000 / (at - before.at);
  before = { events: now.events, at };
  if (rate !== null) { rates.push(rate); if (rates.length > RATE_POINTS) rates.shift(); }
  const lines = [
    ["events / s", rate === null ? "–" : number(rate < 10 ? Math.round(rate * 10) / 10 : Math.round(rate))],
    ["events", number(now.events)], ["lag, records", number(now.lag_records)], ["sessions", number(now.sessions)],
    ["nudges", number(now.commands.nudge)], ["blocks", number(now.commands.block)],
    ["rejected", number(now.rejected)], ["tasks running", now.tasks.running + " / " + now.tasks.all],
  ];
  showPairs("numbers", lines);
  const top = Math.max(1, ...rates);
  const step = 120 / (RATE_POINTS - 1);
  $("rate-line").firstElementChild.setAttribute("d", rates.map((rate, at) =>
    (at ? "L" : "M") + ((RATE_POINTS - rates.length + at) * step).toFixed(1) + "," + (32 - 30 * rate / top).toFixed(1)).join(""));
  $("mode").textContent = now.mode;
  $("mode").className = "mode " + now.mode;
  $("mode").title = now.mode === "shadow" ? "commands are published, and bind nobody" : "commands are meant to be obeyed";
  $("counted").textContent = "Counted by this process since its start at " + startOf(now) + ".";
  $("place").textContent = now.place + ", policy " + now.policy + ", version " + now.version;
}
// Rows are replaced only where they differ: a focus in them stays.
const listed = new Map();
function list(id, rows, render) {
  const text = JSON.stringify(rows);
  if (listed.get(id) === text) return;
  listed.set(id, text);
  $(id).replaceChildren(...rows.map(row => typeof row === "string" ? make("li", { class: "quiet" }, row) : render(row)));
}
const stands = dated => Date.parse(dated.expires_at) > Date.now() + aheadMs;
// A block outweighs what was said since.
function gravest(verdicts) { return verdicts.findLast(verdict => verdict.action === "block") || verdicts[verdicts.length - 1]; }
// What is in force beyond one agent, one row each, and of what binds nobody what was said last. What agents do the process says.
const isOfMany = ({ kind, by }) => kind !== "session" || (by && by !== "stop");
function looping(now) {
  const subjects = new Map();
  const add = (of, verdicts, until) => {
    const key = JSON.stringify([of.kind, of.tenant, of.session_id, of.swarm_id, of.name, of.by, of.fingerprint]);
    if (subjects.has(key)) return;
    subjects.set(key, { of, verdict: gravest(verdicts), loops: new Set(verdicts.map(verdict => verdict.episode)).size, until });
  };
  for (const row of (now.active || []).filter(row => isOfMany(row.subject) && row.subject.by !== "stop" && stands(row))) add(row.subject, row.active, row.expires_at);
  // Where the store has said what is in force, a live command adds nothing: it may have been taken back.
  const others = [...newest.values()].filter(command => stands(command) && (!now.active || command.mode !== "live"));
  for (const [subject, commands] of Map.groupBy(others, command => JSON.stringify(subjectOf(command)))) {
    const verdicts = commands.map(command => ({ ...command, code: command.reason && command.reason.code }));
    add(JSON.parse(subject), verdicts, commands.map(command => command.expires_at).sort().at(-1));
  }
  return [...subjects.values()].sort((a, b) => b.verdict.issued_at < a.verdict.issued_at ? -1 : 1);
}
function subjectOf(command) {
  const { session_id, swarm_id, tenant, scope: { kind, name, by, agent_id, fingerprint } = {} } = command;
  return { kind, tenant, session_id, swarm_id, name, by, agent_id, fingerprint };
}
// Whom operators stop, as a request names them; whoever may act can let them go on.
const FIELDS = { agent: "agent_id", tree: "root_id" };
const target = ({ kind, scope = kind, name, session_id, agent_id, root_id, swarm_id, tenant }) =>
  Object.fromEntries(Object.entries({ scope, session_id, agent_id, root_id, swarm_id, tenant, ...(name && { [FIELDS[scope]]: name }) }).filter(([, name]) => name));
function whom(subject) {
  const { scope, tenant, ...names } = target(subject);
  if (scope === "all") return "everybody";
  return scope === "tenant" ? "tenant " + tenant : [scope, ...Object.values(names), tenant && "of tenant " + tenant].filter(Boolean).join(" ");
}
async function act(method, path, body) {
  $("stops-problem").hidden = true;
  try {
    await ask(path, { method, body: body && JSON.stringify(body), headers: { accept: "application/json", "content-type": "application/json" } });
    await refresh();
    await showSessions(true);
  } catch (error) {
    $("stops-card").hidden = false;
    $("stops-problem").hidden = false;
    $("stops-problem").textContent = error.message;
  }
}
function release(subject) {
  return act("DELETE", "v1/stops?" + new URLSearchParams(target(subject)));
}
function stopRow({ subject, active: [stop], expires_at }) {
  return make("li", null, make("div", { class: "row" },
    make("span", { class: "top" }, make("span", { class: "word block" }, "stopped"), make("code", null, whom(subject)),
      make("span", { class: "quiet" }, "by " + (stop.actor || "an operator") + (stop.fail ? ", fails closed" : "")),
      make("time", null, "until " + clock(expires_at)),
      latest.may_act ? make("button", { type: "button", on: { click: () => release(subject) } }, "Release") : null),
    make("q", null, stop.reason)));
}
function showStops() {
  const rows = (latest.active || []).filter(row => row.subject.by === "stop" && stands(row));
  $("stops-card").hidden = !rows.length && $("stops-problem").hidden;
  list("stops", rows.length ? rows : ["Nobody is stopped."], stopRow);
}
let latest = null;
function showLoops() {
  const now = latest, agents = (now.agents || {}).sessions || [], rows = [...agents, ...looping(now)];
  if (rows.length) {
    const isMore = now.active_more || now.agents?.more;
    list("loops", [...rows.slice(0, LOOPS_MAX), ...(isMore ? ["More loop than this page is told of."] : [])], row => row.state ? agentRow(row) : loopRow(row));
    return;
  }
  list("loops", [now.agents && isRestored(now) ? "No agent loops just now." : WAITING]);
}
// A command says whom it binds; what the store holds is as the process.
function bindsNobody(said) { return (said.mode || latest?.mode) !== "live"; }
// A session or a swarm can be opened; a call of the whole fleet has no page of its own.
function row(of, isShadow, ...children) {
  const props = { class: "row" + (isShadow ? " shadowed" : "") };
  const open = of.session_id ? () => choose("sessions", of.session_id, of.tenant) : of.swarm_id ? () => choose("swarms", of.swarm_id, of.tenant) : null;
  return make("li", null, open ? make("button", { ...props, type: "button", on: { click: open } }, ...children) : make("div", props, ...children));
}
function nameOf(of) {
  const agent = of.agent_id && of.agent_id !== "main" ? " / " + of.agent_id : "";
  return make("code", null, (of.session_id || of.swarm_id || of.name || of.tenant || (of.kind === "all" ? "everybody" : "fleet")) + agent);
}
function agentRow(agent) {
  const { state, code, loops_since, cost_micro_usd } = agent;
  return row(agent, state.startsWith("would_"),
    make("span", { class: "top" },
      make("span", { class: "word " + markOf(state) }, wordsOf(state)), nameOf(agent), make("time", null, "since " + clock(loops_since))),
    make("span", { class: "quiet" }, [code, cost_micro_usd && dollars(cost_micro_usd)].filter(Boolean).join(", ")));
}
function loopRow({ of, verdict, loops, until }) {
  const isShadow = bindsNobody(verdict), status = verdict.action === "block" ? "blocked" : "nudged";
  const what = [verdict.code, verdict.scope && verdict.scope.tool, loops > 1 && loops + " loops"];
  return row(of, isShadow,
    make("span", { class: "top" },
      make("span", { class: "word " + verdict.action }, (isShadow ? "would be " : "") + status), nameOf(of),
      make("time", null, "until " + clock(until))),
    make("span", { class: "quiet" }, what.filter(Boolean).join(", ")));
}

// Last command of each loop of many, and the last commands, oldest first.
const newest = new Map(), heard = new Map();
const ACTS = ["stop", "release", "reset", "answer"];
const isAct = command => ACTS.includes((command.reason || {}).code);
function commandRow(command) {
  const reason = command.reason || {}, isShadow = command.mode !== "live";
  const actor = isAct(command) && command.labels && command.labels.actor;
  return withAnswers(command, row(subjectOf(command), isShadow,
    make("span", { class: "top" },
      make("span", { class: "word " + command.action }, command.action), nameOf(subjectOf(command)),
      make("span", { class: "quiet" }, (reason.code || "") + (actor ? " by " + actor : "") + (isShadow ? ", " + command.mode + ": not delivered" : "")),
      make("time", null, clock(command.issued_at))),
    make("span", null, reason.summary || ""), command.message ? make("q", null, command.message) : null));
}
function note(command) {
  const loop = command.episode || command.id;
  newest.delete(loop);
  if (command.action !== "unblock" && isOfMany(command.scope || {})) newest.set(loop, command);
  if (newest.size > LOOPS_MAX) newest.delete(newest.keys().next().value);
  heard.set(command.id || loop + command.issued_at, command);
  if (heard.size > FEED_MAX) heard.delete(heard.keys().next().value);
  if ($("acts").checked && !isAct(command)) return;
  const feed = $("feed");
  if (!feed.querySelector(".row")) list("feed", []);
  feed.prepend(commandRow(command));
  while (feed.childElementCount > FEED_MAX) feed.lastElementChild.remove();
}
function showFeed() {
  $("feed-since").hidden = latest.is_embedded;
  $("feed-since").textContent = "By this process, since its start at " + startOf(latest) + ". What was told before is in the topic.";
  if (!$("feed").querySelector(".row")) list("feed", [latest.may_read === false ? UNREAD : !isCaughtUp(latest) ? WAITING : latest.is_embedded ? "None so far." : "None since then."]);
}
// Of a feed of days, the page shows the last. Before it has those there were when it came, an empty list says nothing.
const WAITING = "Waiting for what is known.", UNREAD = "Commands need a token with the role reader, too.";
let source = null, feedAt = 0, feedEnd = 0;
// A task that is not restored yet does not say what it holds.
const isRestored = ({ tasks: { all, running, poisoned } }) => all > 0 && running + poisoned >= all;
function isCaughtUp(now) {
  return isRestored(now) && (now.is_embedded && now.may_read ? source !== null && feedAt >= feedEnd : now.active !== null);
}
function follow() {
  feedEnd = latest.commands_end || 0;
  feedAt = Math.max(0, feedEnd - FEED_MAX);
  source = new EventSource("v1/commands?after=" + feedAt);
  let isDue = false;
  const moved = position => {
    feedAt = position;
    if (!isDue) setTimeout(() => { isDue = false; showLoops(); showFeed(); });
    isDue = true;
  };
  source.addEventListener("command", event => { note(JSON.parse(event.data)); moved(Number(event.lastEventId)); });
  // Retention has removed them.
  source.addEventListener("missed", event => moved(feedAt + Number(event.data)));
  source.addEventListener("error", () => {
    // Gone for good (another log, a refusal): begin anew after a pause. Else the browser comes again by itself.
    if (source.readyState === EventSource.CLOSED) setTimeout(begin, 5000);
  });
}

function begin() {
  newest.clear();
  heard.clear();
  $("feed").replaceChildren();
  listed.delete("feed");
  follow();
}

// With Kafka the feed is a topic: the process shows the last of its own.
let told = 0;
function showRecent(now) {
  if (!now.recent) return;
  now.recent.forEach(note);
  // Fewer than before: another process answers now.
  told = now.recent_last < told ? 0 : now.recent_last;
}
// Computed once a process: each answer would give another second.
let started = 0;
function startOf(now) {
  const at = Date.now() + aheadMs - now.uptime_ms;
  if (Math.abs(at - started) > 5000) started = at;
  return new Date(started).toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

function bars(now) {
  const found = Object.entries(now.detections).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
  const top = Math.max(1, ...found.map(([, count]) => count));
  $("detectors").replaceChildren(...(found.length ? found.flatMap(([name, count]) => {
    const bar = make("i", null);
    bar.style.width = (100 * count / top) + "%";
    return [make("code", null, name), make("span", null, bar), make("b", null, number(count))];
  }) : [make("span", { class: "quiet" }, "None so far.")]));
}
function showTasks(tasks) {
  const head = make("tr", null, ...["task", "state", "lane"].map(name => make("th", null, name)),
    make("th", { class: "number" }, "next"), make("th", { class: "number" }, "lag"));
  $("tasks").replaceChildren(head, ...tasks.map(task => make("tr", null,
    make("td", null, task.stage + "/" + task.partition),
    make("td", { class: task.state === "poisoned" ? "bad" : "", title: task.why }, task.state),
    make("td", null, String(task.lane)),
    make("td", { class: "number" }, number(task.next_offset)),
    make("td", { class: "number" }, number(task.lag_records)))));
}

async function refresh() {
  const [now, tasks] = await Promise.all([ask("overview?after=" + told), ask("tasks")]);
  latest = now;
  showStopForm();
  if (now.is_embedded && now.may_read && !source) follow();
  showRecent(now); showStops(); showLoops(); showFeed(); showNumbers(now); bars(now); showBill(now.bill); showGuard(now.guard); showSenders(now.input); showTasks(tasks.tasks);
  await showChosen(false);
  await showSessions(false);
}
async function turn() {
  try {
    await refresh();
    $("link").textContent = "connected"; $("link").className = "quiet";
  } catch (error) {
    $("link").textContent = "no answer: " + error.message; $("link").className = "bad";
  } finally {
    setTimeout(turn, EVERY_MS);
  }
}
$("which").addEventListener("submit", event => {
  event.preventDefault();
  showSessions(true);
});
$("which").addEventListener("change", () => showSessions(true));
$("acts").addEventListener("change", () => {
  listed.delete("feed");
  $("feed").replaceChildren(...[...heard.values()].filter(command => !$("acts").checked || isAct(command)).reverse().map(commandRow));
  showFeed();
});
$("stop").addEventListener("submit", event => {
  event.preventDefault();
  const body = { scope: "session", session_id: shown.id, reason: $("reason").value, for: $("span").value };
  act("POST", "v1/stops", shown.tenant ? { ...body, tenant: shown.tenant } : body);
});
$("ask").addEventListener("submit", event => {
  event.preventDefault();
  if ($("session").value.trim()) choose("sessions", $("session").value.trim(), "");
});
list("loops", [WAITING]);
list("feed", [WAITING]);
turn().then(() => {
  const [, kind, id, tenant] = /^#(swarms\/)?([^@]*)@?(.*)$/.exec(location.hash) || [];
  if (id) choose(kind ? "swarms" : "sessions", decodeURIComponent(id), decodeURIComponent(tenant));
});
