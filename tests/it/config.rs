//! Configuration: layers, places of problems, defaults, and the pages of error codes.

use std::{collections::BTreeSet, fs, path::PathBuf};

use loopwarden::config::{
    Config, DeadLetterContent, Diagnostic, ExpiredCommand, Flag, InputForm, Layers, Loaded, LogFormat, OnTrouble, OtlpSignal,
    PAGES, ProcessMode, Start, WebhookFormat, WebhookStart, default_file, explain, load, read_secret,
};
use loopwarden::task::{CommitTrigger, LaneSettings};

use crate::config::refused::{BOUNDS, REFUSED};

mod refused;

/// A file that is gone with the test. Cargo's own temporary directory, since a data directory must not lie below `/tmp`.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("config-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("loopwarden.toml"), text).unwrap();
        Self(directory)
    }

    fn file(&self) -> PathBuf {
        self.0.join("loopwarden.toml")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn layers(file: Option<PathBuf>, environment: &[(&str, &str)], sets: &[&str]) -> Layers {
    let mut environment: Vec<_> = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    environment.push(("HOSTNAME".to_owned(), "host-7".to_owned()));
    Layers { file, environment, flags: sets.iter().map(|set| Flag::set(set).unwrap()).collect() }
}

fn loaded(name: &str, text: &str, environment: &[(&str, &str)], sets: &[&str]) -> Loaded {
    let scratch = Scratch::new(name, text);
    load(&layers(Some(scratch.file()), environment, sets)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn with_sets(sets: &[&str]) -> Config {
    load(&layers(None, &[], sets)).unwrap_or_else(|problems| panic!("{problems}")).config
}

/// What is told, with the file's name cut to `loopwarden.toml`.
fn refused(name: &str, text: &str, environment: &[(&str, &str)], sets: &[&str]) -> Vec<String> {
    let scratch = Scratch::new(name, text);
    let problems = load(&layers(Some(scratch.file()), environment, sets)).unwrap_err();
    let directory = format!("{}/", scratch.0.display());
    problems.0.iter().map(|problem| problem.to_string().replace(&directory, "")).collect()
}

fn origin(loaded: &Loaded, key: &str) -> (String, String) {
    let found = loaded.effective().into_iter().find(|value| value.key == key).unwrap();
    (found.value, found.origin.to_string())
}

#[test]
fn the_defaults_alone_are_a_shadow_without_kafka() {
    let config = with_sets(&[]);
    assert_eq!((config.mode, config.policy.as_str(), config.instance.as_str()), (ProcessMode::Shadow, "default", "host-7"));
    assert!(config.lanes >= 1 && config.data_dir.is_none() && config.kafka.is_none());
    assert_eq!((config.http.listen.to_string().as_str(), &config.http.token_file), ("127.0.0.1:9464", &None));
    assert_eq!((config.log.level.as_str(), config.log.format), ("info", LogFormat::Auto));
    assert_eq!((config.limits.record_bytes_max, config.limits.session_cache_bytes), (256 * 1024, 256 * 1024 * 1024));
    assert_eq!((config.commit.commit_ms_min, config.commit.commit_ms_max), (2, 100));
    assert_eq!((config.commit.overlay_bytes_max, config.commit.overlay_records_max), (32 * 1024 * 1024, 50_000));
    assert_eq!((config.time.lateness_ms, config.app()), (60_000, "loopwarden"));
    assert_eq!((config.embedded.partitions, config.embedded.retention_ms), (4, 604_800_000));
    assert_eq!(
        config.data_dir().unwrap_err().to_string(),
        "error[E0202]: data_dir is not set, but state needs a place on local disk\n  \
         give --data-dir DIR, as in: --data-dir ./lw, or set LOOPWARDEN_DATA_DIR or `data_dir` in the configuration"
    );
}

#[test]
fn the_default_record_bound_is_the_one_in_limits() {
    assert_eq!(with_sets(&[]).limits.record_bytes_max, loopwarden::limits::RECORD_BYTES_MAX_DEFAULT);
}

#[test]
fn a_lane_without_a_configuration_has_its_defaults() {
    let (config, lane) = (with_sets(&[]), LaneSettings::default());
    assert_eq!((lane.mode, lane.lateness_ms), (config.mode, config.time.lateness_ms));
    let trigger = CommitTrigger::Timed { max_ms: config.commit.commit_ms_max, min_ms: config.commit.commit_ms_min };
    assert_eq!(lane.trigger, trigger);
    assert_eq!(lane.cache_bytes_max, config.limits.session_cache_bytes);
    assert_eq!(lane.overlay_bytes_max, config.commit.overlay_bytes_max);
    assert_eq!(lane.overlay_records_max, config.commit.overlay_records_max);
}

#[test]
fn kafka_begins_with_its_servers_and_has_the_documented_names() {
    let kafka = with_sets(&["kafka.bootstrap_servers=a:9092, b:9093"]).kafka.unwrap();
    assert_eq!(
        (kafka.bootstrap_servers.as_str(), kafka.group.as_str(), kafka.start),
        ("a:9092,b:9093", "loopwarden", Start::Earliest)
    );
    assert_eq!((kafka.input.as_str(), kafka.commands.as_str()), ("agents.tool-events.v1", "agents.loop-commands.v1"));
    assert_eq!((kafka.state.as_str(), kafka.dlq.as_str()), ("agents.loop-state.v1", "agents.loop-dlq.v1"));
    assert_eq!((kafka.on_input_loss, kafka.on_bad_records), (OnTrouble::Continue, OnTrouble::Continue));
    assert_eq!(kafka.dlq_content, DeadLetterContent::Full);
    let of = |start: &str| with_sets(&["kafka.bootstrap_servers=a:1", &format!("kafka.start={start}")]).kafka.unwrap().start;
    assert_eq!(of("latest"), Start::Latest);
    assert_eq!(of("2026-01-01T00:00:00Z"), Start::Time(1_767_225_600_000));
    let text = "[kafka]\nbootstrap_servers = \"a:1\"\nstart = 2026-01-01T00:00:00Z\n";
    assert_eq!(
        loaded("date", text, &[], &[]).config.kafka.unwrap().start,
        Start::Time(1_767_225_600_000),
        "a date without quotes"
    );
}

#[test]
fn later_layers_win_and_every_value_knows_its_origin() {
    let text = "mode = \"live\"\nlanes = 2\n[kafka]\nbootstrap_servers = \"file:9092\"\ngroup = \"file\"\ninput = \"file\"\n";
    let environment = [
        ("LOOPWARDEN_KAFKA__GROUP", "env"),
        ("LOOPWARDEN_KAFKA__INPUT", "env"),
        ("LOOPWARDEN_LANES", "1_6"),
        ("LOOPWARDEN_KAFKA__LIBRDKAFKA__SASL_PASSWORD", "hidden"),
        ("LOOPWARDEN_KAFKA__LIBRDKAFKA__LOG_LEVEL", "7"),
        ("LOOPWARDEN_LOG", "debug"),
        ("LOOPWARDEN_MODE", ""),
    ];
    let loaded =
        loaded("layers", text, &environment, &["kafka.input=flag", "kafka.input=later", "kafka.librdkafka.sasl.username=me"]);
    let kafka = loaded.config.kafka.clone().unwrap();
    assert_eq!((kafka.bootstrap_servers.as_str(), kafka.group.as_str(), kafka.input.as_str()), ("file:9092", "env", "later"));
    assert_eq!((loaded.config.mode, loaded.config.lanes, loaded.config.log.level.as_str()), (ProcessMode::Live, 16, "debug"));
    assert_eq!(
        kafka.librdkafka.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
        ["log_level=7", "sasl.password=hidden", "sasl.username=me"]
    );
    let place = origin(&loaded, "mode").1;
    assert!(place.ends_with("loopwarden.toml:1:8"), "{place}");
    assert_eq!(origin(&loaded, "kafka.group"), ("\"env\"".to_owned(), "environment variable LOOPWARDEN_KAFKA__GROUP".to_owned()));
    assert_eq!(origin(&loaded, "kafka.input"), ("\"later\"".to_owned(), "--set".to_owned()));
    assert_eq!(origin(&loaded, "kafka.start"), ("\"earliest\"".to_owned(), "default".to_owned()));
    assert_eq!(origin(&loaded, "instance"), ("\"host-7\"".to_owned(), "host name".to_owned()));
    assert_eq!(origin(&loaded, "kafka.librdkafka.sasl.password").0, "\"***\"", "redacted");
    assert!(!format!("{:?}", loaded.config).contains("hidden"));
}

#[test]
fn the_environment_may_name_the_file_and_hold_what_kubernetes_puts_there() {
    let scratch = Scratch::new("named", "lanes = 3\n");
    let file = scratch.file().display().to_string();
    let environment = [
        ("LOOPWARDEN_CONFIG", file.as_str()),
        ("LOOPWARDEN_URL", "http://127.0.0.1:9464"),
        ("LOOPWARDEN_PORT", "tcp://10.0.0.1:9464"),
        ("LOOPWARDEN_SERVICE_HOST", "10.0.0.1"),
        ("LOOPWARDEN_SERVICE_PORT_HTTP", "9464"),
        ("LOOPWARDEN_PORT_9464_TCP_ADDR", "10.0.0.1"),
        ("LOOPWARDEN_METRICS_SERVICE_HOST", "10.0.0.1"),
        ("OTHER", "x"),
    ];
    assert_eq!(load(&layers(None, &environment, &[])).unwrap().config.lanes, 3);
    let told = load(&layers(None, &[("LOOPWARDEN_HTTP__PORT", "1")], &[])).unwrap_err().to_string();
    assert_eq!(told, "error[E0201]: unknown key \"http.port\"\n  set by environment variable LOOPWARDEN_HTTP__PORT (http)");
}

#[test]
fn all_problems_of_all_layers_are_told_at_once() {
    for (number, (text, environment, sets, told)) in REFUSED.iter().enumerate() {
        assert_eq!(refused(&format!("refused-{number}"), text, environment, sets), *told, "{text}");
    }
}

#[test]
fn every_bound_accepts_its_last_value_and_refuses_the_next_by_name() {
    let base = ["kafka.bootstrap_servers=a:1", "kafka.username=me", "kafka.password_file=secret", "kafka.sasl_mechanism=PLAIN"];
    let try_with = |key: &str, value: &str| {
        let set = format!("{key}={value}");
        load(&layers(None, &[], &[&base[..], &[set.as_str()]].concat()))
    };
    for (key, accepted, refused_value, message) in BOUNDS {
        if let Err(problems) = try_with(key, accepted) {
            panic!("{key} = {accepted}: {problems}");
        }
        let problems = try_with(key, refused_value).expect_err(key);
        assert_eq!(problems.0.len(), 1, "{problems}");
        assert_eq!(problems.0[0].message, *message);
        assert_eq!(problems.0[0].code, "E0202");
    }
}

#[test]
fn every_owned_librdkafka_setting_is_refused_and_every_known_one_taken() {
    for key in [
        "enable.auto.commit",
        "enable.auto.offset.store",
        "group.id",
        "client.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "transactional.id",
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "partitioner",
        "partition.assignment.strategy",
        "enable.partition.eof",
        "auto.offset.reset",
        "bootstrap.servers",
        "metadata.broker.list",
    ] {
        for table in ["kafka.librdkafka", "kafka.consumer.librdkafka", "kafka.producer.librdkafka"] {
            let problems =
                load(&layers(None, &[], &["kafka.bootstrap_servers=a:1", &format!("{table}.{key}=1")])).expect_err(key);
            assert_eq!(problems.0.iter().map(|problem| problem.code).collect::<Vec<_>>(), ["E0208"], "{key}");
        }
    }
    let known = with_sets(&[
        "kafka.bootstrap_servers=a:1",
        "kafka.librdkafka.security.protocol=ssl",
        "kafka.consumer.librdkafka.fetch.max.bytes=1",
        "kafka.producer.librdkafka.compression.type=zstd",
    ]);
    let kafka = known.kafka.unwrap();
    assert_eq!(kafka.librdkafka["security.protocol"], "ssl");
    assert_eq!(kafka.consumer.librdkafka["fetch.max.bytes"], "1");
    assert_eq!(kafka.producer.librdkafka["compression.type"], "zstd");
}

#[test]
fn paths_in_a_file_are_relative_to_the_file_and_others_are_not() {
    let text = "policy = \"mine.toml\"\ndata_dir = \"state\"\n[http]\ntoken_file = \"/run/token\"\n";
    let scratch = Scratch::new("paths", text);
    let config = load(&layers(Some(scratch.file()), &[], &[])).unwrap().config;
    assert_eq!(config.data_dir().unwrap(), scratch.0.join("state"));
    assert_eq!(config.policy, scratch.0.join("mine.toml").display().to_string());
    assert_eq!(config.http.token_file.unwrap(), PathBuf::from("/run/token"));
    let flags = load(&layers(Some(scratch.file()), &[], &["data_dir=here", "policy=attocode"])).unwrap().config;
    assert_eq!((flags.data_dir.unwrap(), flags.policy.as_str()), (PathBuf::from("here"), "attocode"));
    let named = loaded("name", "policy = \"cortex\"\n", &[], &[]).config;
    assert_eq!(named.policy, "cortex", "a profile is no path");
}

#[test]
fn each_table_of_an_input_has_its_own_defaults_and_a_mapping_beside_the_file() {
    let text = "[kafka]\nbootstrap_servers = \"h:1\"\n[[input]]\ntopic = \"spans\"\nform = \"otlp_proto\"\nsignal = \"logs\"\n\
                [[input]]\ntopic = \"jobs\"\nform = \"json\"\nmapping = \"map.toml\"\n[[input]]\ntopic = \"plain\"\n";
    let scratch = Scratch::new("inputs", text);
    let loaded = load(&layers(Some(scratch.file()), &[], &[])).unwrap_or_else(|problems| panic!("{problems}"));
    let inputs: Vec<_> = loaded.config.input.iter().map(|input| (input.topic.as_str(), input.form, input.signal)).collect();
    assert_eq!(
        inputs,
        [
            ("spans", InputForm::OtlpProto, OtlpSignal::Logs),
            ("jobs", InputForm::Json, OtlpSignal::Traces),
            ("plain", InputForm::Native, OtlpSignal::Traces),
        ]
    );
    let mappings: Vec<_> = loaded.config.input.iter().map(|input| input.mapping.clone()).collect();
    assert_eq!(mappings, [None, Some(scratch.0.join("map.toml")), None]);
    let shown = loaded.effective().into_iter().find(|value| value.key == "input").expect("they are shown");
    assert!(shown.value.contains("otlp_proto"), "{}", shown.value);
}

#[test]
fn each_table_of_a_webhook_has_its_own_defaults_and_files_beside_the_file() {
    let text = "[[webhook]]\nname = \"a\"\nurl = \"https://h.example/x\"\ntoken_file = \"t\"\n\
                [[webhook]]\nname = \"b\"\nurl_file = \"u\"\nactions = \"block, unblock\"\ntoken_file = \"t\"\ntoken_header = \"X-Key\"\n";
    let scratch = Scratch::new("webhooks", text);
    let loaded = load(&layers(Some(scratch.file()), &[], &[])).unwrap_or_else(|problems| panic!("{problems}"));
    let [first, second] = &loaded.config.webhook[..] else { panic!("two tables") };
    assert_eq!((first.format, first.start, first.expired), (WebhookFormat::Binary, WebhookStart::Latest, ExpiredCommand::Send));
    assert_eq!(first.actions(), ["nudge", "block", "unblock"]);
    assert_eq!((first.connect_ms_max, first.request_ms_max), (5_000, 30_000));
    assert_eq!(first.target(0).expect("a URL"), "https://h.example/x");
    assert_eq!(first.token_file, Some(scratch.0.join("t")));
    assert_eq!((second.actions(), second.token_header.as_deref()), (vec!["block".into(), "unblock".into()], Some("x-key")));
    // Its URL may be a secret: it is not told.
    for (url, says) in
        [("ftp://s3cret/", "holds no URL"), ("http://s3cret/", "has http and another host"), ("", "which is empty")]
    {
        std::fs::write(scratch.0.join("u"), url).expect("written");
        let told = second.target(1).expect_err(url).to_string();
        assert!(
            told.contains("E0202") && told.contains("webhook[1].") && told.contains(says) && !told.contains("s3cret"),
            "{told}"
        );
    }
    for url in ["https://s3cret/x?y=z", "http://localhost:8080/x", "http://127.0.0.1:80"] {
        std::fs::write(scratch.0.join("u"), format!("{url}\n")).expect("written");
        assert_eq!(second.target(1).expect("a URL"), url);
    }
}

#[test]
fn each_token_has_roles_and_tenants_and_a_file_beside_the_file() {
    let text = "[[token]]\nname = \"a\"\nfile = \"t\"\nroles = \"source, reader\"\ntenants = \"acme, globex\"\n\
                [[token]]\nname = \"b\"\nfile = \"t\"\nroles = \"operator\"\n\
                [[token]]\nname = \"c\"\nfile = \"t\"\nroles = \"source\"\ntenants = \"\"\n";
    let scratch = Scratch::new("tokens", text);
    let loaded = load(&layers(Some(scratch.file()), &[], &[])).unwrap_or_else(|problems| panic!("{problems}"));
    let [first, second, third] = &loaded.config.token[..] else { panic!("three tables") };
    assert_eq!((first.roles(), first.tenants()), (vec!["source", "reader"], Some(vec!["acme".into(), "globex".into()])));
    assert_eq!((second.roles(), second.tenants()), (vec!["operator"], None));
    assert_eq!(third.tenants(), Some(vec![String::new()]), "events of no tenant");
    assert_eq!(first.file, scratch.0.join("t"));
    std::fs::write(scratch.0.join("t"), "s3cret\n").expect("written");
    assert_eq!(first.secret(0).expect("a secret"), "s3cret");
    let wrong = "[[token]]\nname = \"a b\"\nfile = \"t\"\nroles = \"owner\"\ntenants = \"a\\u0001\"\n\
                 [[input]]\ntopic = \"x\"\nroles = \"reader\"\n";
    let told = refused("tokens-wrong", wrong, &[], &[]).join("\n");
    for says in
        ["token[0].name is", "must be source, reader, operator", "must be names of tenants", "records of a topic read nothing"]
    {
        assert!(told.contains(says), "{says}: {told}");
    }
}

#[test]
fn a_relative_data_directory_is_where_its_file_is_also_below_a_temporary_directory() {
    let directory = std::env::temp_dir().join(format!("loopwarden-config-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let scratch = Scratch(directory.clone());
    fs::write(scratch.file(), "data_dir = \"state\"\n").unwrap();
    let config = load(&layers(Some(scratch.file()), &[], &[])).unwrap_or_else(|problems| panic!("{problems}")).config;
    assert_eq!(config.data_dir, Some(directory.join("state")));
}

#[test]
fn a_secret_is_its_file_without_the_line_end() {
    let scratch = Scratch::new("secret", "");
    let path = scratch.0.join("password");
    fs::write(&path, " pass word \r\n").unwrap();
    assert_eq!(read_secret(&path, "kafka.password_file").unwrap(), " pass word ");
    fs::write(&path, "\n").unwrap();
    assert!(read_secret(&path, "kafka.password_file").unwrap_err().message.ends_with("which is empty"));
    assert!(
        read_secret(&scratch.0.join("none"), "kafka.password_file")
            .unwrap_err()
            .message
            .starts_with("kafka.password_file: cannot read ")
    );
    fs::write(&path, vec![b'x'; 2 * 1024 * 1024]).unwrap();
    assert!(read_secret(&path, "kafka.password_file").unwrap_err().message.contains("larger than"));
}

#[test]
fn what_a_reload_would_change_is_listed() {
    let (before, after) =
        (loaded("before", "lanes = 2\n", &[], &[]), loaded("after", "lanes = 3\npolicy = \"plain\"\n", &[], &["data_dir=x"]));
    assert_eq!(before.changed_keys(&after), ["data_dir", "lanes", "policy"]);
    assert!(before.changed_keys(&before).is_empty());
}

#[test]
fn the_examples_in_the_page_on_operations_load() {
    let page = include_str!("../../src/docs/operations.md");
    let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for (number, example) in examples.into_iter().enumerate() {
        loaded(&format!("page-{number}"), example, &[], &[]);
    }
}

#[test]
fn a_set_without_a_value_is_told() {
    assert_eq!(Flag::set("kafka.start").unwrap_err().code, "E0202");
}

#[test]
fn the_file_of_defaults_is_what_the_settings_say() {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/config/default.toml"));
    let expected = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("default.toml");
    fs::write(&expected, default_file()).unwrap();
    let is_equal = fs::read_to_string(&file).unwrap() == default_file();
    assert!(is_equal, "config/default.toml is generated: cp {} {}", expected.display(), file.display());
}

#[test]
fn the_file_of_defaults_holds_the_defaults_and_a_text_behind_every_key() {
    let (written, without) = (loaded("defaults", &kafka_begins(&default_file()), &[], &[]), loaded("nothing", "", &[], &[]));
    assert_eq!(written.changed_keys(&without), ["kafka.bootstrap_servers"]);
    let is_key = |line: &&str| line.trim_start_matches('#').starts_with(|letter: char| letter.is_ascii_lowercase());
    let file = default_file();
    let keys: Vec<&str> = file.lines().filter(is_key).collect();
    assert!(keys.len() > 30, "{file}");
    for line in keys {
        let text = line.split_once(" # ").map_or("", |(_, text)| text);
        assert!(text.len() > 10, "unit and reason: {line}");
    }
}

/// The file with its key `bootstrap_servers`: without it no other key of Kafka may be written.
fn kafka_begins(file: &str) -> String {
    file.replace("#bootstrap_servers", "bootstrap_servers")
}

#[test]
fn every_code_in_the_source_has_a_page_and_every_page_a_way_out() {
    let mut codes: Vec<&str> = PAGES.iter().map(|page| page.code).collect();
    assert!(codes.is_sorted(), "by code");
    codes.dedup();
    assert_eq!(codes.len(), PAGES.len());
    for page in PAGES {
        assert!(page.text.starts_with(&format!("# {}: {}\n\n## What happened\n\n", page.code, page.title())), "{}", page.code);
        let (happened, way_out) = page.text.split_once("\n## What to do\n\n").unwrap();
        assert!(happened.len() > 100 && way_out.starts_with("- "), "{}", page.code);
        assert_eq!(explain(page.code), Some(page));
        assert_eq!(explain(&format!("error[{}]", page.code.to_lowercase())), Some(page));
    }
    assert_eq!(explain("E9999"), None);

    let mut missing = BTreeSet::new();
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                missing.extend(codes_in(&fs::read_to_string(&entry).unwrap()).filter(|code| !codes.contains(&code.as_str())));
            }
        }
    }
    assert!(missing.is_empty(), "codes without a page: {missing:?}");
}

/// Words like `E0102`.
fn codes_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| word.len() == 5 && word.starts_with(['E', 'W']) && word.bytes().skip(1).all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
}

#[test]
fn a_warning_and_an_error_look_as_documented() {
    let warning = Diagnostic::new("W0301", "100 % of 4,213 events from agents.tool-events.v1 have no arguments")
        .help("detectors that compare calls cannot work; turn on argument capture in the agent");
    assert_eq!(
        warning.to_string(),
        "warning[W0301]: 100 % of 4,213 events from agents.tool-events.v1 have no arguments\n  \
         detectors that compare calls cannot work; turn on argument capture in the agent"
    );
    assert!(warning.is_warning());
}
