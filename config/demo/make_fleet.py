#!/usr/bin/env python3
"""Writes fleet.ndjson, the sample fleet of `loopwarden demo`: the same bytes each time, from Python's standard library alone.

    python3 config/demo/make_fleet.py > config/demo/fleet.ndjson

Ten minutes of a small fleet, recorded without loopwarden in the loop: nobody stops an agent, so every loop runs on. Below, what
the shipped policy `default` finds, and what it does not.

Loops, each with the detector that should speak first
  coding-01    similar_repeat    one test command, no database behind it, nine times
  coding-02    similar_failures  the same edit fails, the same file is read again, in turn
  coding-03    similar_failures  seven ways to install a package, one error
  coding-04    similar_repeat    the same idea of a fix edited in again and again
  coding-05    similar_repeat    the same file written with the same content; every call succeeds
  coding-06    none              one look at the cluster between all sorts of other work, always the same picture; not found: the work goes on
  research-01  none              nine wordings of one question, one empty answer; not found: a series of tries that say little is work
  research-02  none              one page, only the size limit changes; not found: what is short says little
  support-01   none              a status that never changes, asked every twenty seconds; not found: it waits
  support-02   text_only         apologies and promises, no call
  swarm-a-1..3 swarm_repeat      six crawlers of swarm `price-crawl`, two calls each to one dead endpoint: none loops, the swarm does

Traps, which must stay without nudge and block
  coding-07    a CI run is polled, and the answer moves
  coding-08    a big file is paged through with `offset`
  coding-09    edit and run again: the number moves each time; then the tests fail, are fixed, pass, and are run once more to be sure
  coding-10    nine files written, each answered `ok`
  research-03  the API limits the rate four times, then answers
  support-03   eight orders looked up one after the other
  support-04   a person asks for the same balance again and again
  swarm-b-1..2 four reviewers of swarm `docs-review` read one README, some of them twice
"""

import datetime
import json
import random
import sys

START = datetime.datetime(2026, 1, 5, 9, 0, 0, tzinfo=datetime.timezone.utc)
EVENTS = []


