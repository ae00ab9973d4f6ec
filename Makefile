# One command per check; CI calls nothing else. All of them share one native build: always --release, never other features.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/loopwarden/target

.PHONY: agents first-hour demo test check setup fmt lint unit it golden toy kafka browser otel chaos lag spending long-bill upgrade soak soak-embedded mutants doc deny deploy bench bench-guard bench-race install wheel release-check compose containers vectors openapi clients-python clients-typescript

demo: setup ## the embedded engine on the sample fleet: no Kafka, no network
	cargo run --release --locked --quiet --bin loopwarden -- demo

install: setup ## the program and the hook of coding agents into ~/.cargo/bin, from what is built already
	cargo install --locked --quiet --path .
	cargo install --locked --quiet --path src/hook

test: setup ## everything, with a real broker, a browser, coding agents and OpenTelemetry's SDKs, as far as they can be had
	bash tests/kafka/broker/fetch.sh
	cargo test --release --locked --workspace
	bash tests/browser/run.sh
	$(MAKE) first-hour agents otel

check: fmt lint unit it doc ## what needs no network

setup: ## native libraries, only those that are missing
	@bash .ci/setup
	@bash .ci/native

fmt:
	cargo fmt --all --check

lint:
	cargo lint

unit: ## the tests beside the code
	cargo test --release --locked --workspace --lib

it: ## the hermetic tests
	cargo it

golden: ## every golden case
	cargo it golden

toy: ## a new detector is at most four files, a new kind of whom seven: the patches under tests/toy, built and run
	bash tests/toy/run.sh

kafka: ## the tests against a real broker: in a container where a Docker daemon answers, else in a JVM
	bash tests/kafka/broker/fetch.sh
	cargo kafka

containers: ## those of them that must hold on a container too; starts a Docker daemon of its own where none answers (root, Debian)
	bash tests/kafka/broker/fetch.sh
	bash .ci/docker bash tests/kafka/broker/contained.sh

agents: ## real coding agents from npm against a model on loopback, with our hooks and with their own exporters
	cargo build --release --locked --bin loopwarden --bin loopwarden-hook
	python3 tests/agents/run.py
	python3 tests/agents/proxy.py
	python3 tests/otel/exporters.py

first-hour: ## what four new users type, from README and pages as they stand there; what needs a broker, a build or another host is skipped with its reason
	cargo build --release --locked --bin loopwarden --bin loopwarden-hook
	python3 tests/first_hour/run.py

browser: ## the live page and the reports in headless Chromium, where there is one
	cargo build --release --locked
	bash tests/browser/run.sh

otel: ## two looping agents each, sent by the Python and the Node SDK of OpenTelemetry, and by way of a collector; skipped without packages
	cargo build --release --locked
	bash tests/otel/run.sh

openapi: ## schemathesis against the process with a log of its own; skipped without PyPI
	cargo build --release --locked --bin loopwarden
	python3 tests/openapi/run.py

chaos: ## 200 kills and 2 million events on a real broker; the last run is kept under tests/chaos/runs
	bash tests/kafka/broker/fetch.sh
	LOOPWARDEN_CHAOS_KILLS=$${LOOPWARDEN_CHAOS_KILLS:-200} LOOPWARDEN_CHAOS_EVENTS=$${LOOPWARDEN_CHAOS_EVENTS:-2000000} cargo test --release --locked --test chaos

long-proof: ## 2,000 kills and 10 million events on a real broker; broker, disks and clocks are among the victims (disks need root)
	bash tests/kafka/broker/fetch.sh
	LOOPWARDEN_CHAOS_NAME=long LOOPWARDEN_CHAOS_KILLS=$${LOOPWARDEN_CHAOS_KILLS:-2000} LOOPWARDEN_CHAOS_EVENTS=$${LOOPWARDEN_CHAOS_EVENTS:-10000000} LOOPWARDEN_CHAOS_PAUSE_MS=$${LOOPWARDEN_CHAOS_PAUSE_MS:-1000} cargo test --release --locked --test chaos

