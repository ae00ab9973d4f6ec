//! What settings demand of one another, and what a single one cannot know by itself.

use std::{collections::BTreeSet, path::Path, path::PathBuf};

use loopwarden_core::setting::{self, Check, SharedSettings};

use crate::layers::tree::{self, Node, Table, Value};
use crate::messages::diagnostic::{BAD, Diagnostic, Origin};
use crate::process::config::{Config, InputForm, OtlpSignal, SaslMechanism};
use crate::process::{rules::is_safe, webhook::WebhookFormat};

/// Merged layers being read, and what is wrong with them.
pub(crate) struct Reader<'a> {
    pub(crate) tree: &'a Table,
    /// Problems that were found so far.
    pub(crate) problems: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    /// The settings, each by itself; none where one of them is bad.
    pub(crate) fn config(&mut self) -> Option<Config> {
        let (mut check, values, shared) = (Check::default(), tree::to_core(self.tree), SharedSettings::default());
        let config = Config::read(&mut setting::Table::new(&mut check, &values, &shared));
        match check.finish() {
            Ok(()) => Some(config),
            Err(problems) => {
                for problem in problems {
                    self.bad(&problem.path, problem.message);
                }
                None
            }
        }
    }

    /// Notes what is wrong with the value at a path, in words that begin with that path.
    fn bad(&mut self, path: &str, message: String) {
        self.problems.push(tree::diagnostic(self.tree, BAD, path, message, path));
    }
}

/// Directories that other programs clean up.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run/user"];

/// Directories that paths are judged by.
pub(crate) struct BasePaths<'a> {
    /// Directory of temporary files, as the environment names it.
    pub(crate) temporary: Option<&'a str>,
    /// Where the configuration file lies.
    pub(crate) file: Option<&'a Path>,
}

/// Checks commits; before their bounds, so that the reader of both messages sees the relation first.
pub(crate) fn commit(reader: &mut Reader<'_>) {
    let integer = |key: &str| match tree::at(reader.tree, &["commit", key]).map(|node| &node.value) {
        Some(Value::Integer(integer)) => *integer,
        _ => 0,
    };
    let (pause, wait) = (integer("commit_ms_min"), integer("commit_ms_max"));
    if pause > wait {
        let key = "commit.commit_ms_min";
        reader.bad(key, format!("{key} is {pause}, but must not be above commit_ms_max ({wait})"));
    }
}

/// State must outlive a reboot: a temporary directory is no place for it. Who works in a scratch directory, or keeps the configuration file in
/// one, may have it below that. Places are compared, however they are written.
pub(crate) fn data_dir(reader: &mut Reader<'_>, base: &BasePaths<'_>) {
    let Some(Value::Text(written)) = reader.tree.get("data_dir").map(|node| &node.value) else { return };
    let state = place(Path::new(written));
    let is_below = |directory: &Path| state.starts_with(place(directory));
    let is_temporary = TEMPORARY.iter().copied().chain(base.temporary).any(|directory| is_below(Path::new(directory)));
    if is_temporary && ![base.file, Some(Path::new("."))].into_iter().flatten().any(is_below) {
        let message = format!("data_dir is {written:?}, but must not be a temporary directory: cleaners delete state there");
        reader.bad("data_dir", message);
    }
}

/// Where a path leads to, without links, as far as there is anything.
fn place(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = path.ancestors().find_map(|there| Some(there.canonicalize().ok()?.join(path.strip_prefix(there).ok()?)));
    real.unwrap_or(path)
}

/// Checks the settings of Kafka.
pub(crate) fn kafka(reader: &mut Reader<'_>) {
    let Some(Node { value: Value::Table(kafka), .. }) = reader.tree.get("kafka") else { return };
    if !kafka.contains_key("bootstrap_servers") {
        // A forgotten key must not start a second, empty log in embedded mode.
        if let Some(key) = written_key(kafka, "kafka") {
            reader.bad(&key, format!("kafka.bootstrap_servers is not set, but {key} is"));
        }
        return;
    }
    let topics = ["input", "commands", "state", "dlq"].map(|name| (name, kafka.get(name).map(|node| &node.value)));
    for (index, (name, topic)) in topics.iter().enumerate() {
        if let Some((other, _)) = topics.iter().take(index).find(|(_, other)| other == topic)
            && let Some(Value::Text(topic)) = topic
        {
            let key = format!("kafka.{name}");
            reader.bad(&key, format!("{key} is {topic:?}, but must not be the topic of kafka.{other}"));
        }
    }
    security(reader, kafka);
}

/// Notes where there are too many tables of a list.
fn few(reader: &mut Reader<'_>, list: &str, count: usize, most: usize) {
    if count > most {
        reader.bad(list, format!("there are {count} tables [[{list}]], but must not be more than {most}"));
    }
}

