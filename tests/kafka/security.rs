//! The real binary on a broker that asks who it is and allows what `deploy/strimzi/user.yaml` says, and nothing else.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::{fs, path::PathBuf};

use loopwarden::{event::Stage, log::kafka::KafkaOptions, log::kafka::admin::topics as admin, log::kafka::admin::topics::Admin};
use serde_json::Value;

use crate::bounded::{START_WAIT, bounded};
use crate::environment::told_nothing;
use crate::secured::{CERTIFIED_USER, Listener, Operation, Permission, Resource, SCRAM_USER, Secured, password, secured};
use crate::world::{PATIENCE, World};

/// The permissions of the documentation: for a group `loopwarden` and topics with their default names.
pub(crate) fn documented() -> Vec<Permission> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/strimzi/user.yaml")).expect("user.yaml");
    let user: Value = serde_yaml_ng::from_str(&text).expect("YAML");
    permissions(&user["spec"]["authorization"]["acls"])
}

fn permissions(rules: &Value) -> Vec<Permission> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let rules = rules.as_array().expect("a list").iter();
    rules
        .flat_map(|rule| {
            let resource = &rule["resource"];
            rule["operations"].as_array().expect("a list").iter().map(move |operation| Permission {
                user: String::new(),
                resource: Resource::named(&text(&resource["type"])),
                name: text(&resource["name"]),
                is_prefix: resource["patternType"] == "prefix",
                operation: Operation::named(&text(operation)),
            })
        })
        .collect()
}

/// What user.yaml says in a comment: with such a table, besides.
fn documented_for(table: &str) -> Vec<Permission> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/strimzi/user.yaml")).expect("user.yaml");
    let (_, commented) = text.split_once(&format!("# With [[{table}]], besides")).expect("the comment");
    let lines = commented.lines().skip(1).take_while(|line| !line.contains("# With [["));
    let rules: String = lines.map(|line| line.replacen("# ", "", 1) + "\n").collect();
    let rules: Value = serde_yaml_ng::from_str(&rules).expect("YAML");
    permissions(&rules)
}

/// The same for a user, for the names of a world: topics that people know are those of the world, the group is the user's own.
pub(crate) fn translated(permissions: &[Permission], user: &str, options: &KafkaOptions) -> Vec<Permission> {
    let topics = &options.topics;
    permissions
        .iter()
        .map(|permission| {
            let name = match permission.name.as_str() {
                "agents.tool-events.v1" => topics.input.clone(),
                "agents.loop-commands.v1" => topics.commands.clone(),
                "agents.loop-state.v1" => topics.state.clone(),
                "agents.loop-dlq.v1" => topics.dead_letters.clone(),
                "otlp_spans" => format!("{}.spans", options.app),
                other => {
                    let rest = other.strip_prefix("loopwarden").expect("a name of the group");
                    format!("{}{rest}", options.app)
                }
            };
            Permission { user: user.to_owned(), name, ..permission.clone() }
        })
        .collect()
}

/// A user of the PLAIN listener with a group of its own.
struct User {
    name: String,
    options: KafkaOptions,
}

impl User {
    fn new(name: &str, world: &World) -> Self {
        let options = KafkaOptions { app: format!("{}-{name}", world.options.app), ..world.options.clone() };
        Self { name: name.to_owned(), options }
    }

    fn command(&self, secured: &Secured, arguments: &[&str]) -> Command {
        let secret = secured.secret(&self.name, &password(&self.name));
        let mut command = program(&secured.address(Listener::Plain), &self.options, arguments);
        set(&mut command, &[("ca_file", &secured.file("ca.pem")), ("sasl_mechanism", "PLAIN")]);
        set(&mut command, &[("username", &self.name), ("password_file", &secret)]);
        command
    }
}

/// The program with the names of a group.
pub(crate) fn program(bootstrap: &str, options: &KafkaOptions, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    told_nothing(&mut command);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for setting in ["mode=live", "instance=lw-0", "lanes=1", "http.listen=127.0.0.1:0"] {
        command.arg("--set").arg(setting);
    }
    set(
        &mut command,
        &[
            ("bootstrap_servers", bootstrap),
            ("group", &options.app),
            ("input", &options.topics.input),
            ("commands", &options.topics.commands),
            ("state", &options.topics.state),
            ("dlq", &options.topics.dead_letters),
        ],
    );
    command
}

