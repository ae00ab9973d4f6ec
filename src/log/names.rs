//! Names that records of the worlds without Kafka carry as their topic: those of a real installation, so that commands that quote
//! them read the same.

use loopwarden_core::event::Stage;

/// Name of each stage's input topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputNames {
    /// Topic of the events.
    pub events: String,
    /// Topic of the sums for the swarm stage.
    pub swarm_counts: String,
}

impl Default for InputNames {
    fn default() -> Self {
        Self { events: "agents.tool-events.v1".to_owned(), swarm_counts: "loopwarden.swarm-counts".to_owned() }
    }
}

impl InputNames {
    /// Name of a stage's input.
    pub fn of(&self, stage: Stage) -> &str {
        match stage {
            Stage::Session => &self.events,
            Stage::Swarm => &self.swarm_counts,
        }
    }
}
