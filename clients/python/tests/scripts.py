"""What fake models do: from the results a model has read so far to the calls it makes next; none means that it has finished."""

from typing import Any

TOOL = "search"
# The program itself nudges a loop at its fourth call, and refuses it seven steps later.
STEPS_MAX = 20


def is_refusal(text: str) -> bool:
    """In the words of the fake guard, or in those of the program."""
    return "refused" in text or ("The same or nearly the same" in text and "no result for same" not in text)


def loop(results: list[str]) -> list[dict[str, Any]]:
    """The same call again and again, until it is refused."""
    if any(is_refusal(text) for text in results) or len(results) >= STEPS_MAX:
        return []
    return [{"q": "same"}]


def work(results: list[str]) -> list[dict[str, Any]]:
    """Six calls that differ."""
    return [{"q": f"question {len(results)}"}] if len(results) < 6 else []


def parallel(results: list[str]) -> list[dict[str, Any]]:
    """Five equal calls in one reply."""
    return [{"q": "same"}] * 5 if not results else []


def answer(q: str) -> str:
    """What the tool answers: the same question, the same answer."""
    return f"no result for {q}"


def check_loop(rule: Any, results: list[str], runs: int) -> None:
    """A looping run: three calls ran, the third result has the nudge, the fourth call was refused, and the model has read both."""
    assert runs == 3, runs
    assert len(results) == 4, results
    assert [text.count("has been made 3 times in this session.") for text in results] == [0, 0, 1, 0], results
    assert "no result for same" in results[2], results
    assert "This search call is refused: it has been made too often." in results[3], results
    assert "no result" not in results[3], results
    assert (rule.nudges, rule.denied, len(rule.calls()), len(rule.results())) == (1, 1, 4, 3)
    assert {event["tool"] for event in rule.calls() + rule.results()} == {TOOL}
    assert all(event["args"] == {"q": "same"} for event in rule.calls()), rule.calls()
    assert len({event["session_id"] for event in rule.events}) == 1
    pairs = [event["call_id"] for event in rule.results()]
    assert pairs == [event["call_id"] for event in rule.calls()][:3] and len(set(pairs)) == 3


def check_work(rule: Any, results: list[str], runs: int) -> None:
    """A working run: left alone, and every call is reported with its result."""
    assert runs == 6 and [text.strip() for text in results] == [f"no result for question {n}" for n in range(6)], results
    assert (rule.nudges, rule.denied, len(rule.calls()), len(rule.results())) == (0, 0, 6, 6)
    assert all(event["outcome"] == "ok" for event in rule.results())
    assert all("no result for question" in str(event["result"]) for event in rule.results()), rule.results()


def check_parallel(rule: Any, results: list[str], runs: int) -> None:
    """Five equal calls at once: three run, two are refused, one of the results has the nudge."""
    assert runs == 3 and len(results) == 5, (runs, results)
    assert sum("refused" in text for text in results) == 2, results
    assert sum("has been made 3 times" in text for text in results) == 1, results
    assert (rule.nudges, rule.denied) == (1, 2)


def check_real(results: list[str], runs: int) -> None:
    """The program itself ends a loop: its numbers are its own, so only the order is looked at."""
    assert runs == len(results) - 1 < STEPS_MAX, (runs, results)
    assert is_refusal(results[-1]), results
    assert results[0].strip() == "no result for same"
    assert any(text.startswith("no result for same") and len(text) > 60 for text in results[1:-1]), results