pub(crate) fn set(command: &mut Command, settings: &[(&str, &str)]) {
    for (key, value) in settings {
        command.arg("--set").arg(format!("kafka.{key}={value}"));
    }
}

/// A directory of one process.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("security-{}-{name}", std::process::id()));
        // A run that was killed may have had the same id, and left its state.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits for the end of a process, and kills it where that does not come.
pub(crate) fn ended(child: Child) -> Output {
    bounded(child.id(), PATIENCE * 3, || child.wait_with_output()).expect("the process")
}

/// Events that make a process write to each of its topics.
fn feed(world: &World) {
    let call = |number: u32| {
        format!(
            r#"{{"id":"e{number}","kind":"tool","session_id":"s","swarm_id":"w","tool":"Bash","args":{{"command":"make"}},"result":"no rule","outcome":"error"}}"#
        )
    };
    let calls: Vec<String> = (0..4).map(call).collect();
    let mut records: Vec<(i32, &str, &str)> = calls.iter().map(|call| (0, "s", call.as_str())).collect();
    records.push((0, "s", "no event"));
    world.produce(&records);
}

pub(crate) fn world(secured: &Secured) -> World {
    World::new(secured.admin(), 1)
}

fn topics_of(user: &User, world: &World) {
    let plans = admin::plan(&user.options, 1, 1);
    let own: Vec<_> = plans.into_iter().filter(|plan| plan.purpose.is_internal()).collect();
    Admin::new(&world.options).expect("an admin client").create(&own).expect("topics");
}

#[test]
fn every_kind_of_security_lets_the_right_client_in_and_says_why_a_wrong_one_stays_outside() {
    let Some(secured) = secured() else { return };
    let world = world(secured);
    let options = &world.options;
    let documented = documented();
    secured.grant(&translated(&documented, SCRAM_USER, options));
    secured.grant(&translated(&documented, CERTIFIED_USER, options));
    let (ca, other_ca) = (secured.file("ca.pem"), secured.file("other-ca.pem"));
    let (certificate, key) = (secured.file("client.pem"), secured.file("client.key"));
    let right = secured.secret("right", &password(SCRAM_USER));
    let wrong = secured.secret("wrong", "pw0rd-of-nobody-xyzzy");
    let start = |listener: Listener, settings: &[(&str, &str)]| {
        let mut command = program(&secured.address(listener), options, &["check", "--connect", "--kafka-debug", "security"]);
        set(&mut command, settings);
        command.spawn().expect("the program")
    };
    let result = |child: Child| {
        let output = ended(child);
        let told = both(&output);
        assert!(!told.contains("xyzzy"), "a secret was printed: {told}");
        (output.status.code(), told)
    };
    // Takes its time: a broker that hangs up may come back.
    let plaintext = start(Listener::Tls, &[]);
    let scram = |mechanism| {
        [("ca_file", ca.as_str()), ("sasl_mechanism", mechanism), ("username", SCRAM_USER), ("password_file", &right)]
    };
    let mutual = [("ca_file", ca.as_str()), ("cert_file", &certificate), ("key_file", &key)];
    for (name, listener, settings) in [
        ("TLS", Listener::Tls, &[("ca_file", ca.as_str())][..]),
        ("mutual TLS", Listener::Mutual, &mutual),
        ("SCRAM-SHA-256", Listener::Scram, &scram("SCRAM-SHA-256")),
        ("SCRAM-SHA-512", Listener::Scram, &scram("SCRAM-SHA-512")),
    ] {
        let (code, told) = result(start(listener, settings));
        assert_eq!(code, Some(0), "{name}: {told}");
        assert!(told.contains("permissions    ok"), "{name}: {told}");
    }
    let wrong_password = [&scram("SCRAM-SHA-512")[..3], &[("password_file", wrong.as_str())]].concat();
    for (name, listener, settings, says) in [
        ("another authority", Listener::Tls, &[("ca_file", other_ca.as_str())][..], "certificate verify failed"),
        ("no certificate", Listener::Mutual, &[("ca_file", ca.as_str())], "certificate"),
        ("a wrong password", Listener::Scram, &wrong_password, "invalid credentials"),
        ("another mechanism", Listener::Scram, &scram("PLAIN"), "SCRAM-SHA-512,SCRAM-SHA-256"),
    ] {
        let (code, told) = result(start(listener, settings));
        assert_eq!(code, Some(69), "{name}: {told}");
        assert!(told.contains("error[E0103]") && told.contains(says), "{name}: {told}");
    }
    // And a whole run, by certificate alone.
    feed(&world);
    let scratch = Scratch::new("certified");
    let mut command = program(&secured.address(Listener::Mutual), options, &["run", "--data-dir", &scratch.0.to_string_lossy()]);
    set(&mut command, &mutual);
    let _ = works(command, &world);
    let (code, told) = result(plaintext);
    assert_eq!(code, Some(69), "{told}");
    assert!(told.contains("error[E0101]") && told.contains("what security the broker expects"), "{told}");
}

