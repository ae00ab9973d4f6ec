//! The listener of the running process, and what to try first.

use std::{collections::BTreeMap, fmt::Write as _, net::SocketAddr, sync::Arc};

use loopwarden_kafka::producers::writer::Writer;
use loopwarden_log::clock;
use loopwarden_settings::{Config, LocalClients, same_token};
use loopwarden_sources::mapping::Mapping;
use loopwarden_webhook::AnswerKind;

use crate::http::{AnswerLinks, Door, LinkRights, Options, Principals, Roles, Server, StartError, Token, TopicWriter};
use crate::{failure::Failure, server::kafka_options::kafka_options, server::state::ServerState, server::webhooks};

/// Who is let in, as the settings have it.
///
/// # Errors
/// A token's file cannot be read, or holds the same token as another one.
pub fn door(config: &Config) -> Result<Door, Failure> {
    let mut principals = Principals::default();
    let mut known: Vec<(Token, String)> = Vec::new();
    let mut add = |secret: String, place: String, index, name: &str, roles, tenants: Option<&[String]>| {
        let token = Token::new(secret);
        if let Some((_, other)) = known.iter().find(|(other, _)| *other == token) {
            return Err(Failure::from(same_token(index, other)));
        }
        known.push((token.clone(), place));
        principals.add(token, name, roles, tenants);
        Ok(())
    };
    if let Some(secret) = config.http.token()? {
        add(secret, "http.token_file".to_owned(), 0, "http.token_file", Roles::ALL, None)?;
    }
    for (index, token) in config.token.iter().enumerate() {
        let (roles, tenants) = (Roles::named(&token.roles()), token.tenants());
        add(token.secret(index)?, format!("token[{index}].file"), index, &token.name, roles, tenants.as_deref())?;
    }
    Ok(Door::new(principals, config.http.local))
}

/// Links by which people answer, where the settings name a secret.
///
/// # Errors
/// E0202: its file cannot be read, or the secret is none.
fn links(config: &Config) -> Result<Option<AnswerLinks>, Failure> {
    let Some(key) = webhooks::link_key(config)? else { return Ok(None) };
    let rights = config.webhook.iter().map(|webhook| {
        let answers = webhook.links().filter_map(AnswerKind::from_name).collect();
        (webhook.name.clone(), LinkRights { answers, tenant: webhook.tenant.clone() })
    });
    Ok(Some(AnswerLinks { key, webhooks: rights.collect::<BTreeMap<_, _>>() }))
}

/// What writes acts of people to the topic of events. They are rare: each has a client of its own, which no failure outlives.
fn topic_writer(config: &Config) -> Result<Option<TopicWriter>, Failure> {
    let Some(kafka) = &config.kafka else { return Ok(None) };
    let options = kafka_options(config, kafka, 0)?;
    let write: TopicWriter = Arc::new(move |key: &str, event: &[u8]| {
        let writer = Writer::new(&options)?;
        writer.write(&options.topics.input, None, key.as_bytes(), Some(event))?;
        writer.flush()?;
        Ok(writer.last_place())
    });
    Ok(Some(write))
}

/// Starts to listen.
///
/// # Errors
/// E0702 where the address cannot be had, else the log's codes.
pub(super) fn start(
    config: &Config,
    (door, mapping): (Door, Option<Mapping>),
    state: &Arc<ServerState>,
) -> Result<Server, Failure> {
    let options = Options {
        listen: config.http.listen,
        door,
        mapping,
        embedded: state.broker.clone(),
        topic_writer: topic_writer(config)?,
        links: links(config)?,
        event_bytes_max: config.limits.record_bytes_max,
        topic: state.facts.topic.clone(),
        quality: Arc::clone(&state.quality),
    };
    let status: Arc<ServerState> = Arc::clone(state);
    Server::of_process(options, status).map_err(|error| failure(error, config.http.listen))
}

fn failure(error: StartError, listen: SocketAddr) -> Failure {
    let error = match error {
        StartError::Log(error) => return error.into(),
        StartError::Listen(error) => error,
    };
    let message =
        format!("cannot listen on {listen}: {error}\n  set `http.listen` to another address, as 127.0.0.1:0 for any free port");
    Failure::listen(&error, message)
}

/// Addresses, and in embedded mode two lines to try: they work as they stand, one after the other.
pub(super) fn first_contact(config: &Config, listen: SocketAddr, is_embedded: bool) -> String {
    let is_loopback = listen.ip().is_loopback() || listen.ip().is_unspecified();
    // An address for every interface is no address to ask.
    let host = if listen.ip().is_unspecified() { "127.0.0.1".to_owned() } else { listen.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let base = format!("http://{host}:{}", listen.port());
    let mut text = format!("  {base}/ shows what goes on; {base}/readyz, {base}/metrics");
    let header = match &config.http.token_file {
        _ if is_loopback && config.http.local != LocalClients::Token => String::new(),
        Some(file) => format!(" -H \"authorization: Bearer $(cat '{}')\"", file.display()),
        None => {
            text.push_str(
                "\n  all but health, metrics and version needs a token, since http.listen is no loopback address or http.local says so",
            );
            return text;
        }
    };
    if is_embedded {
        // A session of its own for each start: a second try is no redelivery of the first.
        let session = format!("try-{}", clock::now_ms() / 1_000);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n  an agent that makes the same failing call four times, and what is said to it:\n    \
             for n in 1 2 3 4; do curl -sS{header} {base}/v1/events -H 'content-type: application/json' -d \
             '{{\"id\":\"{session}-'$n'\",\"kind\":\"tool\",\"session_id\":\"{session}\",\"tool\":\"Bash\",\
             \"args\":{{\"command\":\"make test\"}},\"outcome\":\"error\"}}'; done\n    \
             curl -sS{header} '{base}/v1/commands?session_id={session}&wait=30s'"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use loopwarden_log::LogError;

    use super::*;
    use crate::exit_code;

    #[test]
    fn a_disk_that_fails_while_the_listener_starts_is_no_matter_of_the_address() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 9_464));
        let of_disk = LogError::Fatal { code: "E0406", message: "cannot sync the write-ahead log".to_owned() };
        let of_disk = failure(of_disk.into(), listen);
        assert_eq!(
            (of_disk.exit, of_disk.message.as_deref()),
            (exit_code::STORE, Some("error[E0406]: cannot sync the write-ahead log"))
        );
        let of_address = failure(io::Error::from(io::ErrorKind::AddrInUse).into(), listen);
        assert_eq!(of_address.exit, exit_code::FENCED);
        assert!(of_address.message.is_some_and(|message| message.starts_with("error[E0702]: cannot listen on 127.0.0.1:9464")));
    }
}
