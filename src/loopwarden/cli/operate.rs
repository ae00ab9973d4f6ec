//! `stop` and `release`: acts of an operator, sent to wherever events go.

use loopwarden_core::event::EventTime;
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_lab::report::{grouped, plain};
use loopwarden_log::clock;
use loopwarden_settings::Config;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::args::{LogArgs, ReleaseArgs, StopArgs, WhereArgs, WhomArgs};
use crate::cli::shared::ask::RunningProcess;
use crate::cli::shared::{act, ask, setup};
use crate::failure::{Failure, Outcome};
use crate::operate::act::{Act, Does, span_ms};
use crate::operate::{api, api::StopName, shown};
use crate::{cli::shared::act::usage, output};

const PATH: &str = "/v1/stops";

/// Stops agents until they are released, or its end.
///
/// # Errors
/// Settings, brokers, the running process; that nobody has confirmed a stop of everybody.
pub fn stop(args: &StopArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let config = setup::load(&args.place.config, log)?.config;
    let whom = whom(&args.whom);
    let now = EventTime(clock::now_ms());
    let until = match &args.span {
        None => now.plus_ms(1),
        Some(span) => {
            let why = || usage(&format!("--for {span:?} is no span: as 90s, 30m, 2h, at most 7d"));
            now.plus_ms(span_ms(span).ok_or_else(why)?)
        }
    };
    if args.dry_run {
        return output::line(&format!("{} would be stopped: {}", named(&whom), count(&whom, &args.place, &config)?));
    }
    if whom.kind == Kind::All && !args.yes {
        let found = count(&whom, &args.place, &config).unwrap_or_else(|_| "nobody could be asked how many agents".to_owned());
        output::say(format!("this stops everybody: {found}; nothing was changed, with --yes it is"));
        return Err(Failure::answer_is_no());
    }
    let reason = args.reason.as_deref().unwrap_or_default();
    let message = |what: &str, became: &str| format!("{} {what} until {}: {became}", named(&whom), until.to_rfc3339());
    let does = Does::Stop { until, fails_closed: args.fail_closed };
    if let Some(became) = act::to_topic(&act(&whom, does, Some(reason), now), "act", &args.place, &config)? {
        return output::line(&message("is to be stopped", &became));
    }
    let fail = if args.fail_closed { "closed" } else { "open" };
    let more = json!({ "reason": reason, "until": until.to_rfc3339(), "fail": fail });
    let stopped: api::Stopped = post(&whom, &args.place, &config, more)?;
    let (what, became) = if stopped.in_force { ("is stopped", "in force") } else { ("is to be stopped", act::UNJUDGED) };
    output::line(&message(what, became))
}

/// Lets agents go on that were stopped.
///
/// # Errors
/// Settings, brokers, the running process.
pub fn release(args: &ReleaseArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let config = setup::load(&args.place.config, log)?.config;
    let whom = whom(&args.whom);
    let reason = args.reason.as_deref();
    let message = |what: &str, became: &str| format!("{} {what}: {became}", named(&whom));
    let release = act(&whom, Does::Release, reason, EventTime(clock::now_ms()));
    if let Some(became) = act::to_topic(&release, "act", &args.place, &config)? {
        return output::line(&message("is to be released", &became));
    }
    let StopName { scope, names } = shown::stop_name(&whom);
    let fields = names.iter().map(|(name, value)| (&**name, &**value)).chain(reason.map(|reason| ("reason", reason)));
    let pairs = [("scope", &*scope)].into_iter().chain(fields).map(|(name, value)| format!("{name}={}", ask::path_part(value)));
    let pairs: Vec<String> = pairs.collect();
    let process = RunningProcess::of(args.place.address.as_deref(), &config)?;
    let answer = process.delete(&format!("{PATH}?{}", pairs.join("&")), act::WAIT, act::ANSWER_BYTES_MAX);
    let released = act::answered::<api::Released>(&process, PATH, answer)?.released;
    let (what, became) = if released { ("is released", "done") } else { ("is to be released", act::UNJUDGED) };
    output::line(&message(what, became))
}

fn whom(args: &WhomArgs) -> Whom {
    let WhomArgs { session, agent, tree, swarm, tenant, all } = args;
    let names = [(Kind::Session, session), (Kind::Agent, agent), (Kind::Tree, tree), (Kind::Swarm, swarm)];
    let narrow = names.into_iter().find_map(|(kind, name)| Some((kind, name.as_deref()?)));
    let wide = if *all { Kind::All } else { Kind::Tenant };
    let (kind, name) = narrow.unwrap_or((wide, ""));
    Whom::new(tenant.as_deref().unwrap_or_default(), kind, name)
}

/// Whom, for people. What a user wrote does nothing to a terminal.
fn named(whom: &Whom) -> String {
    let tenant = plain(&whom.tenant);
    let of = if tenant.is_empty() { String::new() } else { format!(" of tenant {tenant}") };
    match whom.kind {
        Kind::All => "everybody".to_owned(),
        Kind::Tenant => format!("tenant {tenant}"),
        kind => format!("{} {}{of}", kind.as_str(), plain(&whom.name)),
    }
}

/// How many agents a running process knows that would be stopped.
fn count(whom: &Whom, place: &WhereArgs, config: &Config) -> Result<String, Failure> {
    let api::WouldStop { agents, more } = post::<api::DryRun>(whom, place, config, json!({ "dry_run": true }))?.would_stop;
    let more = if more { " or more" } else { "" };
    let noun = if agents == 1 { "agent" } else { "agents" };
    Ok(format!("{}{more} {noun} that this process knows", grouped(agents)))
}

/// Asks the process about them, with what `more` says.
fn post<T: DeserializeOwned>(whom: &Whom, place: &WhereArgs, config: &Config, mut more: Value) -> Result<T, Failure> {
    if let (Some(body), Value::Object(names)) = (more.as_object_mut(), json!(shown::stop_name(whom))) {
        body.extend(names);
    }
    let process = RunningProcess::of(place.address.as_deref(), config)?;
    let answer = process.post(PATH, &more.to_string(), act::WAIT, act::ANSWER_BYTES_MAX);
    act::answered(&process, PATH, answer)
}

fn act(whom: &Whom, does: Does, reason: Option<&str>, at: EventTime) -> Act {
    let (id, labels, reason) = (act::id("act", at), act::labels(act::actor()), reason.map(str::to_owned));
    Act { id, at, reason, labels, whom: whom.clone(), agent_id: None, does }
}
