//! Links by which whoever reads a message answers its command. A link is a credential: what it does stands in it, signed, with its end.
//!
//! The token is the base64 of a small JSON array and of its HMAC-SHA256. No process has to remember a link, so that each process with the
//! same secret takes it, also after a restart.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use loopwarden_core::event::EventTime;
use loopwarden_token::hmac_sha256;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

/// What is signed begins with it: the secret may sign other things too, which are no links.
const DOMAIN: &[u8] = b"loopwarden answer link 1\n";
/// Path of a link below the public URL, without its token.
const PATH: &str = "/a/";
/// Longest link. Discord takes no longer one in a button. Characters.
const URL_CHARS_MAX: usize = 512;
/// Longest token that is looked at. Bytes.
const TOKEN_BYTES_MAX: usize = 1_024;
const MAC_BYTES: usize = 32;
/// A shorter secret could be guessed. Bytes.
const SECRET_BYTES_MIN: usize = 32;

/// What a person makes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// It is a loop: a label alone.
    Right,
    /// It is none, and is let be.
    FalseAlarm,
    /// It may go on for a while.
    Allow,
    /// Its session is stopped for a while.
    Stop,
}

impl AnswerKind {
    /// In the order of their buttons.
    pub const ALL: [Self; 4] = [Self::Right, Self::FalseAlarm, Self::Allow, Self::Stop];

    /// The word on the wire and in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::FalseAlarm => "false_alarm",
            Self::Allow => "allow",
            Self::Stop => "stop",
        }
    }

    /// On a button. What lasts for a while does so for an hour.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Right => "Right",
            Self::FalseAlarm => "False alarm",
            Self::Allow => "Allow 1 h",
            Self::Stop => "Stop 1 h",
        }
    }

    /// The answer that a word stands for.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What a link does, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub answer: AnswerKind,
    /// From then on it does nothing.
    pub expires: EventTime,
    /// The webhook whose message it stands in.
    pub webhook: String,
    pub command_id: String,
    pub episode: String,
    /// Empty where the command has none.
    pub tenant: String,
    pub session_id: String,
    /// Empty: the command names none.
    pub agent_id: String,
    /// Its command was made up, to look at how it arrives.
    pub is_test: bool,
}

/// Why a link does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLink {
    /// This secret has not signed it.
    Altered,
    Expired,
}

/// A secret that signs links.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkKey(Vec<u8>);

impl std::fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkKey(…)")
    }
}

impl LinkKey {
    /// Takes a text that nobody can guess.
    ///
    /// # Errors
    /// What is wrong, without the secret, as `must have …`.
    pub fn of(secret: &str) -> Result<Self, String> {
        let bytes = secret.trim().as_bytes();
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(format!("must have {SECRET_BYTES_MIN} characters at least"));
        }
        Ok(Self(bytes.to_vec()))
    }

    fn mac(&self, payload: &[u8]) -> [u8; MAC_BYTES] {
        hmac_sha256(&self.0, &[DOMAIN, payload].concat())
    }

    /// The token of a link.
    pub fn token(&self, link: &Link) -> String {
        let Link { answer, expires, webhook, command_id, episode, tenant, session_id, agent_id, is_test } = link;
        let fields = json!([answer.as_str(), expires.0, webhook, command_id, episode, tenant, session_id, agent_id, is_test]);
        let payload = fields.to_string().into_bytes();
        let mac = self.mac(&payload);
        URL_SAFE_NO_PAD.encode([payload.as_slice(), &mac].concat())
    }

    /// The link of a token. Nothing of one that this secret has not signed is read; the comparison takes as long wherever they differ.
    ///
    /// # Errors
    /// It was altered, or its time is over.
    pub fn read(&self, token: &str, now: EventTime) -> Result<Link, BadLink> {
        let bytes = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX);
        let bytes = bytes.and_then(|token| URL_SAFE_NO_PAD.decode(token).ok()).ok_or(BadLink::Altered)?;
        let (payload, mac) = bytes.split_last_chunk::<MAC_BYTES>().ok_or(BadLink::Altered)?;
        if !bool::from(self.mac(payload).ct_eq(mac)) {
            return Err(BadLink::Altered);
        }
        let link = read(payload).ok_or(BadLink::Altered)?;
        if link.expires > now { Ok(link) } else { Err(BadLink::Expired) }
    }
}

fn read(payload: &[u8]) -> Option<Link> {
    type Fields = (String, i64, String, String, String, String, String, String, bool);
    let (answer, expires_ms, webhook, command_id, episode, tenant, session_id, agent_id, is_test): Fields =
        serde_json::from_slice(payload).ok()?;
    let (answer, expires) = (AnswerKind::from_name(&answer)?, EventTime(expires_ms));
    Some(Link { answer, expires, webhook, command_id, episode, tenant, session_id, agent_id, is_test })
}

/// A link under a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Button {
    pub(crate) answer: AnswerKind,
    pub(crate) url: String,
}

/// What the links of a webhook are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// Where people's browsers reach the process, without a slash at the end.
    pub public_url: String,
    pub key: LinkKey,
    /// How long a link holds. Milliseconds.
    pub life_ms: i64,
    /// Answers that it has links for.
    pub answers: Vec<AnswerKind>,
}