/// Runs it until its first command is there, and stops it.
fn works(mut command: Command, world: &World) -> String {
    let mut child = command.spawn().expect("the program");
    let mut line = String::new();
    let pid = child.id();
    let mut output = BufReader::new(child.stdout.as_mut().expect("piped"));
    bounded(pid, START_WAIT, || output.read_line(&mut line)).expect("a line");
    if !line.starts_with("ready: mode live") {
        panic!("not ready within {START_WAIT:?}: {line:?}\n{}", both(&ended(child)));
    }
    let deadline = loopwarden::clock::Deadline::after(PATIENCE);
    while world.read(&world.options.topics.commands).is_empty() || world.read(&world.options.topics.dead_letters).is_empty() {
        assert!(!deadline.is_over(), "nothing comes out");
    }
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
    assert!(told.success());
    let output = ended(child);
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    both(&output)
}

#[test]
fn the_documented_permissions_are_enough_and_each_of_them_is_needed() {
    let Some(secured) = secured() else { return };
    let world = world(secured);
    let documented = documented();
    assert!(documented.len() > 12, "{documented:?}");
    // A user with everything, one for each permission without it, and one that only makes topics.
    let whole = User::new("u0", &world);
    let maker = User::new("u1", &world);
    // Settings are looked at in one way for all topics: one of them stands for the others.
    let mut described = 0;
    let lacking: Vec<(Permission, User)> = documented
        .iter()
        .filter(|lacks| {
            described += usize::from(lacks.operation == Operation::DescribeConfigs);
            lacks.operation != Operation::DescribeConfigs || described == 1
        })
        .enumerate()
        .map(|(at, lacks)| (lacks.clone(), User::new(&format!("u{}", at + 2), &world)))
        .collect();
    let mut permissions = translated(&documented, &whole.name, &whole.options);
    for plan in admin::plan(&maker.options, 1, 1) {
        let operations = [Operation::Create, Operation::DescribeConfigs];
        permissions.extend(operations.map(|operation| Permission {
            user: maker.name.clone(),
            resource: Resource::Topic,
            name: plan.name.clone(),
            is_prefix: false,
            operation,
        }));
    }
    for (lacks, user) in &lacking {
        let all = documented.iter().filter(|permission| *permission != lacks).cloned().collect::<Vec<_>>();
        permissions.extend(translated(&all, &user.name, &user.options));
        topics_of(user, &world);
    }
    topics_of(&whole, &world);
    secured.grant(&permissions);
    feed(&world);

    // Enough.
    let checked = ended(whole.command(secured, &["check", "--connect"]).spawn().expect("the program"));
    assert_eq!(checked.status.code(), Some(0), "{}", both(&checked));
    assert!(both(&checked).contains("permissions    ok") && !both(&checked).contains("E0103"), "{}", both(&checked));
    let scratch = Scratch::new("whole");
    let told = works(whole.command(secured, &["run", "--data-dir", &scratch.0.to_string_lossy()]), &world);
    assert!(!told.contains("DescribeConfigs"), "{told}");
    let (_, blind) = lacking.iter().find(|(lacks, _)| lacks.operation == Operation::DescribeConfigs).expect("one of them");
    let scratch = Scratch::new("blind");
    let told = works(blind.command(secured, &["run", "--data-dir", &scratch.0.to_string_lossy()]), &world);
    assert!(told.contains("warning[E0103]") && told.contains("DescribeConfigs on the topic"), "{told}");
    for _ in 0..2 {
        let made = ended(maker.command(secured, &["topics", "create", "--partitions", "1"]).spawn().expect("the program"));
        assert_eq!(made.status.code(), Some(0), "{}", both(&made));
    }
    let refused = ended(whole.command(secured, &["topics", "create"]).spawn().expect("the program"));
    assert_eq!(refused.status.code(), Some(69), "{}", both(&refused));
    assert!(both(&refused).contains("error[E0103]") && both(&refused).contains("Create on the topic"), "{}", both(&refused));

    // Each needed: several at once, since each mostly waits.
    for some in lacking.chunks(5) {
        each_is_needed(secured, some);
    }
}

