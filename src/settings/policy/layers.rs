//! Policies from their layers: shipped profiles along the chain of bases, a user's file, overrides.

use std::{path::Path, sync::Arc};

use loopwarden_core::policy::{Detector, PROFILES, Policy, Profile};
use serde::Serialize;

use crate::layers::tree::{Effective, Node, Source, Table, Value};
use crate::layers::{file, shape, tree};
use crate::messages::diagnostic::{Diagnostic, Diagnostics, Origin, did_you_mean};
use crate::{layers::shape::Codes, policy::idle::SetKeys, policy::tools, policy::tools::ToolIndices};

/// Code of everything that is wrong with a policy.
pub(crate) const CODE: &str = "E0601";

/// The profile that a policy file without `base` begins from.
const BASE_DEFAULT: &str = "default";

/// A policy with the origin of each of its values.
#[derive(Debug, Clone)]
pub struct LoadedPolicy {
    pub policy: Policy,
    /// It has `tool = []`, which took all rules away where a list replaced the one below it. It adds nothing.
    pub adds_no_tool: bool,
    /// A line for each detector that is off and has keys that the file or an override sets.
    pub without_effect: Vec<String>,
    tree: Table,
}

impl LoadedPolicy {
    /// Every effective value with its origin, sorted by key.
    pub fn effective(&self) -> Vec<Effective> {
        tree::effective(&self.tree)
    }

    /// The complete policy as a file of its own: loads to the same hash.
    pub fn to_toml(&self) -> String {
        let mut whole = tree::to_toml(&self.tree);
        whole.insert(tools::OF_BASE.to_owned(), toml::Value::Boolean(false));
        whole.to_string()
    }
}

/// Loads a shipped profile by name, or a file.
///
/// # Errors
/// Every problem of the policy, or why the file cannot be read.
pub fn load(name_or_path: &str) -> Result<Policy, Diagnostics> {
    load_with(name_or_path, &toml::Table::new()).map(|loaded| loaded.policy)
}

/// Loads a policy from a file's text; `file` names it in messages.
///
/// # Errors
/// Every problem of the policy.
pub fn load_from_str(text: &str, file: &str) -> Result<Policy, Diagnostics> {
    resolve(file_layer(text, file)?, Table::new()).map(|loaded| loaded.policy)
}

/// Loads a profile or file with overrides: anything that serialises to the tables and keys of a policy file.
///
/// # Errors
/// Every problem of the policy; overrides that hold nulls, or numbers beyond 64 bits.
pub fn load_with_overrides(name_or_path: &str, overrides: &impl Serialize) -> Result<Policy, Diagnostics> {
    layered(name_or_path, overrides, &Origin::Override).map(|loaded| loaded.policy)
}

/// As [`load_with_overrides`], with the origin of each value. Who reads of a mistake has written the overrides as `--set`.
///
/// # Errors
/// As [`load_with_overrides`].
pub fn load_with(name_or_path: &str, overrides: &impl Serialize) -> Result<LoadedPolicy, Diagnostics> {
    layered(name_or_path, overrides, &Origin::Flag(Arc::from("--set")))
}

fn layered(name_or_path: &str, overrides: &impl Serialize, origin: &Origin) -> Result<LoadedPolicy, Diagnostics> {
    let overrides = toml::Table::try_from(overrides)
        .map_err(|error| Diagnostic::new(CODE, format!("the overrides are no policy: {error}")))?;
    let overrides = tree::from_toml(&overrides, origin);
    match Profile::named(name_or_path) {
        Some(profile) => resolve(shipped(profile)?, overrides),
        None => resolve(from_file(name_or_path)?, overrides),
    }
}

fn shipped(profile: Profile) -> Result<Table, Diagnostics> {
    parsed(profile, &Source::Profile(Arc::from(profile.name)))
}

/// The known keys of a policy with the types of their values.
pub(crate) fn shape() -> Result<Table, Diagnostics> {
    parsed(Profile::DEFAULT, &Source::Default)
}

/// A shipped profile. The root has the settings of every detector, also of one that its file does not name.
fn parsed(profile: Profile, source: &Source) -> Result<Table, Diagnostics> {
    let mut policy = tree::parse(profile.text, source, CODE).map_err(Diagnostics)?;
    if profile == Profile::DEFAULT {
        let is_named = |policy: &Table, detector: Detector| tree::at(policy, &["detectors", detector.as_str()]).is_some();
        for detector in Detector::ALL {
            if !is_named(&policy, detector) {
                let defaults = tree::parse(&detector.default_toml(), source, CODE).map_err(Diagnostics)?;
                tree::merge(&mut policy, defaults);
            }
        }
    }
    Ok(policy)
}

fn from_file(path: &str) -> Result<Table, Diagnostics> {
    let looks_like_a_name = !path.contains(['/', '.']) && !Path::new(path).exists();
    if looks_like_a_name {
        return Err(unknown_profile("there is no policy", path, "").into());
    }
    file_layer(&file::read(Path::new(path), CODE)?, path)
}

