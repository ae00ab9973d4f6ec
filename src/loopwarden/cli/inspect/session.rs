//! A session, event by event: what each detector saw, how its streaks stood, and why a command was or was not sent.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use loopwarden_core::engine::Session;
use loopwarden_lab::report::{Table, plain};
use serde_json::{Value, json};

use crate::cli::args::{InspectArgs, LogArgs};
use crate::cli::cases::Bench;
use crate::cli::inspect::note::{Note, content};
use crate::cli::inspect::shown::{Part, Shown, not_found};
use crate::cli::inspect::source::Input;
use crate::cli::inspect::thresholds;
use crate::cli::inspect::thresholds::Kept;
use crate::failure::Failure;

/// Other tenants with a session of this name that are named.
const TENANTS_NAMED: usize = 5;

/// Decides the session anew.
pub(super) fn inspect(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let input = Input::of(args, log)?;
    let policy = Arc::clone(&input.policy);
    let (policy_name, overrides) = (input.policy_name.clone(), input.overrides.clone());
    let mut bench = Bench::of_app(&input.app, Arc::clone(&policy));
    let mut notes: VecDeque<Note> = VecDeque::new();
    let mut kept = Kept::default();
    let (mut count, mut duplicates) = (0_u64, 0_u64);
    let mut tenants: BTreeSet<Option<String>> = BTreeSet::new();
    let mut left_over = Value::Array(Vec::new());
    input.events(|event, record| {
        if event.session_id != args.id {
            return;
        }
        if event.tenant.as_deref() != args.tenant.as_deref() {
            if tenants.len() < TENANTS_NAMED {
                tenants.insert(event.tenant.as_deref().map(str::to_owned));
            }
            return;
        }
        count += 1;
        kept.keep(record);
        let place = (record.meta.topic, record.meta.partition, record.meta.offset.0);
        let answer = bench.apply(event, place);
        let Some(session) = bench.session(event) else { return };
        if notes.len() >= args.limit as usize {
            notes.pop_front();
        }
        // As labels count: by the producer's counter, else by what came before.
        let index = (!answer.is_duplicate).then(|| event.seq.unwrap_or(count - duplicates - 1));
        duplicates += u64::from(answer.is_duplicate);
        let mut note = Note::of(index, event, place, &answer, session, &policy);
        note.content = args.show_content.then(|| content(event));
        notes.push_back(note);
        left_over = verdicts(session);
    })?;
    if count == 0 {
        let others: Vec<String> = tenants.iter().map(|tenant| named(tenant.as_deref())).collect();
        let hint = if others.is_empty() { String::new() } else { format!("; there is one of {}", others.join(", ")) };
        return Err(not_found(&format!("no event of session {:?}{} in this input{hint}", args.id, of_tenant(args))));
    }
    let thresholds = thresholds::sweep(&kept, &policy_name, &overrides, &policy);
    let mut contents = String::new();
    for note in &notes {
        if let Some(content) = note.content.as_ref().filter(|content| !content.is_null()) {
            // A text in memory takes everything.
            let _ = write!(contents, "\n#{} {content}", json!(note.index));
        }
    }
    let head = format!(
        "session {}{}: {count} events, the newest {} shown; policy {}",
        plain(&args.id),
        of_tenant(args),
        notes.len(),
        policy.profile
    );
    let mut parts = vec![Part::Text(head), Part::Table(Table::of(notes.iter().map(Note::row)))];
    if !contents.is_empty() {
        parts.push(Part::Text(contents));
    }
    parts.push(Part::Text(format!("\nOther thresholds, over {}:", kept.extent())));
    parts.push(if thresholds.is_empty() {
        Part::Text("none of those tried would have said anything".to_owned())
    } else {
        Part::Table(thresholds.clone())
    });
    let json = json!({
        "session_id": args.id,
        "tenant": args.tenant,
        "policy": { "profile": policy.profile, "sha256": policy.hash.to_string() },
        "events": count,
        "steps": notes,
        "in_force": left_over,
        "thresholds": thresholds.to_objects(),
    });
    Ok(Shown { json, parts })
}

fn named(tenant: Option<&str>) -> String {
    tenant.map_or_else(|| "no tenant".to_owned(), |tenant| format!("tenant {tenant:?}"))
}

pub(super) fn of_tenant(args: &InspectArgs) -> String {
    args.tenant.as_ref().map(|tenant| format!(" of tenant {tenant:?}")).unwrap_or_default()
}

/// Verdicts in force.
fn verdicts(session: &Session) -> Value {
    let now = session.head.time;
    let in_force = session.head.verdicts.iter().filter(|verdict| verdict.expires_at > now);
    in_force
        .map(|verdict| {
            json!({ "action": verdict.action.as_str(), "code": verdict.detector.as_str(), "level": verdict.level,
                "expires_at": verdict.expires_at.to_rfc3339() })
        })
        .collect()
}