impl Links {
    /// The links of a command that is posted at a time. There are none where it is about no loop of a session, or where its names are so
    /// long that no link can hold them.
    pub(crate) fn buttons(&self, webhook: &str, command: &Value, now: EventTime) -> Vec<Button> {
        let at = |pointer: &str| command.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (action, code, mode) = (at("/action"), at("/reason/code"), at("/mode"));
        let is_of_loop = ["nudge", "block"].contains(&action) && !at("/session_id").is_empty() && !at("/episode").is_empty();
        if !is_of_loop || !at("/scope/by").is_empty() {
            return Vec::new();
        }
        let helps = |kind: &AnswerKind| match kind {
            // A budget ends by an allowance or by its policy.
            AnswerKind::FalseAlarm => code != "budget",
            // Nobody is bound there.
            AnswerKind::Stop => mode != "shadow",
            AnswerKind::Right | AnswerKind::Allow => true,
        };
        let button = |kind: AnswerKind| {
            let link = Link {
                answer: kind,
                expires: now.plus_ms(self.life_ms),
                webhook: webhook.to_owned(),
                command_id: at("/id").to_owned(),
                episode: at("/episode").to_owned(),
                tenant: at("/tenant").to_owned(),
                session_id: at("/session_id").to_owned(),
                agent_id: at("/scope/agent_id").to_owned(),
                is_test: mode == "replay",
            };
            Button { answer: kind, url: format!("{}{PATH}{}", self.public_url, self.key.token(&link)) }
        };
        let buttons: Vec<Button> = self.answers.iter().copied().filter(helps).map(button).collect();
        if buttons.iter().all(|button| button.url.len() <= URL_CHARS_MAX) { buttons } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(letter: &str) -> LinkKey {
        LinkKey::of(&letter.repeat(SECRET_BYTES_MIN)).expect("a key")
    }

    fn link(session_id: &str) -> Link {
        Link {
            answer: AnswerKind::Allow,
            expires: EventTime(1_000),
            webhook: "team-chat".to_owned(),
            command_id: "01".to_owned(),
            episode: "02".to_owned(),
            tenant: String::new(),
            session_id: session_id.to_owned(),
            agent_id: "main".to_owned(),
            is_test: false,
        }
    }

    #[test]
    fn a_link_holds_what_was_signed_until_its_end() {
        for session_id in ["s", "größe \"x\"\n", ""] {
            let token = key("a").token(&link(session_id));
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{token}");
            assert_eq!(key("a").read(&token, EventTime(999)), Ok(link(session_id)));
            assert_eq!(key("a").read(&token, EventTime(1_000)), Err(BadLink::Expired));
            assert_eq!(key("b").read(&token, EventTime(1_000)), Err(BadLink::Altered), "another secret");
        }
    }

    #[test]
    fn each_altered_byte_and_each_cut_is_seen() {
        let token = key("a").token(&link("s"));
        let bytes = URL_SAFE_NO_PAD.decode(&token).expect("base64");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut altered = bytes.clone();
                altered[at] ^= 1 << bit;
                assert_eq!(key("a").read(&URL_SAFE_NO_PAD.encode(&altered), EventTime(0)), Err(BadLink::Altered), "{at} {bit}");
            }
            for cut in [&bytes[..at], &bytes[at + 1..]] {
                assert_eq!(key("a").read(&URL_SAFE_NO_PAD.encode(cut), EventTime(0)), Err(BadLink::Altered), "{at}");
            }
        }
        for odd in ["", "0", "=", "ä", &format!("{token}="), &format!("{token}A"), &"A".repeat(100_000)] {
            assert_eq!(key("a").read(odd, EventTime(0)), Err(BadLink::Altered), "{odd:.20}");
        }
        // What the secret signs elsewhere is no link.
        let payload = br#"["allow",9,"w","c","e","","s","",false]"#;
        let foreign = [payload.as_slice(), &hmac_sha256(&[b'a'; 32], payload)].concat();
        assert_eq!(key("a").read(&URL_SAFE_NO_PAD.encode(foreign), EventTime(0)), Err(BadLink::Altered));
        assert_eq!(LinkKey::of("hunter2"), Err("must have 32 characters at least".to_owned()));
        assert_eq!(format!("{:?}", key("a")), "LinkKey(…)");
    }

    #[test]
    fn only_loops_of_sessions_have_links_and_only_those_that_help() {
        let links = Links {
            public_url: "https://w.example".to_owned(),
            key: key("a"),
            life_ms: 60_000,
            answers: AnswerKind::ALL.to_vec(),
        };
        let command = |more: Value| {
            let mut command = json!({
                "id": "01", "action": "block", "session_id": "s", "episode": "02", "mode": "live",
                "scope": { "kind": "session", "agent_id": "main" }, "reason": { "code": "similar_repeat" },
            });
            more.as_object().expect("fields").iter().for_each(|(name, value)| command[name] = value.clone());
            command
        };
        let words = |more: Value| -> Vec<&str> {
            links.buttons("w", &command(more), EventTime(0)).iter().map(|button| button.answer.as_str()).collect()
        };
        assert_eq!(words(json!({})), ["right", "false_alarm", "allow", "stop"]);
        assert_eq!(words(json!({ "reason": { "code": "budget" } })), ["right", "allow", "stop"]);
        assert_eq!(words(json!({ "mode": "shadow" })), ["right", "false_alarm", "allow"]);
        for none in [
            json!({ "action": "unblock" }),
            json!({ "session_id": null, "swarm_id": "w" }),
            json!({ "scope": { "kind": "session", "by": "stop" } }),
            json!({ "scope": { "kind": "session", "by": "budget/b/day" } }),
            json!({ "session_id": "x".repeat(256), "tenant": "y".repeat(256) }),
        ] {
            assert_eq!(words(none.clone()), Vec::<&str>::new(), "{none}");
        }
        let test = links.buttons("w", &command(json!({ "mode": "replay" })), EventTime(0));
        let token = test[0].url.strip_prefix("https://w.example/a/").expect("a link");
        let read = links.key.read(token, EventTime(59_999)).expect("it holds");
        assert!(read.is_test && read.webhook == "w" && read.agent_id == "main", "{read:?}");
    }
}
