// What a person makes of a command: a label, or the loop is let be, or its session is stopped.
const ANSWERS = [{ answer: "right", label: "Right" }, { answer: "false_alarm", label: "False alarm" },
  { answer: "allow", label: "Allow 1 h", for: "1h" }, { answer: "stop", label: "Stop 1 h", for: "1h" }];
// Only loops of sessions are answered, and nobody is stopped where nobody is bound.
function answersTo({ action, session_id, scope, mode, reason }) {
  if (!latest || !latest.may_act || action === "unblock" || !session_id || (scope && scope.by)) return [];
  return ANSWERS.filter(({ answer }) => (answer !== "stop" || mode === "live") && (answer !== "false_alarm" || !reason || reason.code !== "budget"));
}
function withAnswers(command, item) {
  const answers = answersTo(command);
  if (!answers.length) return item;
  const became = make("span", { class: "quiet", role: "status" });
  const give = async ({ label, ...asked }) => {
    became.className = "quiet";
    became.textContent = "sending";
    try {
      const body = JSON.stringify({ command_id: command.id, ...asked });
      const { judged } = await ask("v1/answers", { method: "POST", body, headers: { accept: "application/json", "content-type": "application/json" } });
      became.textContent = label + (judged ? ": in force" : ": taken");
      await refresh();
    } catch (error) {
      became.className = "bad";
      became.textContent = error.message;
    }
  };
  const of = " (" + (command.reason && command.reason.code) + ", " + command.session_id + ")";
  item.append(make("div", { class: "answers", role: "group", "aria-label": "answers" },
    ...answers.map(one => make("button", { type: "button", "aria-label": one.label + of, on: { click: () => give(one) } }, one.label)), became));
  return item;
}