/// Notes tables of a list with the key of one before them.
fn distinct<'a>(reader: &mut Reader<'_>, list: &str, key: &str, values: impl Iterator<Item = &'a String>) {
    let mut before = BTreeSet::new();
    for (index, value) in values.enumerate() {
        if !before.insert(value) {
            let path = format!("{list}[{index}]");
            reader.bad(&path, format!("{path}.{key} is {value:?}, which another table [[{list}]] has"));
        }
    }
}

/// Most topics beside that of events: each is a thread, a member of a group and a transaction of its own.
const INPUTS_MAX: usize = 32;

/// Checks the topics beside that of events.
pub(crate) fn inputs(reader: &mut Reader<'_>, config: Option<&Config>) {
    let Some(Config { input: inputs, kafka, .. }) = config else { return };
    few(reader, "input", inputs.len(), INPUTS_MAX);
    let Some(kafka) = kafka else {
        if !inputs.is_empty() {
            reader.bad("input", "there are tables [[input]], but kafka.bootstrap_servers is not set".to_owned());
        }
        return;
    };
    distinct(reader, "input", "topic", inputs.iter().map(|input| &input.topic));
    let own = [("input", &kafka.input), ("commands", &kafka.commands), ("state", &kafka.state), ("dlq", &kafka.dlq)];
    for (index, input) in inputs.iter().enumerate() {
        let path = format!("input[{index}]");
        let topic = &input.topic;
        if let Some((name, _)) = own.iter().find(|(_, other)| *other == topic) {
            reader.bad(&path, format!("{path}.topic is {topic:?}, but must not be the topic of kafka.{name}"));
        }
        let (form, has_mapping) = (input.form, input.mapping.is_some());
        if form == InputForm::Json && !has_mapping {
            reader.bad(&path, format!("{path}.form is \"json\", but {path}.mapping is not set; begin with: loopwarden map"));
        }
        if has_mapping && !matches!(form, InputForm::Json | InputForm::CloudEvents) {
            reader.bad(&path, format!("{path}.mapping is set, but is for json and cloudevents, not for {}", form.as_str()));
        }
        if input.signal != OtlpSignal::Traces && !matches!(form, InputForm::OtlpProto | InputForm::OtlpJson) {
            reader.bad(&path, format!("{path}.signal is set, but is for otlp_proto and otlp_json, not for {}", form.as_str()));
        }
    }
}

/// Most webhooks: each is a thread, and a member of a group.
const WEBHOOKS_MAX: usize = 16;

/// Checks where commands are posted.
pub(crate) fn webhooks(reader: &mut Reader<'_>, config: Option<&Config>) {
    let Some(Config { webhook: webhooks, .. }) = config else { return };
    few(reader, "webhook", webhooks.len(), WEBHOOKS_MAX);
    distinct(reader, "webhook", "name", webhooks.iter().map(|webhook| &webhook.name));
    for (index, webhook) in webhooks.iter().enumerate() {
        let path = format!("webhook[{index}]");
        match (&webhook.url, &webhook.url_file) {
            (Some(_), Some(_)) => reader.bad(&path, format!("{path}.url is set, but {path}.url_file is, too: use one")),
            (None, None) => reader.bad(&path, format!("{path}.url is not set, and {path}.url_file is not either")),
            _ => {}
        }
        let is_unsafe = webhook.url.as_deref().is_some_and(|url| !is_safe(url));
        if webhook.token_file.is_some() && is_unsafe {
            reader.bad(&path, format!("{path}.token_file is set, but {path}.url has http and another host: use https"));
        }
        if webhook.token_header.is_some() && webhook.token_file.is_none() {
            reader.bad(&path, format!("{path}.token_header is set, but {path}.token_file is not"));
        }
        let is_paged = webhook.format == WebhookFormat::PagerDuty;
        if is_paged && (webhook.token_file.is_none() || webhook.token_header.is_some()) {
            let what = "must name the file with the routing key, and token_header must not be set";
            reader.bad(&path, format!("{path}.format is pagerduty: {path}.token_file {what}"));
        }
        if webhook.connect_ms_max > webhook.request_ms_max {
            let (connect, request) = (webhook.connect_ms_max, webhook.request_ms_max);
            reader.bad(&path, format!("{path}.connect_ms_max is {connect}, but must not be above request_ms_max ({request})"));
        }
    }
}

/// Most tokens of the listener: each request is held against all of them.
const TOKENS_MAX: usize = 64;

/// Checks who may reach the listener.
pub(crate) fn listener(reader: &mut Reader<'_>, config: Option<&Config>) {
    let Some(Config { token: tokens, http, .. }) = config else { return };
    let links = [("public_url", http.public_url.is_some()), ("link_secret_file", http.link_secret_file.is_some())];
    if let [(set, true), (missing, false)] | [(missing, false), (set, true)] = links {
        reader.bad(&format!("http.{set}"), format!("http.{set} is set, but http.{missing} is not"));
    }
    few(reader, "token", tokens.len(), TOKENS_MAX);
    distinct(reader, "token", "name", tokens.iter().map(|token| &token.name));
}

