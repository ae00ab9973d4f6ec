// The card of what was chosen: the calls of a session's agents, or what is counted for a swarm.

// What it is, and for each agent the letters that its calls have got.
let shown = null;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", COLOURS = 10, NAMED_MAX = 6, TOLD_MAX = 5;
// As in the report of a replay.
function letter(place) {
  const rest = place - LETTERS.length;
  return rest < 0 ? LETTERS[place] : LETTERS[Math.floor(rest / 26) % LETTERS.length] + LETTERS[rest % 26];
}
// Calls that come more than once have a letter each, which they keep while the page follows.
function lettersOf(agent) {
  if (!shown.letters.has(agent.agent_id)) shown.letters.set(agent.agent_id, new Map());
  const letters = shown.letters.get(agent.agent_id), once = new Set();
  for (const { call } of agent.steps) {
    if (once.has(call) && !letters.has(call)) letters.set(call, null);
    once.add(call);
  }
  // In the order of their first call: the loop above meets them at their second.
  let next = [...letters.values()].filter(place => place !== null).length;
  for (const { call } of agent.steps) if (letters.get(call) === null) letters.set(call, next++);
  return letters;
}
const hasFailed = step => step.flags.includes("observed") && !step.flags.includes("ok");
function cellOf(step, agent, letters) {
  const place = letters.get(step.call), sign = place === undefined ? "·" : letter(place), failed = hasFailed(step);
  const is = name => step.flags.includes(name);
  return make("button", {
    type: "button", tabindex: "-1", title: step.tool,
    class: ["cell", place === undefined ? "one" : "k" + place % COLOURS, failed && "failed", is("open") && "open", is("refused") && "refused",
      step.fired.length && "fired"].filter(Boolean).join(" "),
    "aria-label": `call ${step.sequence}: ${place === undefined ? "" : sign + ", "}${step.tool}, ${failed ? "failed" : is("ok") ? "ok" : "not observed"}`
      + (step.fired.length ? ", " + step.fired.join(", ") : ""),
    on: { focus: () => facts(step, agent, sign), mouseenter: () => facts(step, agent, sign), keydown: move },
  }, sign);
}
function move(event) {
  const cells = [...event.currentTarget.parentElement.children];
  const at = cells.indexOf(event.currentTarget);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: cells.length - 1 }[event.key];
  if (to === undefined || !cells[to]) return;
  event.preventDefault();
  event.currentTarget.tabIndex = -1;
  cells[to].tabIndex = 0;
  cells[to].focus();
}
function facts(step, agent, sign) {
  const pair = (name, value) => value === null || value === undefined || value === "" ? null
    : make("span", null, make("span", { class: "quiet" }, name + " "), make("code", null, String(value)));
  const same = agent.steps.filter(other => other.call === step.call).length;
  $("facts").className = "";
  $("facts").replaceChildren(make("div", { class: "agent" },
    pair("call", "#" + step.sequence), pair("tool", step.tool), pair("letter", sign === "·" ? "" : sign), pair("at", clock(step.time)), pair("turn", step.turn),
    pair("same call", same + " of " + agent.steps.length + " shown"),
    pair("identity", step.call.slice(0, 16)), pair("fingerprint", step.fingerprint && step.fingerprint.slice(0, 16)),
    pair("answer", step.outcome), pair("error", step.error), pair("event", step.event_id), pair("flags", step.flags.join(" ")),
    step.fired.length ? make("span", { class: "bad" }, "found: " + step.fired.join(", ")) : null));
}
// Which tools are behind the letters, those repeated most first, and behind the dots.
function namesOf(agent, letters) {
  const calls = [...Map.groupBy(agent.steps, step => step.call)];
  const repeated = calls.filter(([call]) => letters.has(call)).sort((a, b) => b[1].length - a[1].length);
  const name = ([call, steps]) => {
    const place = letters.get(call), failed = steps.filter(hasFailed).length;
    return make("li", null, make("span", { class: "sign k" + place % COLOURS }, letter(place)), " × " + steps.length + " ", make("code", null, steps[0].tool),
      failed ? make("span", { class: "quiet" }, " " + failed + " failed") : null);
  };
  const tools = [...Map.groupBy(agent.steps.filter(step => !letters.has(step.call)), step => step.tool)].map(([tool, steps]) => tool + " " + steps.length);
  return make("ul", { class: "names" }, ...repeated.slice(0, NAMED_MAX).map(name),
    repeated.length > NAMED_MAX ? make("li", { class: "quiet" }, "and " + (repeated.length - NAMED_MAX) + " more") : null,
    tools.length ? make("li", null, make("span", { class: "sign one" }, "·"), " ", make("code", null, tools.join(", "))) : null);
}
// What was told, newest first: what is in force has its text in the store, the rest comes from the feed.
function toldOf(verdicts, isOfIt) {
  const said = new Map(verdicts.map(verdict => [verdict.command_id, verdict]));
  for (const command of heard.values()) {
    if ((command.tenant || "") === shown.tenant && isOfIt(command)) said.set(command.id, { ...command, code: (command.reason || {}).code });
  }
  const last = [...said.values()].sort((a, b) => a.issued_at < b.issued_at ? 1 : -1).slice(0, TOLD_MAX);
  return make("ul", { class: "told" }, ...last.map(one => make("li", null, make("span", { class: "word " + one.action }, one.action),
    make("span", { class: "quiet" }, " " + clock(one.issued_at) + " " + one.code + (bindsNobody(one) ? ", shadow: not delivered" : "") + " "),
    one.message ? make("q", null, one.message) : null)));
}
function standing(verdict, why) {
  return (bindsNobody(verdict) ? "in shadow: " : "") + verdict.action + why + " until " + clock(verdict.expires_at);
}
function stripOf(agent) {
  const streaks = Object.entries(agent.streaks).filter(([, length]) => length > 1).map(([name, length]) => name + " " + length).join(", ");
  const verdict = gravest(agent.verdicts), letters = lettersOf(agent);
  const cells = agent.steps.map(step => cellOf(step, agent, letters));
  if (cells.length) cells[cells.length - 1].tabIndex = 0;
  const isOfIt = ({ session_id, scope }) => session_id === shown.id && (!scope || !scope.agent_id || scope.agent_id === agent.agent_id);
  return make("div", null,
    make("div", { class: "agent" }, make("code", null, agent.agent_id), make("span", { class: "word " + markOf(agent.state) }, wordsOf(agent.state)),
      make("span", { class: "quiet" }, "task " + agent.task),
      verdict ? make("span", { class: "word " + verdict.action }, standing(verdict, " (" + verdict.code + ")")) : null,
      make("span", { class: "quiet" }, streaks ? "running: " + streaks : "")),
    make("div", { class: "strip", role: "group", "aria-label": "calls of agent " + agent.agent_id }, ...cells),
    namesOf(agent, letters), toldOf(agent.verdicts, isOfIt));
}
// What is used of a budget that the session counts in, with all the others of its group.
function budgetOf({ budget, per, group, parts, blocks }) {
  const used = parts.map(({ quantity, used, limit, share }) => {
    const show = quantity === "cost_micro_usd" ? dollars : number;
    return show(used) + " of " + show(limit) + (quantity === "cost_micro_usd" ? "" : " " + quantity) + " (" + Math.round(100 * share) + " %)";
  });
  return make("div", { class: "agent budget" }, make("span", { class: "quiet" }, "budget"), make("code", null, budget),
    make("span", { class: "quiet" }, "of " + [group.kind, group.name].filter(Boolean).join(" ") + ", a " + per),
    make("span", { class: blocks ? "bad" : "" }, used.join(", ") + (blocks ? ": calls are refused" : "")));
}
function swarmOf(swarm) {
  const head = make("tr", null, ...["tool", "calls", "workers", "last", "in force"].map(name => make("th", null, name)));
  const rows = swarm.counters.map(counter => {
    const verdict = gravest(counter.verdicts);
    return make("tr", null, ...[counter.tool, number(counter.calls), number(counter.agents), clock(counter.time)].map(text => make("td", null, text)),
      make("td", { class: verdict ? "word " + verdict.action : "" }, verdict ? standing(verdict, "") : ""));
  });
  return make("div", null, make("table", { class: "swarm" }, head, ...rows),
    toldOf(swarm.counters.flatMap(counter => counter.verdicts), command => command.swarm_id === shown.id));
}
async function showChosen(isNew) {
  if (!shown) return;
  const of = shown, query = of.tenant ? "?tenant=" + encodeURIComponent(of.tenant) : "";
  const say = text => { $("facts").className = "quiet"; $("facts").textContent = text; };
  try {
    const found = await ask(of.kind + "/" + encodeURIComponent(of.id) + query);
    const heardOf = [...heard.values()].filter(command => command.session_id === of.id || command.swarm_id === of.id).map(command => command.id);
    const text = JSON.stringify([found, heardOf]);
    // Another was chosen meanwhile. Rebuilding moves the focus: only where something has changed, and never under a hand on the keys.
    if (of !== shown || text === of.text || (!isNew && $("strips").contains(document.activeElement))) return;
    of.text = text;
    if (of.kind === "swarms") {
      $("strips").replaceChildren(swarmOf(found));
      say("Calls of a swarm's workers are counted together; each worker is a session of its own.");
      return;
    }
    $("strips").replaceChildren(...(found.budgets || []).map(budgetOf), ...found.agents.map(stripOf));
    const known = found.agents.flatMap(agent => agent.steps.map(step => [step, agent]));
    const telling = known.findLast(([step]) => step.fired.length) || known.at(-1);
    if (isNew && telling) {
      const [step, agent] = telling, place = lettersOf(agent).get(step.call);
      facts(step, agent, place === undefined ? "·" : letter(place));
    } else if (isNew) say("No call of this session is kept.");
  } catch (error) {
    if (isNew && of === shown) { $("strips").replaceChildren(); say(error.message); }
  }
}
function showStopForm() { $("stop").hidden = !shown || shown.kind !== "sessions" || !latest || !latest.may_act; }
async function choose(kind, id, tenant) {
  shown = { kind, id, tenant: tenant || "", text: "", letters: new Map() };
  showStopForm();
  $("session").value = kind === "sessions" ? id : "";
  $("session-title").textContent = kind === "sessions" ? "A session's calls" : "Calls of the swarm " + id;
  history.replaceState(null, "", "#" + (kind === "swarms" ? "swarms/" : "") + encodeURIComponent(id) + (tenant ? "@" + encodeURIComponent(tenant) : ""));
  await showChosen(true);
  // Where not much of the card is in sight, a click would seem to do nothing.
  const { top, height } = $("session-card").getBoundingClientRect();
  if (top < 0 || top + Math.min(height, 300) > innerHeight) $("session-card").scrollIntoView({ block: "start" });
}
