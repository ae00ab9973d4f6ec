//! An issuer of tokens: signs them with openssl, gives them over HTTPS to who has the right secret, and refuses or keeps silent when told to.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{fs, net::TcpListener, thread};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use loopwarden::clock;
use native_tls::{Identity, TlsAcceptor};

/// Whom tokens are for.
pub(crate) const AUDIENCE: &str = "kafka";
/// Whom they name.
pub(crate) const TOKEN_USER: &str = "token-user";
/// The client of the issuer, and its secret.
pub(crate) const CLIENT: &str = "loopwarden-client";
pub(crate) const CLIENT_SECRET: &str = "s3cr3t-of-client-xyzzy";

/// The public key of `issuer.key`, as brokers read it.
pub(crate) fn keys(dir: &Path) -> String {
    let output = openssl(dir, &["rsa", "-in", "issuer.key", "-noout", "-modulus"], b"");
    let text = String::from_utf8(output).expect("text");
    let hex = text.trim().strip_prefix("Modulus=").expect("a modulus").as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex");
    let modulus = URL_SAFE_NO_PAD.encode(hex.chunks(2).map(byte).collect::<Vec<_>>());
    format!(r#"{{"keys":[{{"kty":"RSA","use":"sig","alg":"RS256","kid":"k","e":"AQAB","n":"{modulus}"}}]}}"#)
}

/// A token that lives so long, signed with a key of the directory.
pub(crate) fn token(dir: &Path, key: &str, life_ms: i64) -> String {
    let now_ms = clock::now_ms();
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let head = part(r#"{"alg":"RS256","kid":"k","typ":"JWT"}"#);
    let body = part(&format!(
        r#"{{"iss":"the-test","sub":"{TOKEN_USER}","aud":"{AUDIENCE}","scope":"x","iat":{},"exp":{}}}"#,
        now_ms / 1_000,
        (now_ms + life_ms) / 1_000
    ));
    let signed = format!("{head}.{body}");
    let signature = openssl(dir, &["dgst", "-sha256", "-sign", key], signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn openssl(dir: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl");
    child.stdin.take().expect("piped").write_all(input).expect("written");
    let output = child.wait_with_output().expect("openssl");
    assert!(output.status.success(), "openssl {arguments:?}");
    output.stdout
}

/// What the issuer does with who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Gives,
    Refuses,
    HangsUp,
}

/// The issuer.
pub(crate) struct Issuer {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    dir: PathBuf,
    life_ms: AtomicI64,
    given: AtomicU32,
    asked: AtomicU64,
    mood: Mutex<Mood>,
}

impl Issuer {
    /// Gives tokens that live so long.
    pub(crate) fn start(dir: &Path, life_ms: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("https://{}/token", listener.local_addr().expect("an address"));
        let read = |name: &str| fs::read(dir.join(name)).expect("a file");
        let identity = Identity::from_pkcs8(&read("server-alone.pem"), &read("server.key")).expect("an identity");
        let tls = TlsAcceptor::new(identity).expect("an acceptor");
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            life_ms: AtomicI64::new(life_ms),
            given: AtomicU32::new(0),
            asked: AtomicU64::new(0),
            mood: Mutex::new(Mood::Gives),
        });
        let answering = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who hangs up in the middle is no business of the test, nor who does not trust it.
                let _ = tls.accept(stream).map(|stream| answering.answer(stream));
            }
        });
        Self { url, shared }
    }

    /// Tokens given so far.
    pub(crate) fn given(&self) -> u32 {
        self.shared.given.load(Ordering::SeqCst)
    }

    /// Questions so far.
    pub(crate) fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// From now on tokens live so long.
    pub(crate) fn shorten(&self, life_ms: i64) {
        self.shared.life_ms.store(life_ms, Ordering::SeqCst);
    }

    pub(crate) fn turn(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }
}

impl Shared {
    fn answer(&self, stream: impl Read + Write) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut length, mut is_known) = (String::new(), 0, false);
        let expected = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{CLIENT_SECRET}")));
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else { if line.trim().is_empty() { break } else { continue } };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "authorization" => is_known = value == expected,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let is_asking = String::from_utf8_lossy(&body).contains("grant_type=client_credentials");
        // In this order: a question that is counted after a turn meets the new mood.
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().unwrap();
        let (status, answer) = match mood {
            Mood::HangsUp => return Ok(()),
            Mood::Gives if is_known && is_asking => {
                let life_ms = self.life_ms.load(Ordering::SeqCst);
                let token = token(&self.dir, "issuer.key", life_ms);
                let seconds = life_ms / 1_000;
                ("200 OK", format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":{seconds}}}"#))
            }
            _ => ("401 Unauthorized", r#"{"error":"invalid_client","error_description":"nobody of that name"}"#.to_owned()),
        };
        if status.starts_with("200") {
            self.given.fetch_add(1, Ordering::SeqCst);
        }
        let length = answer.len();
        write!(
            reader.get_mut(),
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
        )
    }
}
