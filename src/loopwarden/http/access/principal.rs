//! Who asks, and what he may: shown by a token or a link, or by being a program of this process's own user.

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use loopwarden_core::event::{EventTime, Reason, RecordMeta, Rejected, decode};
use loopwarden_guard::{BadCheck, Check};
use loopwarden_sources::{Batch, Grant, Made, Refused, Tenants, is_act};
use loopwarden_webhook::{AnswerKind, LinkKey};
use serde_json::value::RawValue;
use subtle::ConstantTimeEq as _;

/// The secret that opens admin and api routes to other hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; an empty one opens nothing.
    pub const fn new(secret: String) -> Self {
        Self(secret)
    }

    /// Whether this is the token, in a time that depends on the lengths only.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        !own.is_empty() && own.ct_eq(given).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// Whose requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purse {
    /// Programs of this host that need no token.
    Local,
    /// Whoever shows this token, by its place in the list.
    Token(usize),
    /// Whoever comes from this address and shows nothing.
    Stranger(IpAddr),
}

/// What the links of one webhook may do.
#[derive(Debug, Clone, Default)]
pub struct LinkRights {
    pub answers: Vec<AnswerKind>,
    /// Its only tenant; none: all of them.
    pub tenant: Option<String>,
}

/// Which links are taken, by their secret and their webhooks.
#[derive(Debug, Clone)]
pub struct AnswerLinks {
    pub key: LinkKey,
    /// By the name of the webhook. What is not there any more has no links any more.
    pub webhooks: BTreeMap<String, LinkRights>,
}

/// What somebody may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reports what agents do, and asks for them.
    Source = 1,
    /// Reads commands, state and events.
    Reader = 2,
    /// Resets, stops and releases, and rules the process.
    Operator = 4,
}

/// Some roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// All there are.
    pub const ALL: Self = Self::of(&[Role::Source, Role::Reader, Role::Operator]);

    /// These roles.
    #[must_use]
    pub const fn of(roles: &[Role]) -> Self {
        let (mut bits, mut rest) = (0, roles);
        while let [first, others @ ..] = rest {
            bits |= *first as u8;
            rest = others;
        }
        Self(bits)
    }

    /// Roles by their words, as `[[token]]` has them; words that are none add nothing.
    #[must_use]
    pub fn named(words: &[&str]) -> Self {
        let role = |word: &&str| match *word {
            "source" => Some(Role::Source),
            "reader" => Some(Role::Reader),
            "operator" => Some(Role::Operator),
            _ => None,
        };
        Self(words.iter().filter_map(role).fold(0, |bits, role| bits | role as u8))
    }

    /// Whether any role is in both.
    #[must_use]
    pub const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Their words, for people.
    pub(crate) fn words(self) -> String {
        let all = [(Role::Source, "source"), (Role::Reader, "reader"), (Role::Operator, "operator")];
        let own: Vec<&str> = all.iter().filter(|(role, _)| self.meet(Self::of(&[*role]))).map(|(_, word)| *word).collect();
        own.join(" or ")
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    /// For people: what an act is labelled with.
    pub(crate) name: Arc<str>,
    pub(crate) roles: Roles,
    pub(crate) tenants: Tenants,
    pub(crate) purse: Purse,
}

impl Principal {
    /// A program of this host that needs no token: it may do everything.
    pub(crate) fn local(uid: Option<u32>) -> Self {
        let name = uid.map_or_else(|| "local".to_owned(), |uid| format!("uid-{uid}"));
        Self { name: name.into(), roles: Roles::ALL, tenants: Tenants::ALL, purse: Purse::Local }
    }

    /// What it may say. Its acts have its name.
    pub(crate) fn grant(&self) -> Grant {
        Grant {
            tenants: self.tenants.clone(),
            may_report: self.roles.meet(Roles::of(&[Role::Source])),
            may_act: self.roles.meet(Roles::of(&[Role::Operator])),
            actor: Some(Arc::clone(&self.name)),
        }
    }

    /// The tenant that a request is about: the one it names, else the only one of whoever asks. `None`: it is not his.
    pub(crate) fn tenant(&self, named: Option<String>) -> Option<String> {
        let tenant = named.or_else(|| self.tenants.single().map(str::to_owned)).unwrap_or_default();
        self.tenants.have(&tenant).then_some(tenant)
    }

