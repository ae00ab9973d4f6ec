//! `stop` and `release`: acts of an operator, sent to wherever events go.

use loopwarden_core::event::EventTime;
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_lab::report::{grouped, plain};
use loopwarden_log::clock;
use loopwarden_settings::Config;
use serde_json::{Map, Value};

use crate::acts::{self, Act, span_ms};
use crate::cli::args::{LogArgs, ReleaseArgs, StopArgs, WhereArgs, WhomArgs};
use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::cli::shared::{act, ask, setup};
use crate::failure::{Failure, Outcome};
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
    let message = |became: &str| format!("{} is stopped until {}: {became}", named(&whom), until.to_rfc3339());
    let event = |act: &Act<'_>| acts::stop(&whom, &Act { reason: Some(reason), ..*act }, until, args.fail_closed);
    if let Some(became) = send(&config, &args.place, &whom, event)? {
        return output::line(&message(&became));
    }
    let mut body = request(&whom);
    body.insert("reason".to_owned(), reason.into());
    body.insert("until".to_owned(), until.to_rfc3339().into());
    body.insert("fail".to_owned(), if args.fail_closed { "closed" } else { "open" }.into());
    let answer = post(&args.place, &config, body)?;
    let is_known = answer.get("in_force") == Some(&Value::Bool(true));
    output::line(&message(if is_known { "in force" } else { "taken, and in force once it is judged" }))
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
    let message = |became: &str| format!("{} is released: {became}", named(&whom));
    if let Some(became) = send(&config, &args.place, &whom, |act| acts::release(&whom, &Act { reason, ..*act }))? {
        return output::line(&message(&became));
    }
    let asked = request(&whom);
    let fields = asked.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    let pairs: Vec<String> = fields
        .chain(reason.map(|reason| ("reason", reason)))
        .map(|(name, value)| format!("{name}={}", ask::path_part(value)))
        .collect();
    let process = RunningProcess::of(args.place.address.as_deref(), &config)?;
    let answer = process.delete(&format!("{PATH}?{}", pairs.join("&")), act::WAIT, act::ANSWER_BYTES_MAX);
    let answer = taken(&process, answer)?;
    output::line(&message(if answer.get("released") == Some(&Value::Bool(true)) {
        "done"
    } else {
        "taken, and done once it is judged"
    }))
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

/// A request of the process, as far as it names whom.
fn request(whom: &Whom) -> Map<String, Value> {
    let named = whom.kind.field().map(|field| (field, &*whom.name));
    let tenant = Some(("tenant", &*whom.tenant)).filter(|(_, tenant)| !tenant.is_empty());
    let fields = [("scope", whom.kind.as_str())].into_iter().chain(tenant).chain(named);
    fields.map(|(field, value)| (field.to_owned(), value.into())).collect()
}

/// How many agents a running process knows that would be stopped.
fn count(whom: &Whom, place: &WhereArgs, config: &Config) -> Result<String, Failure> {
    let mut body = request(whom);
    body.insert("dry_run".to_owned(), true.into());
    let answer = post(place, config, body)?;
    let agents = answer.pointer("/would_stop/agents").and_then(Value::as_u64).unwrap_or_default();
    let more = if answer.pointer("/would_stop/more") == Some(&Value::Bool(true)) { " or more" } else { "" };
    let noun = if agents == 1 { "agent" } else { "agents" };
    Ok(format!("{}{more} {noun} that this process knows", grouped(agents)))
}

fn post(place: &WhereArgs, config: &Config, body: Map<String, Value>) -> Result<Value, Failure> {
    let process = RunningProcess::of(place.address.as_deref(), config)?;
    let answer = process.post(PATH, &Value::Object(body).to_string(), act::WAIT, act::ANSWER_BYTES_MAX);
    taken(&process, answer)
}

fn taken(process: &RunningProcess, answer: std::io::Result<Answer>) -> Result<Value, Failure> {
    let answer = answer.map_err(|error| act::refused(process, PATH, &process.nobody(&error)))?;
    let body = act::taken(process, PATH, &["200", "202"], answer)?;
    serde_json::from_str(&body).map_err(|error| act::refused(process, PATH, &format!("no answer to a stop: {error}")))
}

/// Writes the event to the topic of events: what became of it; none where there is no Kafka.
fn send(config: &Config, place: &WhereArgs, whom: &Whom, event: impl Fn(&Act<'_>) -> Value) -> Result<Option<String>, Failure> {
    if config.kafka.is_none() {
        return Ok(None);
    }
    let (now, actor) = (EventTime(clock::now_ms()), act::actor());
    let id = format!("act-{}-{}", now.0, std::process::id());
    let event = event(&Act { id: &id, at: now, actor: actor.as_deref(), reason: None }).to_string();
    act::expect_sound(&event, "act", config)?;
    act::to_topic(config, place.address.as_deref(), whom.record_key(), &event)
}