/// Settings that need another, and names by which librdkafka itself may have been given that one.
const NEEDS: [(&str, &str, &[&str]); 4] = [
    ("cert_file", "key_file", &["ssl.key.location"]),
    ("key_file", "cert_file", &["ssl.certificate.location"]),
    ("username", "sasl_mechanism", &["sasl.mechanism", "sasl.mechanisms"]),
    ("password_file", "sasl_mechanism", &["sasl.mechanism", "sasl.mechanisms"]),
];

/// What mechanisms with a password need besides.
const PASSWORD: [(&str, &str, &[&str]); 2] =
    [("sasl_mechanism", "username", &["sasl.username"]), ("sasl_mechanism", "password_file", &["sasl.password"])];

fn security(reader: &mut Reader<'_>, kafka: &Table) {
    let has_native = |name: &&str| match kafka.get("librdkafka").map(|node| &node.value) {
        Some(Value::Table(table)) => table.contains_key(*name),
        _ => false,
    };
    let mechanism = kafka.get("sasl_mechanism").map(|node| &node.value);
    let is_token = |word: &str| [SaslMechanism::OauthBearer, SaslMechanism::AwsMskIam].iter().any(|token| token.as_str() == word);
    let has_password = !matches!(mechanism, Some(Value::Text(word)) if is_token(word));
    for (key, needed, native) in NEEDS.into_iter().chain(PASSWORD.into_iter().filter(|_| has_password)) {
        if kafka.contains_key(key) && !kafka.contains_key(needed) && !native.iter().any(has_native) {
            reader.bad(&format!("kafka.{key}"), format!("kafka.{key} is set, but kafka.{needed} is not"));
        }
    }
}

/// Checks where tokens come from: one source, and all that it needs.
pub(crate) fn tokens(reader: &mut Reader<'_>, config: Option<&Config>) {
    let Some(Config { kafka: Some(kafka), .. }) = config else { return };
    let oauth = &kafka.oauth;
    let of_issuer = [
        ("token_url", oauth.token_url.is_some()),
        ("client_id", oauth.client_id.is_some()),
        ("client_secret_file", oauth.client_secret_file.is_some()),
    ];
    let with_issuer = [("scope", oauth.scope.is_some()), ("ca_file", oauth.ca_file.is_some())];
    let first_set = of_issuer.iter().chain(&with_issuer).find(|(_, is_set)| *is_set).map(|(key, _)| *key);
    let missing = of_issuer.iter().find(|(_, is_set)| !is_set).map(|(key, _)| *key);
    let is_oauth = kafka.sasl_mechanism == Some(SaslMechanism::OauthBearer);
    match (first_set, &oauth.token_file) {
        (Some(key), Some(_)) => {
            reader.bad(
                "kafka.oauth.token_file",
                format!("kafka.oauth.token_file is set, but kafka.oauth.{key} is, too: use one source"),
            );
        }
        (Some(key), None) => {
            if let Some(missing) = missing {
                reader.bad(&format!("kafka.oauth.{key}"), format!("kafka.oauth.{key} is set, but kafka.oauth.{missing} is not"));
            }
        }
        (None, None) if is_oauth => reader.bad(
            "kafka.sasl_mechanism",
            "kafka.sasl_mechanism is OAUTHBEARER, but neither kafka.oauth.token_url nor kafka.oauth.token_file is set".to_owned(),
        ),
        (None, _) => {}
    }
    let set = first_set.or(oauth.token_file.is_some().then_some("token_file"));
    if let Some(key) = set.filter(|_| !is_oauth) {
        reader
            .bad(&format!("kafka.oauth.{key}"), format!("kafka.oauth.{key} is set, but kafka.sasl_mechanism is not OAUTHBEARER"));
    }
    let is_aws = kafka.sasl_mechanism == Some(SaslMechanism::AwsMskIam);
    if kafka.aws_region.is_some() && !is_aws {
        reader.bad("kafka.aws_region", "kafka.aws_region is set, but kafka.sasl_mechanism is not AWS_MSK_IAM".to_owned());
    }
    if (is_oauth || is_aws)
        && let Some(key) = kafka.username.as_ref().map(|_| "username").or(kafka.password_file.as_ref().map(|_| "password_file"))
    {
        let mechanism = if is_oauth { SaslMechanism::OauthBearer } else { SaslMechanism::AwsMskIam }.as_str();
        reader
            .bad(&format!("kafka.{key}"), format!("kafka.{key} is set, but kafka.sasl_mechanism is {mechanism}, which has none"));
    }
}

/// A key of a table that a layer above the defaults wrote.
fn written_key(table: &Table, path: &str) -> Option<String> {
    table.iter().find_map(|(key, node)| {
        let path = tree::join(path, key);
        match &node.value {
            Value::Table(inner) => written_key(inner, &path),
            _ => (node.origin != Origin::Default).then_some(path),
        }
    })
}
