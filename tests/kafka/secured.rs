//! A broker with a listener for each kind of security and the authorizer on; certificates are made by openssl, permissions by one
//! request in the broker's own protocol: its command line would cost a JVM for each.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, fs, net::TcpStream, process::Command, sync::OnceLock, time::Duration};

use loopwarden::clock::Deadline;

use crate::{broker, broker::Broker, issuer, world::PATIENCE};

/// What a listener asks of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// Nothing: whoever comes may do everything.
    Admin,
    /// TLS; the client stays unknown, and may do everything.
    Tls,
    /// TLS with a certificate of the client.
    Mutual,
    /// TLS, user and password.
    Plain,
    /// TLS, user and proof of the password.
    Scram,
    /// TLS and a token of [`Issuer`]; a connection ends with its token, unless it proves itself anew.
    Token,
}

const LISTENERS: [(Listener, &str, &str); 6] = [
    (Listener::Admin, "ADMIN", "PLAINTEXT"),
    (Listener::Tls, "TLS", "SSL"),
    (Listener::Mutual, "MUTUAL", "SSL"),
    (Listener::Plain, "PLAIN", "SASL_SSL"),
    (Listener::Scram, "SCRAM", "SASL_SSL"),
    (Listener::Token, "TOKEN", "SASL_SSL"),
];

/// The user of the SCRAM listener.
pub(crate) const SCRAM_USER: &str = "scram-user";
/// The user that the client's certificate names.
pub(crate) const CERTIFIED_USER: &str = "CN=certified-user";
/// The user of its next certificate, by another authority.
pub(crate) const RENEWED_USER: &str = "CN=renewed-user";

/// Users of the PLAIN listener beyond those that a test names: `u0`, `u1`, …
const USERS: usize = 32;

/// The password of a user: no other text of a test may contain it.
pub(crate) fn password(user: &str) -> String {
    format!("pw0rd-of-{user}-xyzzy")
}

/// The broker and its files.
pub(crate) struct Secured {
    broker: Broker,
    dir: PathBuf,
    ports: [u16; LISTENERS.len()],
}

/// The shared one. `None` as for [`broker::bootstrap`], and where only a given broker is there.
pub(crate) fn secured() -> Option<&'static Secured> {
    static SHARED: OnceLock<Option<Secured>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        if std::env::var("LOOPWARDEN_KAFKA_TESTS").as_deref() == Ok("skip") || std::env::var("KAFKA_BOOTSTRAP").is_ok() {
            return None;
        }
        Some(Secured::start())
    });
    if shared.is_none() {
        broker::leave_out("this test needs a broker of its own, with other listeners");
    }
    shared.as_ref()
}

impl Secured {
    fn start() -> Self {
        let dir = broker::directory("secured");
        certificates(&dir);
        let ports = LISTENERS.map(|_| broker::free_port());
        let scram: Vec<String> = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
            .into_iter()
            .flat_map(|kind| ["--add-scram".to_owned(), format!("{kind}=[name={SCRAM_USER},password={}]", password(SCRAM_USER))])
            .collect();
        let admin = format!("127.0.0.1:{}", ports[0]);
        fs::write(dir.join("server.properties"), properties(&dir, ports)).expect("server.properties");
        fs::write(dir.join("jwks.json"), issuer::keys(&dir)).expect("the issuer's keys");
        let allowed = format!("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={}", keys_url(&dir));
        fs::write(dir.join("java"), allowed).expect("arguments of the JVM");
        let broker = broker::run(&dir, &admin, &scram);
        broker.wait_until_up();
        Self { broker, dir, ports }
    }

    /// Where everything is allowed.
    pub(crate) fn admin(&self) -> &str {
        &self.broker.bootstrap
    }

    /// Where a listener listens.
    pub(crate) fn address(&self, listener: Listener) -> String {
        let at = LISTENERS.iter().position(|(of, ..)| *of == listener).expect("a listener");
        format!("127.0.0.1:{}", self.ports[at])
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file of the test: `ca.pem`, `client.pem`, `client.key`, `other-ca.pem`.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }

    /// A file that holds this, as a secret is mounted.
    pub(crate) fn secret(&self, name: &str, secret: &str) -> String {
        fs::write(self.dir.join(name), format!("{secret}\n")).expect("a file");
        self.file(name)
    }