    /// A check with its event as whoever asks may say it. An agent asks, whoever lends it his token: no act is taken here.
    ///
    /// # Errors
    /// The event is none, or not his.
    pub(crate) fn admit_check(&self, check: Check, now: EventTime, event_bytes_max: usize) -> Result<Check, BadCheck> {
        let text = check.event.get();
        if is_act(text) {
            return Err(Rejected::at(Reason::NotPermitted, "kind").into());
        }
        if self.tenants.are_all() {
            return Ok(check);
        }
        let meta = RecordMeta::without_place(now, event_bytes_max);
        let event = decode(Some(text.as_bytes()), &meta)?;
        let Some(written) = self.grant().admit(&event, text.as_bytes(), &meta)? else { return Ok(check) };
        // It was written as JSON, which is UTF-8.
        let written = String::from_utf8(written).unwrap_or_default();
        let event = RawValue::from_string(written).map_err(|_| Rejected::whole(Reason::NotJson))?;
        Ok(Check { event, ..check })
    }

    /// Takes out of a batch what its sender may not say, and completes the rest.
    pub(crate) fn admit_batch(&self, batch: &mut Batch, now: EventTime, event_bytes_max: usize) {
        let grant = self.grant();
        let meta = RecordMeta::without_place(now, event_bytes_max);
        for made in std::mem::take(&mut batch.events) {
            match grant.admitted(made.json, &meta) {
                Ok(json) => batch.events.push(Made { json, ..made }),
                // Which record of the body it was nobody knows any more: events are sorted by time.
                Err(rejected) => batch.refused.push(Refused { index: batch.records, rejected }),
            }
        }
    }
}

/// Everybody who shows himself by a token.
#[derive(Debug, Clone, Default)]
pub struct Principals(Vec<(Token, Principal)>);

impl Principals {
    /// Adds a token. False: another one is equal to it.
    pub fn add(&mut self, token: Token, name: &str, roles: Roles, tenants: Option<&[String]>) -> bool {
        if self.0.iter().any(|(known, _)| *known == token) {
            return false;
        }
        let tenants = tenants.map_or(Tenants::ALL, Tenants::only);
        let purse = Purse::Token(self.0.len());
        self.0.push((token, Principal { name: name.into(), roles, tenants, purse }));
        true
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody can show himself.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token it is, in a time that does not depend on which.
    pub(crate) fn of(&self, given: &[u8]) -> Option<&Principal> {
        self.0.iter().fold(None, |found, (token, principal)| if token.is(given) { Some(principal) } else { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(secret: &str) -> Token {
        Token::new(secret.to_owned())
    }

    #[test]
    fn each_token_is_its_own_and_two_that_are_equal_are_refused() {
        let mut principals = Principals::default();
        assert!(principals.add(token("one"), "a", Roles::named(&["source"]), Some(&["acme".to_owned()])));
        assert!(principals.add(token("two"), "b", Roles::named(&["reader", "operator"]), None));
        assert!(!principals.add(token("one"), "c", Roles::ALL, None));
        let found = |secret: &[u8]| principals.of(secret).map(|principal| principal.name.to_string());
        assert_eq!([found(b"one"), found(b"two"), found(b"on"), found(b"")], [Some("a".into()), Some("b".into()), None, None]);
        let roles = principals.of(b"two").unwrap().roles;
        assert!(roles.meet(Roles::of(&[Role::Reader])) && !roles.meet(Roles::of(&[Role::Source])));
        assert_eq!(roles.words(), "reader or operator");
    }

    #[test]
    fn whoever_has_one_tenant_need_not_name_it_and_cannot_name_another() {
        let of = |tenants: &[&str]| {
            let names: Vec<String> = tenants.iter().map(|name| (*name).to_owned()).collect();
            Principal { tenants: Tenants::only(&names), ..Principal::local(None) }
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(of(&["acme"]).tenant(None), named("acme"));
        assert_eq!(of(&["acme"]).tenant(named("globex")), None);
        assert_eq!(of(&["acme", "globex"]).tenant(None), None);
        assert_eq!(Principal::local(Some(0)).tenant(None), named(""));
    }
}
