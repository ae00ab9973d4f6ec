//! What a session knows of the tree of agents that it belongs to.

use crate::event::{Event, MAIN_AGENT};

/// A place in a tree of agents. Events name it; else an agent has one once it has started another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// Name of the tree within the tenant, as [`Event::tree`] has it.
    pub name: Box<str>,
    /// Who started the agent; empty: nobody is named.
    pub parent: Box<str>,
    /// Levels below the root, as far as events name it; 0 = the root itself.
    pub depth: u32,
    /// Agents that it has started, by calls of class `spawn`.
    pub spawns: u32,
}

impl Tree {
    /// The place that an event gives its agent.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Self {
        let parent = event.parent_id.as_deref().unwrap_or_default();
        Self { name: event.tree().into(), parent: parent.into(), depth: depth(event), spawns: 0 }
    }
}

/// Whether an event names a tree, or who started its agent.
pub(crate) const fn is_named(event: &Event<'_>) -> bool {
    event.root_id.is_some() || event.parent_id.is_some()
}

/// Levels below the root: one where the root started the agent, two where another agent did.
fn depth(event: &Event<'_>) -> u32 {
    let is_itself = |root: &str| root == event.agent_id || (!event.has_agent && root == event.session_id);
    match (event.root_id.as_deref(), event.parent_id.as_deref()) {
        (None, None) => 0,
        (Some(root), None) => u32::from(!is_itself(root)),
        (None, Some(_)) => 1,
        (Some(root), Some(parent)) => {
            if parent == root || parent == MAIN_AGENT {
                1
            } else {
                2
            }
        }
    }
}
