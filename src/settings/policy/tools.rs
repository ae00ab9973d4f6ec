//! `[[tool]]` through the layers of a policy: a list adds to the one of the base, and stands behind it, so that its keys win.

use loopwarden_core::policy::Problem;

use crate::layers::tree::{Node, Table, Value};
use crate::layers::{shape, tree};
use crate::messages::diagnostic::Diagnostic;

const LIST: &str = "tool";

/// The key that decides whether a policy keeps the entries of its base. It belongs to one layer, as `base` does.
pub(crate) const OF_BASE: &str = "base_tools";

/// Takes `base_tools` out of a layer.
pub(crate) fn keeps_base(layer: &mut Table, code: &'static str, diagnostics: &mut Vec<Diagnostic>) -> bool {
    match layer.remove(OF_BASE) {
        None => true,
        Some(Node { value: Value::Boolean(keeps), .. }) => keeps,
        Some(node) => {
            let message = format!("{OF_BASE} is {}, but must be true or false", shape::kind(&node.value));
            diagnostics.push(Diagnostic::new(code, message).at(&node.origin, OF_BASE));
            true
        }
    }
}

/// Whether a layer has a list without entries.
pub(crate) fn is_empty(layer: &Table) -> bool {
    entries(layer).is_some_and(<[Node]>::is_empty)
}

fn entries(layer: &Table) -> Option<&[Node]> {
    match &layer.get(LIST)?.value {
        Value::Array(entries) => Some(entries),
        _ => None,
    }
}

/// Where the entries of each layer begin in the whole list.
#[derive(Debug, Default)]
pub(crate) struct ToolIndices(Vec<usize>);

impl ToolIndices {
    /// Puts the entries below a layer before its own ones, or leaves them out for good.
    pub(crate) fn put_below(&mut self, layer: &mut Table, below: &Table, keeps: bool) {
        if !keeps {
            self.0.clear();
            if let Some(node) = below.get(LIST)
                && !layer.contains_key(LIST)
            {
                layer.insert(LIST.to_owned(), Value::Array(Vec::new()).with_origin(&node.origin));
            }
            return;
        }
        if let Some(Node { value: Value::Array(own), .. }) = layer.get_mut(LIST)
            && let Some(below) = entries(below)
        {
            // An entry that was copied from the base stands once, among the own ones.
            let is_own = |entry: &Node| own.iter().any(|own| tree::same(own, entry));
            let below: Vec<Node> = below.iter().filter(|entry| !is_own(entry)).cloned().collect();
            self.0.push(below.len());
            own.splice(0..0, below);
        }
    }

    /// A problem's message and path with the entry's number in the file where it stands.
    pub(crate) fn as_written(&self, problem: &Problem) -> (String, String) {
        let number = || problem.path.strip_prefix("tool[")?.split_once(']')?.0.parse::<usize>().ok();
        let Some((whole, first)) = number().and_then(|whole| {
            let first = self.0.iter().rev().find(|first| **first <= whole)?;
            Some((whole, *first))
        }) else {
            return (problem.message.clone(), problem.path.clone());
        };
        let (whole, own) = (format!("{LIST}[{whole}]"), format!("{LIST}[{}]", whole - first));
        (problem.message.replacen(&whole, &own, 1), problem.path.replacen(&whole, &own, 1))
    }
}