/// A file's own layer. One without a key is what a full disk leaves of a policy: taken as it is, it would silently be the default one.
fn file_layer(text: &str, file: &str) -> Result<Table, Diagnostics> {
    let layer = tree::parse(text, &Source::File(Arc::from(file)), CODE).map_err(Diagnostics)?;
    if layer.is_empty() {
        let help = format!("if the policy {BASE_DEFAULT:?} is meant, write: base = {BASE_DEFAULT:?}");
        return Err(Diagnostic::new(CODE, format!("{file} holds no key, but must hold a policy")).help(help).into());
    }
    Ok(layer)
}

fn unknown_profile(what: &str, name: &str, but: &str) -> Diagnostic {
    let names = PROFILES.map(|profile| profile.name);
    let meant = did_you_mean(name, names);
    Diagnostic::new(CODE, format!("{what} {name:?}{but}{meant}")).help(format!("shipped profiles: {}", names.join(", ")))
}

/// Merges the chain of bases, the layer and the overrides, then checks.
fn resolve(layer: Table, overrides: Table) -> Result<LoadedPolicy, Diagnostics> {
    let mut diagnostics = Vec::new();
    let mut layers = vec![overrides, layer];
    // Bases are shipped, and a shipped base never leads back: the chain ends at the profile without one.
    while let Some(base) = layers.last_mut().and_then(|layer| take_base(layer, &mut diagnostics)) {
        layers.push(shipped(base)?);
    }
    let mut effective = layers.pop().unwrap_or_default();
    let (mut tools, mut adds_no_tool, mut set_keys) = (ToolIndices::default(), false, SetKeys::default());
    let shape = shape()?;
    while let Some(mut layer) = layers.pop() {
        let keeps = tools::keeps_base(&mut layer, CODE, &mut diagnostics);
        shape::check(&mut layer, &shape, "", Codes { unknown: CODE, bad: CODE }, &mut diagnostics);
        // Above the policy itself there are only overrides.
        adds_no_tool |= layers.len() <= 1 && keeps && tools::is_empty(&layer);
        tools.put_below(&mut layer, &effective, keeps);
        set_keys.note(&layer, &effective);
        move_thresholds(&mut effective, &layer);
        tree::merge(&mut effective, layer);
    }
    match Policy::read(&tree::to_core(&effective), &tree::to_json(&effective)) {
        Ok(policy) if diagnostics.is_empty() => {
            let without_effect = set_keys.messages(&policy, &effective);
            Ok(LoadedPolicy { policy, adds_no_tool, without_effect, tree: effective })
        }
        Ok(_) => Err(Diagnostics::sorted(diagnostics)),
        Err(problems) => {
            diagnostics.extend(problems.into_iter().map(|problem| {
                let (message, path) = tools.as_written(&problem);
                tree::diagnostic(&effective, CODE, &problem.path, message, &path)
            }));
            Err(Diagnostics::sorted(diagnostics))
        }
    }
}

/// Takes `base` out of a layer. A file without one stands on the default profile; the root on nothing.
fn take_base(layer: &mut Table, diagnostics: &mut Vec<Diagnostic>) -> Option<Profile> {
    let is_root = |name: &Node| matches!(&name.origin, Origin::Profile(profile) if &**profile == Profile::DEFAULT.name);
    let base = layer.remove("base");
    if base.is_none() && layer.get("profile").is_some_and(is_root) {
        return None;
    }
    let Some(base) = base else { return Some(Profile::DEFAULT) };
    let found = match &base.value {
        Value::Text(name) => {
            Profile::named(name).ok_or_else(|| unknown_profile("base is", name, ", but must be a shipped profile"))
        }
        other => Err(Diagnostic::new(CODE, format!("base is {}, but must be the name of a profile", shape::kind(other)))),
    };
    match found {
        Ok(profile) => Some(profile),
        Err(diagnostic) => {
            diagnostics.push(diagnostic.at(&base.origin, "base"));
            Some(Profile::DEFAULT)
        }
    }
}

/// `exact_repeat.threshold` alone moves `near_repeat.threshold` and both `block_at` by the same amount, so that near
/// stays one more than exact and no block comes before its finding.
fn move_thresholds(effective: &mut Table, layer: &Table) {
    const EXACT: [&str; 3] = ["detectors", "exact_repeat", "threshold"];
    const MOVED: [[&str; 3]; 3] = [
        ["detectors", "exact_repeat", "block_at"],
        ["detectors", "near_repeat", "threshold"],
        ["detectors", "near_repeat", "block_at"],
    ];
    let Some(Node { value: Value::Integer(new), origin, .. }) = tree::at(layer, &EXACT) else { return };
    let Some(Node { value: Value::Integer(old), .. }) = tree::at(effective, &EXACT) else { return };
    if *new < 1 || MOVED.iter().any(|path| tree::at(layer, path).is_some()) {
        return;
    }
    let by = new.saturating_sub(*old);
    for path in MOVED {
        if let Some(node) = tree::at_mut(effective, &path)
            && let Value::Integer(value) = &mut node.value
            && *value > 0
        {
            *value = value.saturating_add(by);
            node.origin = origin.clone();
        }
    }
}
