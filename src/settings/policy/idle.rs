//! Keys of detectors that are off: whoever sets one expects something of it.

use loopwarden_core::policy::{Detector, Policy};

use crate::layers::tree::{Node, Table, Value};
use crate::{layers::tree, messages::diagnostic::Origin};

/// Keys that somebody set, by detector.
#[derive(Debug, Default)]
pub(crate) struct SetKeys(Vec<(String, String)>);

impl SetKeys {
    /// Notes what a layer sets of detectors whose mode it leaves as it is. A file that holds a whole policy names every key, so that of a file
    /// only those count that change one.
    pub(crate) fn note(&mut self, layer: &Table, below: &Table) {
        let Some(Node { value: Value::Table(detectors), .. }) = layer.get("detectors") else { return };
        for (name, node) in detectors {
            let Value::Table(keys) = &node.value else { continue };
            if keys.contains_key("mode") {
                self.0.retain(|(detector, _)| detector != name);
                continue;
            }
            for (key, node) in keys {
                let changes = || tree::at(below, &["detectors", name, key]).is_none_or(|before| before.value != node.value);
                let counts = match &node.origin {
                    Origin::Override | Origin::Flag(_) => true,
                    Origin::File { .. } => changes(),
                    _ => false,
                };
                let named = (name.clone(), key.clone());
                if counts && !self.0.contains(&named) {
                    self.0.push(named);
                }
            }
        }
    }

    /// A line for each detector that is off and has such keys.
    pub(crate) fn messages(&self, policy: &Policy, effective: &Table) -> Vec<String> {
        let message = |detector: Detector| {
            let name = detector.as_str();
            let keys: Vec<String> = self
                .0
                .iter()
                .filter(|(of, key)| of == name && !moves_another(policy, of, key))
                .map(|(of, key)| format!("detectors.{of}.{key}"))
                .collect();
            let why = why_off(name, effective)?;
            (!keys.is_empty()).then(|| format!("{} changes nothing: {why}", keys.join(", ")))
        };
        Detector::ALL.into_iter().filter(|detector| !policy.detectors.mode(*detector).is_on()).filter_map(message).collect()
    }
}

/// The threshold of `exact_repeat` moves those of `near_repeat`, whether it runs itself or not.
fn moves_another(policy: &Policy, detector: &str, key: &str) -> bool {
    detector == Detector::ExactRepeat.as_str() && key == "threshold" && policy.detectors.mode(Detector::NearRepeat).is_on()
}

/// `None` where a number of its own switches it off, as `fleet_rate.limit = 0` does: that was meant.
fn why_off(name: &str, effective: &Table) -> Option<String> {
    if matches!(&tree::at(effective, &["detectors", name, "mode"])?.value, Value::Text(mode) if mode == "off") {
        return Some(format!("{name} is off here; detectors.{name}.mode = \"nudge\" switches it on"));
    }
    match &effective.get("only")?.value {
        Value::Array(only) if !only.is_empty() => Some(format!("`only` leaves {name} out")),
        _ => None,
    }
}
