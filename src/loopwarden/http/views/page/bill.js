// What was spent in loops by the tasks of this process since its start, and what its trial has shown.

// Columns of the trial, by the keys of its lines.
const TRIAL_COLUMNS = [
  ["detector", "detector"], ["arms", "arms"], ["agents", "agents"], ["calls", "calls in the loop"], ["usd", "dollars"],
  ["went_on", "went on"], ["recovery", "recovery"], ["disruption", "disruption"], ["p_star", "least share stuck"], ["advised", "advised"],
];
function showBill(bill) {
  $("bill-card").hidden = !bill.in_loops.calls;
  if ($("bill-card").hidden) return;
  const dollars = value => value === null ? "no cost reported" : "$" + value.toFixed(2);
  const { in_loops: loops, all } = bill;
  showPairs("bill", [
    ["calls and texts in loops", number(loops.calls)], ["tokens in loops", number(loops.tokens)], ["tokens in all", number(all.tokens)],
    ["cost of loops", dollars(loops.cost_usd)], ["cost in all", dollars(all.cost_usd)],
  ]);
  $("saved").textContent = "Saved: " + bill.saved + ".";
  const cells = (tag, texts) => make("tr", null, ...texts.map(text => make(tag, null, text)));
  const rows = bill.trial.map(line => cells("td", TRIAL_COLUMNS.map(([key]) => line[key] === null ? "" : String(line[key]))));
  $("trial").replaceChildren(...(rows.length ? [cells("th", TRIAL_COLUMNS.map(([, name]) => name)), ...rows] : []));
}
