//! Whom a command is about, in words for people.

use crate::engine::is_act_code;

/// Whom a command binds that names no session. `text` gives what stands at a pointer of the command, as it may be shown; empty where nothing
/// does.
#[must_use]
pub fn whom(text: impl Fn(&str) -> String) -> String {
    let of_tenant = || format!("tenant {}", text("/tenant"));
    let swarm = text("/swarm_id");
    if !swarm.is_empty() {
        return format!("swarm {swarm}");
    }
    match &*text("/scope/kind") {
        "group" => match (text("/scope/group/kind"), text("/scope/group/name")) {
            (_, name) if name.is_empty() => of_tenant(),
            (kind, name) => format!("{kind} {name}"),
        },
        "agent" => format!("agent {}", text("/scope/agent_id")),
        "all" => "everybody".to_owned(),
        _ if is_act_code(&text("/reason/code")) => of_tenant(),
        _ => "the fleet".to_owned(),
    }
}