class Agent:
    """One agent of one session: remembers its clock, its counters and whether it reports calls and results apart."""

    def __init__(self, session, agent, start, model="m-large", swarm=None, labels=None, pairs=False, kind="coder"):
        self.session, self.agent, self.swarm, self.labels, self.pairs = session, agent, swarm, labels, pairs
        self.model, self.kind = model, kind
        self.now = start * 1000
        self.seq = self.turn = self.calls = 0
        self.random = random.Random(f"{session}/{agent}")
        self.emit("session_start")

    def wait(self, low, high):
        self.now += self.random.randrange(int(low * 1000), int(high * 1000))

    def emit(self, kind, **fields):
        self.seq += 1
        event = {"id": f"{self.session}.{self.agent}.{self.seq:04}", "kind": kind, "session_id": self.session}
        if self.swarm:
            event["swarm_id"] = self.swarm
        event["agent"] = {"id": self.agent, "type": self.kind, "model": self.model}
        event["time"] = (START + datetime.timedelta(milliseconds=self.now)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event["seq"] = self.seq
        if kind not in ("session_start", "session_end"):
            event["turn"] = self.turn
        event.update({key: value for key, value in fields.items() if value is not None})
        if self.labels and kind in ("session_start", "tool", "tool_call"):
            event["labels"] = self.labels
        EVENTS.append((self.now, len(EVENTS), event))

    def call(self, tool, args, result=None, error=None, outcome=None, why=None, pause=(3, 11), takes=(40, 900)):
        """A call and its answer: one `tool` event, or two where the agent reports them apart."""
        self.turn += 1
        self.calls += 1
        took = self.random.randrange(*takes)
        if outcome is None:
            outcome = "error" if error else "ok"
        usage = {"input_tokens": 2400 + 310 * self.turn + self.random.randrange(200), "output_tokens": self.random.randrange(60, 260)}
        usage["cost_usd"] = round(usage["input_tokens"] * 3e-6 + usage["output_tokens"] * 15e-6, 6)
        if self.pairs:
            name = f"call_{self.calls:03}"
            self.emit("tool_call", tool=tool, call_id=name, description=why, args=args, usage=usage)
            self.now += took
            self.emit("tool_result", tool=tool, call_id=name, result=result, outcome=outcome, error=error, duration_ms=took)
        else:
            self.now += took
            self.emit("tool", tool=tool, description=why, args=args, result=result, outcome=outcome, error=error, duration_ms=took, usage=usage)
        self.wait(*pause)

    def say(self, text, final=None, pause=(4, 12)):
        self.turn += 1
        self.emit("message", role="assistant", text=text, final=final)
        self.wait(*pause)

    def user(self, text):
        self.emit("message", role="user", text=text)
        self.wait(1, 4)

    # What coding agents do all day.

    def read(self, path, text, **more):
        self.call("Read", {"path": path, **more}, text)

    def grep(self, pattern, text, path="src"):
        self.call("Grep", {"pattern": pattern, "path": path}, text)

    def edit(self, path, old, new, line):
        self.call("Edit", {"path": path, "old_string": old, "new_string": new}, f"{path}: 1 replacement at line {line}")

    def bash(self, command, result=None, error=None, code=None, why=None, **more):
        fault = None if error is None else {"type": "exit", "message": error, "exit_code": code or 1}
        self.call("Bash", {"command": command, **({"description": why} if why else {})}, result, fault, **more)

    def done(self, text):
        self.say(text, final=True, pause=(1, 2))
        self.emit("session_end")


VERBS = ["load", "apply", "merge", "fetch", "render", "parse", "check", "store", "route", "split", "trim", "match", "lock", "count", "send", "drop"]
NOUNS = ["invoice", "ledger", "customer", "refund", "cursor", "bucket", "header", "window", "quota", "voucher", "shipment", "receipt", "tariff",
         "carrier", "address", "balance", "export", "digest", "retry", "batch", "locale", "basket", "parcel", "session", "coupon"]
TYPES = ["Decimal", "str", "bytes", "list[Row]", "Result", "int", "datetime", "Page", "Money"]


def code(seed, first, count):
    """Lines of a Python module, numbered, as a reading tool shows them."""
    rng, out = random.Random(f"code/{seed}"), []
    for number in range(first, first + count):
        verb, noun, other = rng.choice(VERBS), rng.choice(NOUNS), rng.choice(NOUNS)
        shape = rng.randrange(5)
        line = (f"def {verb}_{noun}({other}: {rng.choice(TYPES)}) -> {rng.choice(TYPES)}:", f"    {noun} = self.{verb}_{other}({rng.randrange(90)})",
                f"    if {noun}.{other} is None:", f"        return {verb}({noun}, {other}={rng.randrange(900)})", f"    for {other} in {noun}.{verb}():")[shape]
        out.append(f"{number:5}\t{line}")
    return "\n".join(out)


def hits(seed, count):
    """Lines of a search in the source."""
    rng = random.Random(f"hits/{seed}")
    return "\n".join(f"src/{rng.choice(NOUNS)}/{rng.choice(VERBS)}.py:{rng.randrange(9, 480)}: {rng.choice(VERBS)}_{rng.choice(NOUNS)}({rng.choice(NOUNS)})"
                     for _ in range(count))


def explore(a, area, steps):
    """Reads and searches that every coding agent begins with; nothing is asked twice."""
    rng = random.Random(f"explore/{area}/{a.agent}")
    nouns = rng.sample(NOUNS, steps)  # The order of the tools has no rhythm: three rounds of one would be an oscillation.
    for number, noun in enumerate(nouns):
        if "RGRRGBRGGRR"[number] == "G":
            a.grep(f"{rng.choice(VERBS)}_{noun}", hits(f"{area}/{noun}", rng.randrange(2, 6)), path=f"src/{area}")
        elif "RGRRGBRGGRR"[number] == "B":
            a.bash(f"git log --oneline -3 -- src/{area}/{noun}.py", "\n".join(
                f"{rng.randrange(16**7):07x} {rng.choice(VERBS)} the {rng.choice(NOUNS)} before the {rng.choice(NOUNS)}" for _ in range(3)))
        else:
            a.read(f"src/{area}/{noun}.py", code(f"{area}/{noun}", 1, rng.randrange(8, 16)))


def coding():
    a = Agent("coding-01", "main", 5, labels={"team": "payments"}, pairs=True)
    a.user("The refund tests fail on my machine. Find out why and make them pass.")
    explore(a, "payments", 9)
    for _ in range(9):
        a.bash("cargo test -p payments --test refunds", "running 12 tests\nthread 'refunds::partial' panicked at tests/refunds.rs:41:10:\ncannot connect to "
               "postgres at 127.0.0.1:5433: connection refused\ntest result: FAILED. 0 passed; 12 failed; 0 ignored",
               "cannot connect to postgres at 127.0.0.1:5433: connection refused", 101, why=a.random.choice(
                   ["Run the refund tests", "Run refund tests again", "Check if the tests pass now", "Re-run the failing tests"]), pause=(14, 24), takes=(4000, 9000))
    a.say("The tests still cannot reach the database. I will look for a compose file.")
    a.call("Glob", {"pattern": "**/compose*.y*ml"}, "deploy/compose.test.yaml")
    a.read("deploy/compose.test.yaml", "services:\n  db:\n    image: postgres:17\n    ports: ['5433:5432']")

    a = Agent("coding-02", "main", 12, model="m-small", labels={"team": "web"})
    a.user("Rename `total` to `gross_total` in the cart summary.")
    explore(a, "cart", 8)
    page = code("cart/summary", 1, 14)
    for _ in range(5):
        a.call("Edit", {"path": "src/cart/summary.py", "old_string": "total = sum(line.net for line in lines)", "new_string":
               "gross_total = sum(line.net for line in lines)"}, None, {"type": "no_match", "message": "old_string not found in src/cart/summary.py"}, pause=(5, 12))
        a.call("Read", {"path": "src/cart/summary.py"}, page, pause=(5, 12))
    a.grep("sum\\(", "src/cart/summary.py:31:     total = sum(l.net for l in lines)", path="src/cart")
    a.edit("src/cart/summary.py", "total = sum(l.net for l in lines)", "gross_total = sum(l.net for l in lines)", 31)
    a.done("Renamed: the line used `l`, not `line`.")

    a = Agent("coding-03", "main", 40, labels={"team": "data"})
    a.user("Add pyarrow to the ingest image.")
    explore(a, "ingest", 7)
    wanted = "ERROR: Could not find a version that satisfies the requirement pyarrow (from versions: none)"
    ways = ["pip install pyarrow", "pip install 'pyarrow>=15'", "pip install --upgrade pip && pip install pyarrow", "pip install --no-cache-dir pyarrow",
            "python3 -m pip install pyarrow", "pip install --only-binary :all: pyarrow", "pip3 install --user pyarrow"]
    for way in ways:
        a.bash(way, wanted + f"\nlooked at {a.random.randrange(2, 7)} links", wanted, pause=(8, 19), takes=(900, 4000))
        if way.endswith("15'"):
            a.read("requirements.txt", "pandas==2.2.3\nrequests==2.32.3\n")
    a.read("Dockerfile", "FROM python:3.15-alpine\nRUN pip install -r requirements.txt")
    a.say("There is no wheel of pyarrow for this base image; it needs one with glibc.", final=True)

    a = Agent("coding-04", "main", 30, labels={"team": "pricing"}, pairs=True)
    a.user("test_rounding fails since yesterday.")
    explore(a, "pricing", 6)
    fixes = ["round(price, 2)", "round(price + 0.0001, 2)", "round(float(price), 2)", "round(price * 100) / 100", "round(price + 0.001, 2)"]
    old = "price"
    for number, fix in enumerate(fixes):
        a.edit("src/pricing/money.py", f"return {old}", f"return {fix}", 58)
        a.bash("pytest -q src/pricing/test_money.py", f"..F{'.' * (6 + number)}\nFAILED test_money.py::test_rounding - AssertionError: Decimal('10.{11 + number}') != "
               f"Decimal('10.13')\n1 failed, {20 + number} passed in 0.4s", "exit status 1", why="Run the rounding test", takes=(700, 2000))
        if number % 2 == 0:
            a.bash(f"git diff --stat HEAD~{number + 1}", f" src/pricing/money.py | {number + 2} +-\n 1 file changed")
        else:
            a.read("src/pricing/money.py", code("pricing/money", 40 + number, 9), offset=40 + number, limit=9)
        old = fix
    a.say("The fixture itself seems to be wrong; asking the owner of the price list.", final=True)

    a = Agent("coding-05", "main", 75, model="m-small", labels={"team": "platform"})
    a.user("Set the log level of the gateway to warn.")
    explore(a, "gateway", 6)
    for _ in range(8):
        a.call("Write", {"path": "config/gateway.toml", "content": "[log]\nlevel = \"warn\"\nformat = \"json\"\n"}, "wrote config/gateway.toml (39 bytes)", pause=(6, 14))
    a.call("Read", {"path": "config/gateway.toml"}, "[log]\nlevel = \"warn\"\nformat = \"json\"\n")
    a.done("The log level is warn.")

    a = Agent("coding-06", "main", 20, labels={"team": "platform"})
    a.user("The billing pods restart. Find the reason.")
    explore(a, "billing", 5)
    pods = "NAME                      READY   STATUS             RESTARTS\nbilling-api-6f9c-x2k      0/1     CrashLoopBackOff   14\nbilling-worker-77d-qq8   1/1     Running            0"
    between = [("Read", {"path": "deploy/billing/values.yaml"}, "replicas: 2\nimage: billing-api:4.18\nresources:\n  limits: {memory: 256Mi}"),
               ("Grep", {"pattern": "memory", "path": "deploy"}, "deploy/billing/values.yaml:4:  limits: {memory: 256Mi}"),
               ("Bash", {"command": "kubectl logs -n billing billing-api-6f9c-x2k --tail 5"}, "loading 48211 tariffs\nterminated by signal 9"),
               ("WebSearch", {"query": "CrashLoopBackOff exit code 137"}, "137 means the container was killed, most often out of memory."),
               ("Bash", {"command": "kubectl top pods -n billing"}, "billing-api-6f9c-x2k   249m   255Mi"),
               ("Read", {"path": "src/billing/tariffs.py"}, code("billing/tariffs", 1, 10))]
    for tool, args, result in between:
        a.bash("kubectl get pods -n billing", pods)
        a.call(tool, args, result)
        a.call("TodoWrite", {"todos": [f"look at {args.get('path') or args.get('pattern') or args.get('query') or 'the cluster'}", "report"]}, f"{2 + len(args)} items, {len(result) % 7} open")
    a.done("billing-api needs more than 256Mi: it keeps all tariffs in memory.")

    a = Agent("coding-07", "main", 60, labels={"team": "release"})
    a.user("Push the hotfix and tell me when CI is green.")
    explore(a, "release", 4)
    a.bash("git push origin hotfix/vat", "To origin\n * [new branch] hotfix/vat -> hotfix/vat")
    stages = ["queued, position 3", "queued, position 1", "checkout", "compile: 112 of 640 units", "compile: 388 of 640 units", "compile: 640 of 640 units",
              "unit tests: 210 of 1904", "unit tests: 1377 of 1904", "unit tests: 1904 of 1904", "package", "upload", "success"]
    for stage in stages:
        a.call("Bash", {"command": "gh run view 4411 --json status"}, {"run": 4411, "status": stage}, pause=(18, 31))
    a.done("CI is green.")

    a = Agent("coding-08", "main", 90, labels={"team": "billing"})
    a.user("Where does the ledger decide on the exchange rate?")
    for number in range(22):
        offset = 1 + number * 120
        a.call("Read", {"path": "src/ledger/core.py", "offset": offset, "limit": 120}, code("ledger/core", offset, 12), pause=(2, 6))
    a.grep("exchange_rate", "src/ledger/core.py:2511: rate = self.exchange_rate(day)", path="src/ledger/core.py")
    a.done("In `post_entry`, line 2511.")

    a = Agent("coding-09", "main", 110, labels={"team": "search"}, pairs=True)
    a.user("Get the ranking model above 0.80 on the dev split.")
    explore(a, "ranking", 4)
    for number, score in enumerate(["0.712", "0.748", "0.741", "0.779", "0.803"]):
        if number:
            a.edit("src/ranking/features.py", f"WEIGHTS = v{number - 1}", f"WEIGHTS = v{number}", 20 + 3 * number)
        if number in (2, 3):
            a.read("src/ranking/features.py", code(f"ranking/features/{number}", 10, 8), offset=10 * number, limit=8)
        if number == 4:
            a.grep("boost", hits("boost", 3), path="src/ranking")
            a.edit("src/ranking/boost.py", "BOOST = 1.0", "BOOST = 1.2", 7)
        a.bash("python3 tools/score.py --split dev", f"split dev\nndcg@10 {score}\nqueries 1200", takes=(5000, 9000))
    a.bash("pytest -q src/ranking", "FAILED test_boost.py::test_neutral - assert 1.2 == 1.0\n1 failed, 63 passed", "exit status 1")
    a.read("src/ranking/test_boost.py", code("ranking/test_boost", 1, 8))
    a.edit("src/ranking/test_boost.py", "== 1.0", "== BOOST", 12)
    a.bash("pytest -q src/ranking", "64 passed")
    a.bash("git status --short", " M src/ranking/boost.py\n M src/ranking/features.py\n M src/ranking/test_boost.py")
    a.bash("pytest -q src/ranking", "64 passed")
    a.done("0.803 on dev, tests pass.")

    a = Agent("coding-10", "main", 150, model="m-small", labels={"team": "mobile"})
    a.user("Add empty translations for nine languages.")
    explore(a, "locale", 3)
    for language in ["da", "de", "es", "fi", "fr", "it", "nl", "pl", "sv"]:
        a.call("Write", {"path": f"locales/{language}.json", "content": f"{{\"language\": \"{language}\"}}\n"}, "ok", pause=(2, 5))
    a.bash("ls locales", "da.json de.json en.json es.json fi.json fr.json it.json nl.json pl.json sv.json")
    a.done("Nine files added.")


def research():
    a = Agent("research-01", "main", 25, kind="researcher", labels={"desk": "energy"})
    a.user("Which European heat pump makers publish recall data for 2025?")
    for number, topic in enumerate(["heat pump market Europe 2025", "list of heat pump manufacturers", "EU product safety gateway", "recall notification rules"]):
        a.call("web_search", {"query": topic}, {"results": [{"title": f"{topic}, overview", "score": 90 - 7 * number}, {"title": f"Report {number + 4}"}]})
    a.call("fetch_page", {"url": "https://example.org/safety-gate/weekly"}, "Weekly report 51: 48 alerts, none about heating.")
    for question in ["heat pump recall 2025 manufacturer data", "recalls of heat pumps in Europe 2025", "2025 heat pump safety recall list", "manufacturer recall register heat pumps EU",
                     "heat pump recall database download", "heat pump recall open data", "public recall statistics heat pump makers", "recall notices heat pumps EU 2025 csv",
                     "heat pump defects recall figures 2025"]:
        a.call("site_search", {"query": question, "site": "example.org"}, {"results": [], "note": "no page of this site matches"}, pause=(6, 13))
    a.call("web_search", {"query": "consumer agency annual report heating appliances"}, {"results": [{"title": "Annual report 2025, chapter 4"}]})
    a.done("No register is public; the annual report of the agency has a table.")

    a = Agent("research-02", "main", 70, model="m-small", kind="researcher", labels={"desk": "rates"})
    a.user("Summarise the central bank's minutes of December.")
    a.call("web_search", {"query": "central bank minutes December"}, {"results": [{"title": "Minutes", "url": "https://bank.example/minutes/12"}]})
    for topic in ["policy rate path", "inflation outlook projections", "votes against the decision"]:
        a.call("web_search", {"query": topic}, {"results": [{"title": f"Note on the {topic}", "words": len(topic) * 31}]})
    for limit in [2000, 4000, 8000, 16000, 20000, 24000, 32000]:
        a.call("fetch_page", {"url": "https://bank.example/minutes/12", "max_chars": limit}, "Please enable JavaScript to view this page.", pause=(5, 12))
    a.call("fetch_page", {"url": "https://bank.example/minutes/12.pdf"}, "Minutes of the meeting of 11 December. The board discussed wages and energy prices.")
    a.done("The board kept the rate; two members voted against.")

    a = Agent("research-03", "main", 100, kind="researcher", labels={"desk": "media"}, pairs=True)
    a.user("Collect the monthly article counts of 2025.")
    for month in range(1, 13):
        args = {"url": f"https://archive.example/api/count?month=2025-{month:02}"}
        if month == 5:
            for _ in range(4):
                a.call("http_get", args, None, {"type": "http_429", "message": "429 Too Many Requests, retry later"}, pause=(9, 21))
        a.call("http_get", args, {"month": f"2025-{month:02}", "articles": 9000 + month * 137 % 811, "authors": 200 + month * 29 % 83})
    a.done("Twelve months collected.")


def support():
    a = Agent("support-01", "main", 15, kind="support", labels={"queue": "refunds"})
    a.user("Where is my refund of order B-2291?")
    a.call("get_order", {"order": "B-2291"}, {"order": "B-2291", "state": "returned", "amount": "54.90"})
    a.call("get_refund", {"order": "B-2291"}, {"refund": "R-771", "state": "sent to bank"})
    for _ in range(24):
        a.call("check_status", {"refund": "R-771"}, {"refund": "R-771", "state": "pending at bank"}, pause=(17, 26))
    a.say("The bank has not confirmed the refund yet.", final=True)

    a = Agent("support-02", "main", 50, model="m-small", kind="support", labels={"queue": "delivery"})
    a.user("My parcel is marked as delivered, but it is not here.")
    a.call("get_order", {"order": "B-1874"}, {"order": "B-1874", "state": "delivered", "carrier": "northpost"})
    a.call("get_tracking", {"parcel": "NP-5520-1"}, {"events": ["sorted", "out for delivery", "delivered to neighbour"]})
    for text in ["I am sorry about this. Let me look into it right away.", "I apologise for the trouble. I will now contact the carrier.",
                 "Sorry for the wait. I am going to open a claim for you.", "I am really sorry. I will do it now.", "My apologies again, I am about to start the claim.",
                 "I apologise. Working on it.", "Sorry, one more moment, the claim is next."]:
        a.say(text, pause=(8, 15))
    a.call("open_claim", {"parcel": "NP-5520-1", "reason": "not received"}, {"claim": "C-310", "state": "open"})
    a.done("Claim C-310 is open.")

    a = Agent("support-03", "main", 80, kind="support", labels={"queue": "business"})
    a.user("Please give me the state of our eight open orders.")
    a.call("list_orders", {"customer": "K-88", "open": True}, {"orders": [f"B-30{n:02}" for n in range(11, 19)]})
    for number, state in enumerate(["packed", "shipped", "waiting for stock", "shipped", "packed", "on hold", "shipped", "ready"]):
        a.call("get_order", {"order": f"B-30{number + 11}"}, {"order": f"B-30{number + 11}", "state": state, "lines": 3 + number * 5 % 7}, pause=(2, 5))
    a.done("Three shipped, two packed, one ready, one on hold, one waiting for stock.")

    a = Agent("support-04", "main", 130, kind="support", labels={"queue": "wallet"})
    for question in ["What is my balance?", "And now?", "I just sent 20 euros, is it there?", "Could you look again?", "Still nothing?", "One more time, please."]:
        a.user(question)
        a.call("get_balance", {"customer": "K-1204"}, {"customer": "K-1204", "balance": "113.20", "currency": "EUR"})
        a.say("Your balance is 113.20 EUR.", pause=(15, 30))
    a.done("The transfer will show tomorrow.")


def swarms():
    shops = ["alpha-market", "bazaar-two", "corner-three", "depot-four", "emporium-five", "fair-six"]
    for number, shop in enumerate(shops):
        a = Agent(f"swarm-a-{number // 2 + 1}", f"crawler-{number + 1}", 35 + 11 * number, model="m-small", swarm="price-crawl", pairs=number % 2 == 0, kind="crawler")
        rng = random.Random(shop)
        for item in range(16):
            a.call("http_get", {"url": f"https://{shop}.example/items/{100 + item}"}, {"item": f"{shop}-{100 + item}", "price": f"{rng.randrange(3, 90)}.{rng.randrange(10, 99)}",
                   "stock": rng.randrange(40)}, pause=(6, 15))
            if item in (4, 11):
                a.call("http_get", {"url": "https://rates.example/v1/eur"}, None, {"type": "dns", "message": "no such host: rates.example"}, pause=(5, 12), takes=(3000, 5000))
        a.emit("session_end")
    for number in range(4):
        a = Agent(f"swarm-b-{number // 2 + 1}", f"reviewer-{number + 1}", 140 + 9 * number, swarm="docs-review", kind="reviewer")
        chapter = ["install", "tutorial", "reference", "faq"][number]
        for turn in range(2 if number % 2 == 0 else 1):
            a.call("Read", {"path": "README.md"}, "# Parcel API\n\nCreate, track and cancel shipments.\n")
            for part in range(1, 6):
                a.call("Read", {"path": f"docs/{chapter}/{turn * 5 + part}.md"}, code(f"{chapter}/{turn}/{part}", 1, 8))
            a.call("Write", {"path": f"review/{chapter}-{turn + 1}.md", "content": f"Part {turn + 1}: {a.random.randrange(2, 9)} remarks\n"}, "ok")
        a.done(f"Review of {chapter} is written.")


coding()
research()
support()
swarms()
for _, _, event in sorted(EVENTS, key=lambda entry: entry[:2]):
    sys.stdout.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")