    /// Grants permissions, and waits until the broker knows them: the controller takes them, and the broker learns of them later.
    pub(crate) fn grant(&self, permissions: &[Permission]) {
        let answer = self.ask(CREATE_ACLS, &allowed(permissions));
        // Throttle time, count; then code and message of each.
        assert_eq!(answer[4..8], (permissions.len() as u32).to_be_bytes(), "{answer:?}");
        assert!(answer[8..].chunks(4).all(|result| result[..2] == [0, 0]), "refused: {answer:?}");
        let deadline = Deadline::after(PATIENCE);
        loop {
            let known = self.granted();
            let missing = permissions.iter().find(|permission| !known.contains(&permission.described()));
            let Some(missing) = missing else { return };
            assert!(!deadline.is_over(), "the broker never learns of {missing:?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Takes permissions away, and waits until the broker knows.
    pub(crate) fn revoke(&self, permissions: &[Permission]) {
        self.ask(DELETE_ACLS, &allowed(permissions));
        let deadline = Deadline::after(PATIENCE);
        loop {
            let known = self.granted();
            let left = permissions.iter().find(|permission| known.contains(&permission.described()));
            let Some(left) = left else { return };
            assert!(!deadline.is_over(), "the broker never forgets {left:?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// What the broker knows to be allowed.
    fn granted(&self) -> BTreeSet<Described> {
        // Of any resource, name (none is given), kind of name, user (none), host (none), operation and permission.
        let answer = self.ask(DESCRIBE_ACLS, &[1, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff, 1, 1]);
        // Throttle time, code, message.
        let mut rest = &answer[4..];
        assert_eq!(take(&mut rest, 2), [0, 0], "{answer:?}");
        take_text(&mut rest);
        let mut granted = BTreeSet::new();
        for _ in 0..take_i32(&mut rest) {
            let resource = take(&mut rest, 1)[0];
            let name = take_text(&mut rest);
            let kind = take(&mut rest, 1)[0];
            for _ in 0..take_i32(&mut rest) {
                let user = take_text(&mut rest);
                take_text(&mut rest);
                let operation = take(&mut rest, 2)[0];
                granted.insert((resource, name.clone(), kind, user, operation));
            }
        }
        granted
    }

    /// Sends a request of version 1, and reads what comes after the correlation id.
    fn ask(&self, api: u8, body: &[u8]) -> Vec<u8> {
        // Correlation 7, no client id.
        let request = [&[0, api, 0, 1, 0, 0, 0, 7, 0xff, 0xff], body].concat();
        let mut stream = TcpStream::connect(self.admin()).expect("the broker");
        stream.write_all(&(request.len() as u32).to_be_bytes()).expect("sent");
        stream.write_all(&request).expect("sent");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).expect("an answer");
        answer.split_off(4)
    }
}

const DESCRIBE_ACLS: u8 = 29;
const CREATE_ACLS: u8 = 30;
const DELETE_ACLS: u8 = 31;

/// A permission as the protocol has it: resource, name, kind of name, user, operation.
type Described = (u8, String, u8, String, u8);

fn take<'a>(from: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(bytes);
    *from = rest;
    taken
}

fn take_i32(from: &mut &[u8]) -> i32 {
    i32::from_be_bytes(take(from, 4).try_into().expect("four bytes"))
}

/// Empty where there is none.
fn take_text(from: &mut &[u8]) -> String {
    let length = i16::from_be_bytes(take(from, 2).try_into().expect("two bytes"));
    String::from_utf8_lossy(take(from, length.max(0) as usize)).into_owned()
}

/// Permissions as both requests have them: to be granted, and as filters of what is to be taken away.
fn allowed(permissions: &[Permission]) -> Vec<u8> {
    let mut body = Vec::new();
    put_i32(&mut body, permissions.len());
    for permission in permissions {
        let (resource, name, kind, user, operation) = permission.described();
        body.push(resource);
        put_text(&mut body, &name);
        body.push(kind);
        put_text(&mut body, &user);
        put_text(&mut body, "*");
        body.push(operation);
        // Allow.
        body.push(3);
    }
    body
}

fn put_i32(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&(number as u32).to_be_bytes());
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(&(text.len() as u16).to_be_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// What a permission is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Topic,
    Group,
    TransactionalId,
}

impl Resource {
    /// As Strimzi writes it.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "topic" => Self::Topic,
            "group" => Self::Group,
            "transactionalId" => Self::TransactionalId,
            other => panic!("no resource: {other}"),
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Topic => 2,
            Self::Group => 3,
            Self::TransactionalId => 5,
        }
    }
}

/// What it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Read,
    Write,
    Create,
    DescribeConfigs,
}

impl Operation {
    /// As Strimzi writes it.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "Read" => Self::Read,
            "Write" => Self::Write,
            "Create" => Self::Create,
            "DescribeConfigs" => Self::DescribeConfigs,
            other => panic!("more than is needed, or unknown here: {other}"),
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::Create => 5,
            Self::DescribeConfigs => 10,
        }
    }
}