fn each_is_needed(secured: &Secured, lacking: &[(Permission, User)]) {
    let scratches: Vec<Scratch> = lacking.iter().map(|(_, user)| Scratch::new(&user.name)).collect();
    let mut started: Vec<(&Permission, &User, bool, Child)> = Vec::new();
    for ((lacks, user), scratch) in lacking.iter().zip(&scratches) {
        let mut spawn = |arguments: &[&str]| {
            let child = user.command(secured, arguments).spawn().expect("the program");
            started.push((lacks, user, arguments[0] == "check", child));
        };
        // Without the settings of topics everything works, and only the comparison says what it could not look at.
        if lacks.operation != Operation::DescribeConfigs {
            spawn(&["run", "--data-dir", &scratch.0.to_string_lossy()]);
        }
        spawn(&["check", "--connect"]);
    }
    for (lacks, user, is_check, child) in started {
        let output = ended(child);
        let (code, told) = (output.status.code(), both(&output));
        let name = &translated(std::slice::from_ref(lacks), "", &user.options)[0].name;
        let what = format!("without {:?} on {name}", lacks.operation);
        // A transactional id is told by its prefix.
        assert!(told.contains(name.as_str()) || lacks.resource == Resource::TransactionalId, "{what}: {told}");
        if lacks.operation == Operation::DescribeConfigs {
            assert_eq!(code, Some(0), "{what}: {told}");
            assert!(told.contains("warning[E0103]") && told.contains("DescribeConfigs"), "{what}: {told}");
            continue;
        }
        assert_eq!(code, Some(69), "{what}: {told}");
        // A topic that nothing else is allowed on is not even seen.
        let operation = format!("{:?} on", lacks.operation);
        let says = told.contains(&operation) || (!is_check && told.contains("Describe on the topic, which comes with"));
        assert!(!is_check || told.matches("error[").count() == 1, "{what}: {told}");
        assert!(told.contains("error[E0103]") && says, "{what}: {told}");
    }
}

#[test]
fn what_an_input_needs_is_checked_permission_by_permission_and_nothing_is_written() {
    let Some(secured) = secured() else { return };
    let world = world(secured);
    let (documented, of_inputs) = (documented(), documented_for("input"));
    assert_eq!(of_inputs.len(), 3, "{of_inputs:?}");
    // A user with everything, and one for each permission without it. The last one's topic does not exist.
    let users: Vec<User> = (20..25).map(|number| User::new(&format!("u{number}"), &world)).collect();
    let mut permissions = Vec::new();
    for (at, user) in users.iter().enumerate() {
        let lacks = at.checked_sub(1);
        let all = of_inputs.iter().enumerate().filter(|(at, _)| Some(*at) != lacks).map(|(_, permission)| permission);
        permissions.extend(translated(&all.chain(&documented).cloned().collect::<Vec<_>>(), &user.name, &user.options));
        topics_of(user, &world);
        if at < 4 {
            let plan = admin::TopicPlan {
                name: format!("{}.spans", user.options.app),
                purpose: admin::Purpose::Input,
                partitions: 1,
                replication: 1,
                config: Vec::new(),
            };
            Admin::new(&world.options).expect("an admin client").create(&[plan]).expect("a topic");
        }
    }
    secured.grant(&permissions);
    let scratch = Scratch::new("inputs");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let start = |user: &User, arguments: &[&str]| {
        let config = scratch.0.join(format!("{}.toml", user.name));
        fs::write(&config, format!("[[input]]\ntopic = \"{}.spans\"\n", user.options.app)).expect("a configuration");
        let mut command = user.command(secured, arguments);
        command.arg("--config").arg(config).spawn().expect("the program")
    };
    let started: Vec<Child> = users.iter().map(|user| start(user, &["check", "--connect"])).collect();
    for (at, (user, child)) in users.iter().zip(started).enumerate() {
        let output = ended(child);
        let (code, told) = (output.status.code(), both(&output));
        let errors = told.matches("error[").count();
        match at {
            0 => assert!(code == Some(0) && told.contains("permissions    ok"), "{told}"),
            4 => assert!(errors == 1 && told.contains("error[E0102]") && told.contains("a table [[input]] names it"), "{told}"),
            _ => {
                let lacks = &of_inputs[at - 1];
                let name = &translated(std::slice::from_ref(lacks), "", &user.options)[0].name;
                let says = format!("the missing permission is {:?} on", lacks.operation);
                assert!(
                    code == Some(69) && errors == 1 && told.contains(&says) && told.contains(name.as_str()),
                    "{lacks:?}: {told}"
                );
            }
        }
    }
    let checked = ended(start(&users[4], &["topics", "check"]));
    assert_eq!(checked.status.code(), Some(69), "{}", both(&checked));
    assert!(both(&checked).contains(&format!("topic \"{}.spans\": does not exist", users[4].options.app)), "{}", both(&checked));
    // Five checks were allowed to write to these.
    for topic in [&world.options.topics.input, &world.options.topics.commands, &world.options.topics.state] {
        assert_eq!(world.read_as(topic, "read_uncommitted"), [], "{topic}");
    }
}

