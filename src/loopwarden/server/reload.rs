//! SIGHUP: policy and log filter again, all or nothing. Every policy that was in force is kept beside the state, under its hash: commands
//! and Positions name it, so that a replay of any stretch can be given the policy that decided there.

use std::{collections::BTreeMap, path::Path, sync::Arc};
use std::{fs, io};

use loopwarden_log::replace;
use loopwarden_settings::{Loaded, policy::LoadedPolicy};

use crate::output::{complain, say};
use crate::server::state::{InForce, ServerState};
use crate::{exit_code, failure::Failure, server::deployment::Deployment, server::state, telemetry::logging::LogControl};

/// Keys that a reload puts in force; anything else needs a restart.
const RELOADED: [&str; 2] = ["policy", "log.level"];
/// Directory of the policies that were in force, in the data directory.
const POLICIES: &str = "policies";
/// Policies kept; the one put in force longest ago goes first.
const POLICIES_MAX: usize = 64;

/// Loads a policy, once: what decides, what is shown and what is kept are one reading of the file.
///
/// # Errors
/// Every problem of the policy.
pub(super) fn load(name_or_path: &str) -> Result<LoadedPolicy, Failure> {
    Ok(loopwarden_settings::policy::load_with(name_or_path, &BTreeMap::<String, String>::new())?)
}

/// What the listener shows of it.
pub(super) fn in_force(loaded: &LoadedPolicy) -> InForce {
    InForce { policy: Arc::new(loaded.policy.clone()), values: state::values(loaded.effective()) }
}

/// Keeps a policy as a file of its own: `policies/HASH.toml` in the data directory.
///
/// # Errors
/// The directory cannot be written to.
pub(super) fn keep(data_dir: &Path, loaded: &LoadedPolicy) -> io::Result<()> {
    let dir = data_dir.join(POLICIES);
    fs::create_dir_all(&dir)?;
    let hash = loaded.policy.hash.to_string();
    let whole = dir.join(format!("{hash}.toml"));
    replace(&whole, loaded.to_toml().as_bytes())?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let surplus = files.len().saturating_sub(POLICIES_MAX);
    files.iter().take(surplus).filter(|(_, path)| *path != whole).try_for_each(|(_, path)| fs::remove_file(path))
}

/// Puts in force what can be, or leaves everything as it was.
pub(super) fn reload(
    settings: &dyn Fn() -> Result<Loaded, Failure>,
    before: &Loaded,
    control: &LogControl,
    deployment: &Deployment,
    state: &ServerState,
) {
    let read = || -> Result<(Loaded, LoadedPolicy), Failure> {
        let loaded = settings()?;
        let policy = load(&loaded.config.policy)?;
        let data_dir = before.config.data_dir()?;
        keep(data_dir, &policy).map_err(|error| {
            Failure::coded("E0406", format!("cannot keep the policy in {}: {error}", data_dir.join(POLICIES).display()))
        })?;
        // The last thing that can fail.
        control.set(&loaded.config.log.level).map_err(|bad| Failure::new(exit_code::CONFIG, bad.to_string()))?;
        Ok((loaded, policy))
    };
    let (loaded, policy) = match read() {
        Ok(read) => read,
        Err(failure) => {
            complain(failure.message.as_deref().unwrap_or_default());
            complain("not reloaded: everything stays as it was");
            return;
        }
    };
    let in_force = in_force(&policy);
    deployment.fleet.set_policy(&in_force.policy);
    let (profile, hash) = (in_force.policy.profile.clone(), in_force.policy.hash.to_string());
    state.adopt(in_force);
    let others: Vec<String> = before.changed_keys(&loaded).into_iter().filter(|key| !RELOADED.contains(&key.as_str())).collect();
    if !others.is_empty() {
        say(format!("warning: a restart is needed for {}", others.join(", ")));
    }
    say(format!("reloaded: policy {profile} ({hash})"));
}