long-proof-embedded: ## as many on embedded logs
	LOOPWARDEN_CHAOS_LOG=embedded $(MAKE) long-proof

long-bill: ## what loops cost is never above what their session did, in a million generated sessions
	LOOPWARDEN_BILL_SESSIONS=$${LOOPWARDEN_BILL_SESSIONS:-1000000} cargo test --release --locked --test it -- --nocapture what_loops_cost_is_never_above

long-simulation: ## 100 million faults in the simulation, on all cores
	LOOPWARDEN_SIM_FAULTS=$${LOOPWARDEN_SIM_FAULTS:-100000000} cargo test --release --locked --test it -- --nocapture sim_long

lag: ## months of real events within a minute, with stops, answers and budgets, a kill every one to two seconds, compared with a replay; twenty times
	bash tests/kafka/broker/fetch.sh
	LOOPWARDEN_LAG_RUNS=$${LOOPWARDEN_LAG_RUNS:-20} cargo test --release --locked --test chaos

spending: ## a tenant's budget over eight partitions and two processes, raised again and again, with 60 kills of processes and guards
	bash tests/kafka/broker/fetch.sh
	LOOPWARDEN_SPENDING_KILLS=$${LOOPWARDEN_SPENDING_KILLS:-60} cargo test --release --locked --test chaos

upgrade: ## the kill loop with this program and one of an earlier revision: make upgrade FROM=REVISION
	bash tests/kafka/broker/fetch.sh
	bash tests/chaos/upgrade.sh $(FROM)

soak: ## half an hour of steady load on a real broker; memory, descriptors, disk and lag must stay flat
	bash tests/kafka/broker/fetch.sh
	LOOPWARDEN_SOAK_MINUTES=$${LOOPWARDEN_SOAK_MINUTES:-30} cargo test --release --locked --test chaos

soak-embedded: ## the same for the embedded log: two processes without a broker, one of them killed every minute
	LOOPWARDEN_SOAK_LOG=embedded LOOPWARDEN_SOAK_MINUTES=$${LOOPWARDEN_SOAK_MINUTES:-30} cargo test --release --locked --test chaos

mutants: ## every wrong idea under tests/mutants must turn the tests red
	bash tests/kafka/broker/fetch.sh
	bash tests/mutants/run.sh

doc:
	RUSTDOCFLAGS=-Dwarnings cargo doc --release --locked --workspace --no-deps

deny: ## licences, bans, sources, advisories
	@bash .ci/deny

deploy: ## what can be checked of deploy/ with the tools that are there
	@bash .ci/deploy

compose: ## the image and deploy/compose.yaml, where a Docker daemon can be started
	@bash tests/compose/run.sh

vectors: ## what the clients compute by themselves: vectors that the guard agrees with, for their tests
	cargo test --release --locked --quiet --test it vectors::

clients-python: vectors ## the Python client: each adapter in its real framework, with a scripted model; environments from PyPI
	@bash clients/python/test.sh

clients-typescript: vectors ## the TypeScript client and the plugin of opencode, with the real frameworks from npm and fake models
	@bash clients/typescript/test.sh

wheel: ## the Python wheel from the built binaries; installed with pip, uv and pipx, and started
	cargo build --release --locked --quiet --bin loopwarden --bin loopwarden-hook
	@bash .ci/wheel

release-check: ## what can be checked of a release without making one: workflows, versions, the archive
	cargo build --release --locked --quiet --bin loopwarden --bin loopwarden-hook
	@bash .ci/release-check

bench-guard: ## instruction counts of fixed work against the committed figures
	bash tests/bench/guard.sh

bench-race: ## the floor, two profiles, Kafka Streams and Flink in turn, five rounds; writes its part of the page on performance; needs Maven and Java 17
	bash tests/kafka/broker/fetch.sh
	bash tests/bench/run.sh race

bench: ## every benchmark; what it printed is kept under tests/bench/runs
	bash tests/kafka/broker/fetch.sh
	bash tests/bench/run.sh