#[test]
fn what_a_webhook_needs_is_checked_permission_by_permission() {
    let Some(secured) = secured() else { return };
    let world = world(secured);
    let (documented, of_webhooks) = (documented(), documented_for("webhook"));
    assert_eq!(of_webhooks.len(), 2, "{of_webhooks:?}");
    // A user with everything, and one for each permission without it.
    let users: Vec<User> = (25..28).map(|number| User::new(&format!("u{number}"), &world)).collect();
    let mut permissions = Vec::new();
    for (at, user) in users.iter().enumerate() {
        let lacks = at.checked_sub(1);
        let all = of_webhooks.iter().enumerate().filter(|(at, _)| Some(*at) != lacks).map(|(_, permission)| permission);
        permissions.extend(translated(&all.chain(&documented).cloned().collect::<Vec<_>>(), &user.name, &user.options));
        topics_of(user, &world);
    }
    secured.grant(&permissions);
    let scratch = Scratch::new("webhooks");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let config = scratch.0.join("webhooks.toml");
    fs::write(&config, "[[webhook]]\nname = \"r\"\nurl = \"http://127.0.0.1:1/hook\"\n").expect("a configuration");
    let start = |user: &User| {
        let mut command = user.command(secured, &["check", "--connect"]);
        command.arg("--config").arg(&config).spawn().expect("the program")
    };
    let started: Vec<Child> = users.iter().map(start).collect();
    for (at, (user, child)) in users.iter().zip(started).enumerate() {
        let output = ended(child);
        let (code, told) = (output.status.code(), both(&output));
        let Some(lacks) = at.checked_sub(1).map(|at| &of_webhooks[at]) else {
            assert!(code == Some(0) && told.contains("permissions    ok"), "{told}");
            continue;
        };
        let name = &translated(std::slice::from_ref(lacks), "", &user.options)[0].name;
        let says = format!("the missing permission is {:?} on", lacks.operation);
        let is_told = told.contains(&says) && told.contains(name.as_str());
        assert!(code == Some(69) && told.matches("error[").count() == 1 && is_told, "{lacks:?}: {told}");
    }
}

#[test]
fn the_permissions_name_the_topics_of_the_default_settings() {
    let layers = loopwarden::config::Layers {
        flags: ["kafka.bootstrap_servers=h:1", "instance=i"]
            .map(|set| loopwarden::config::Flag::set(set).expect("a flag"))
            .to_vec(),
        ..loopwarden::config::Layers::default()
    };
    let kafka = loopwarden::config::load(&layers).expect("a configuration").config.kafka.expect("Kafka");
    let names: Vec<String> = documented()
        .into_iter()
        .filter(|permission| permission.resource == Resource::Topic)
        .map(|permission| permission.name)
        .collect();
    let internal = |stage: Stage| format!("{}.{}-changelog", kafka.group, stage.as_str());
    let counts = format!("{}.swarm-counts", kafka.group);
    for topic in
        [&kafka.input, &kafka.commands, &kafka.state, &kafka.dlq, &internal(Stage::Session), &internal(Stage::Swarm), &counts]
    {
        assert!(names.contains(topic), "{topic}");
    }
}
