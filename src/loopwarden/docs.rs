//! The project's pages, so that they are read, linked and compiled where the code is. They hold no code.

/// Map of the source, the one direction of flow, the invariants.
pub mod architecture {
    #![doc = include_str!("../docs/architecture.md")]
}

/// How a lane commits, restores and shares its tasks: the rules that comments name.
pub mod commit {
    #![doc = include_str!("../docs/commit.md")]
}

/// What is kept: in memory, on disk, in the changelogs.
pub mod state {
    #![doc = include_str!("../docs/state.md")]
}

/// What is promised, to whom, and the test behind each line.
pub mod guarantees {
    #![doc = include_str!("../docs/guarantees.md")]
}

/// The words that all detectors share: call, outcome, evidence, episode.
pub mod concepts {
    #![doc = include_str!("../docs/concepts.md")]
}

/// What agents report: kinds of events, their fields, ways in.
pub mod events {
    #![doc = include_str!("../docs/events.md")]
}

/// What other programs send: OpenTelemetry, CloudEvents, any JSON by a mapping.
pub mod ingest {
    #![doc = include_str!("../docs/ingest.md")]
}

/// What workers must do with commands.
pub mod workers {
    #![doc = include_str!("../docs/workers.md")]
}

/// Commands posted to a URL.
pub mod webhooks {
    #![doc = include_str!("../docs/webhooks.md")]
}

/// One question per call: how an agent obeys commands without following them.
pub mod guard {
    #![doc = include_str!("../docs/guard.md")]
}

/// Connect your agent: hooks of coding agents, one line each.
pub mod agents {
    #![doc = include_str!("../docs/agents.md")]
}

/// What the default policy runs: the score, its detectors and their settings. Made from their files.
pub mod detection {
    #![doc = include_str!("../docs/detection.md")]
}

/// The detectors of other systems, which are off by default. Made from their files.
pub mod reference {
    #![doc = include_str!("../docs/reference.md")]
}

/// Rules of your own, and how to test them.
pub mod policies {
    #![doc = include_str!("../docs/policies.md")]
}

/// For whoever is woken at night: look, stop, release.
pub mod operate {
    #![doc = include_str!("../docs/operate.md")]
}

/// Running it: deployment, settings, permissions, topics, upgrades, exit codes, error codes.
pub mod operations {
    #![doc = include_str!("../docs/operations.md")]
}

/// How loopwarden proves to the brokers who it is.
pub mod authentication {
    #![doc = include_str!("../docs/authentication.md")]
}

/// Every metric, and what to do when an alert fires.
pub mod metrics {
    #![doc = include_str!("../docs/metrics.md")]
}

/// The routes of the listener: access, events in, commands out.
pub mod http {
    #![doc = include_str!("../docs/http.md")]
}

/// Replays: what they read, the report, two policies, a sweep, inspection.
pub mod replay {
    #![doc = include_str!("../docs/replay.md")]
}

/// How good a policy is: labels, answers, weights, trials.
pub mod learning {
    #![doc = include_str!("../docs/learning.md")]
}

/// Where time goes, and how it is measured.
pub mod performance {
    #![doc = include_str!("../docs/performance.md")]
}

/// What was decided, when and why.
pub mod decisions {
    #![doc = include_str!("../docs/decisions.md")]
}