/// One permission of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Permission {
    pub(crate) user: String,
    pub(crate) resource: Resource,
    pub(crate) name: String,
    pub(crate) is_prefix: bool,
    pub(crate) operation: Operation,
}

impl Permission {
    fn described(&self) -> Described {
        let kind = if self.is_prefix { 4 } else { 3 };
        (self.resource.code(), self.name.clone(), kind, format!("User:{}", self.user), self.operation.code())
    }
}

fn properties(dir: &Path, ports: [u16; LISTENERS.len()]) -> String {
    let controller = broker::free_port();
    let listeners: Vec<String> =
        LISTENERS.iter().zip(ports).map(|((_, name, _), port)| format!("{name}://127.0.0.1:{port}")).collect();
    let protocols: Vec<String> = LISTENERS.iter().map(|(_, name, protocol)| format!("{name}:{protocol}")).collect();
    let users: String =
        (0..USERS).map(|user| format!("u{user}")).map(|user| format!(" user_{user}=\"{}\"", password(&user))).collect();
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners={listeners},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners={listeners}\n\
         inter.broker.listener.name=ADMIN\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:ANONYMOUS\n\
         ssl.keystore.type=PEM\n\
         ssl.keystore.location={dir}/server.pem\n\
         ssl.truststore.type=PEM\n\
         ssl.truststore.location={dir}/trusted.pem\n\
         listener.name.mutual.ssl.client.auth=required\n\
         listener.name.plain.sasl.enabled.mechanisms=PLAIN\n\
         listener.name.plain.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required{users};\n\
         listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.scram.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
         listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
         listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER\n\
         listener.name.token.oauthbearer.sasl.jaas.config=\
         org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n\
         listener.name.token.oauthbearer.sasl.server.callback.handler.class=\
         org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler\n\
         listener.name.token.oauthbearer.connections.max.reauth.ms=3600000\n\
         listener.name.token.connections.max.reauth.ms=3600000\n\
         sasl.oauthbearer.jwks.endpoint.url={keys}\n\
         sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator\n\
         sasl.oauthbearer.expected.audience={audience}\n\
         sasl.oauthbearer.clock.skew.seconds=1\n\
         log.dirs={dir}/data\n\
         log.index.size.max.bytes=1048576\n\
         auto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=4\n\
         group.initial.rebalance.delay.ms=0\n",
        dir = dir.display(),
        keys = keys_url(dir),
        audience = issuer::AUDIENCE,
        listeners = listeners.join(","),
        protocols = protocols.join(","),
    )
}

/// Where the broker reads the keys that tokens are signed with.
fn keys_url(dir: &Path) -> String {
    format!("file://{}", dir.join("jwks.json").display())
}

/// Two authorities that the broker trusts, a certificate of the broker, one of a client by each; and an authority and a client that it does not trust.
fn certificates(dir: &Path) {
    let script = r#"
        set -eu
        new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        authority() { openssl req -x509 $new -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" -days 2; }
        signed() {
            openssl req $new -keyout "$1.key" -out "$1.csr" -subj "/CN=$2"
            printf 'subjectAltName=IP:127.0.0.1\n' >"$1.ext"
            openssl x509 -req -in "$1.csr" -CA "$3.pem" -CAkey "$3.key" -CAcreateserial -out "$1.pem" -days 2 -extfile "$1.ext"
        }
        authority ca
        authority other-ca
        authority new-ca
        signed server 127.0.0.1 ca
        signed client certified-user ca
        signed renewed renewed-user new-ca
        signed stranger certified-user other-ca
        cat ca.pem new-ca.pem >trusted.pem
        cp server.pem server-alone.pem
        cat server.key >>server.pem
        openssl genrsa -out issuer.key 2048
        openssl genrsa -out other-issuer.key 2048
    "#;
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).output().expect("a shell");
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
}
