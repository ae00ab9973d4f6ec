//! What a sender may say: of which tenants, and whether his word stops agents or lifts blocks. A token has one, and a topic of Kafka.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::event::{ACTOR, Event, Reason, RecordMeta, Rejected, decode, json};
use loopwarden_core::limits::LABELS_MAX;
use loopwarden_core::whom::Kind;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// Tenants that somebody may speak for, or read of. The empty name stands for events of no tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tenants(Option<Arc<[String]>>);

impl Tenants {
    /// Every tenant, and none.
    pub const ALL: Self = Self(None);

    /// These alone.
    pub fn only(names: &[String]) -> Self {
        Self(Some(names.into()))
    }

    /// Whether these are all there are.
    pub const fn are_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a tenant is one of them.
    pub fn have(&self, tenant: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|name| name == tenant))
    }

    /// These, where they are not all.
    pub fn names(&self) -> Option<&[String]> {
        self.0.as_deref()
    }

    /// The tenant where it is the only one, and has a name.
    pub fn single(&self) -> Option<&str> {
        match self.0.as_deref() {
            Some([name]) if !name.is_empty() => Some(name),
            _ => None,
        }
    }
}

/// What a sender may say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Whom he may speak for.
    pub tenants: Tenants,
    /// Whether he may report what agents do.
    pub may_report: bool,
    /// Whether he may act as an operator: reset, stop, release.
    pub may_act: bool,
    /// The name that his acts get; without, they keep the one they come with.
    pub actor: Option<Arc<str>>,
}

/// Whether an event of this text is an act of an operator.
pub fn is_act(json: &str) -> bool {
    json::fields(json)
        .any(|(name, value)| name == "kind" && ["reset", "stop", "release", "answer"].contains(&&*json::unquote(value)))
}

impl Grant {
    /// An event as its sender may send it: as it is, or with what it gets. Read only where its text does not tell already.
    ///
    /// # Errors
    /// As [`Self::admit`], and why it is no event.
    pub fn admitted(&self, json: Vec<u8>, meta: &RecordMeta<'_>) -> Result<Vec<u8>, Rejected> {
        if self.takes_as_it_is(&json) {
            return Ok(json);
        }
        let written = self.admit(&decode(Some(&json), meta)?, &json, meta)?;
        Ok(written.unwrap_or(json))
    }

    /// Whether an event of this text goes in as it is, which can be told without decoding it.
    fn takes_as_it_is(&self, json: &[u8]) -> bool {
        let is_whole = self.tenants.are_all() && self.may_report;
        let is_act = || json::text(json).is_none_or(is_act);
        is_whole && (self.may_act && self.actor.is_none() || !is_act())
    }

    /// Whether an event is his to send. What is to be written instead of it, where that is not the event itself: one that names no
    /// tenant gets the only one of its sender, an act the name of whoever sent it, and a stop or release how far he reaches.
    ///
    /// # Errors
    /// [`Reason::NotPermitted`] at its kind, [`Reason::ForeignTenant`] at its tenant; what the event is with what it gets.
    pub fn admit(&self, event: &Event<'_>, json: &[u8], meta: &RecordMeta<'_>) -> Result<Option<Vec<u8>>, Rejected> {
        let is_act = event.kind.is_act();
        let actor = self.actor.as_ref().filter(|_| is_act);
        let may = if is_act { self.may_act } else { self.may_report };
        if !may {
            return Err(Rejected::at(Reason::NotPermitted, "kind"));
        }
        // What is about everybody names no tenant, and is for whoever may act for all of them.
        if event.kind.stop_scope() == Some(Kind::All) && !self.tenants.are_all() {
            return Err(Rejected::at(Reason::ForeignTenant, "scope"));
        }
        let tenant = match (&event.tenant, self.tenants.single()) {
            (None, Some(own)) => Some(own),
            (named, _) if self.tenants.have(named.as_deref().unwrap_or_default()) => None,
            _ => return Err(Rejected::at(Reason::ForeignTenant, "tenant")),
        };
        let is_narrow = event.kind.stop_scope().is_some() && !self.tenants.are_all();
        if tenant.is_none() && actor.is_none() && !is_narrow {
            return Ok(None);
        }
        let written = with(json, tenant, is_narrow, actor.map(AsRef::as_ref)).ok_or(Rejected::whole(Reason::NotJson))?;
        // As the engine will: nothing else may reach the log.
        decode(Some(&written), meta)?;
        Ok(Some(written))
    }
}

/// An event with a tenant, a reach, and the name of whoever acts. Other values stay as they were written: a number may have more digits than
/// any type. `None` where it is no object of JSON, which decoded events are.
fn with(json: &[u8], tenant: Option<&str>, is_narrow: bool, actor: Option<&str>) -> Option<Vec<u8>> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(json).ok()?;
    if let Some(tenant) = tenant {
        fields.insert("tenant".to_owned(), to_raw_value(tenant).ok()?);
    }
    if is_narrow {
        fields.insert("reach".to_owned(), to_raw_value("tenant").ok()?);
    }
    if let Some(actor) = actor {
        let given: Option<&RawValue> = fields.get("labels").map(AsRef::as_ref);
        let given: Map<String, Value> = given.and_then(|given| serde_json::from_str(given.get()).ok()).unwrap_or_default();
        // Of many labels some are not carried; this one is.
        let others = given.into_iter().filter(|(name, _)| name != ACTOR).take(LABELS_MAX - 1);
        let mut labels: Map<String, Value> = others.collect();
        labels.insert(ACTOR.to_owned(), actor.into());
        fields.insert("labels".to_owned(), to_raw_value(&labels).ok()?);
    }
    serde_json::to_vec(&fields).ok()
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::EventTime;
    use serde_json::json as value;

    use super::*;

    const BYTES_MAX: usize = 200;

    fn admitted(grant: &Grant, json: &str) -> Result<Option<Value>, String> {
        let meta = RecordMeta::without_place(EventTime(0), BYTES_MAX);
        let event = decode(Some(json.as_bytes()), &meta).unwrap();
        let admitted = grant.admit(&event, json.as_bytes(), &meta).map_err(|rejected| rejected.to_string())?;
        Ok(admitted.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
    }

    fn source(tenants: &[&str]) -> Grant {
        let names: Vec<String> = tenants.iter().map(|name| (*name).to_owned()).collect();
        Grant { tenants: Tenants::only(&names), may_report: true, may_act: false, actor: None }
    }

    fn call(tenant: &str) -> String {
        format!(r#"{{"id":"1","kind":"tool","session_id":"s","tool":"t"{tenant}}}"#)
    }

    const RESET: &str = r#"{"id":"1","kind":"reset","session_id":"s","labels":{"actor":"nobody","why":"x"}}"#;

    #[test]
    fn an_event_of_another_tenant_is_foreign_and_one_without_gets_the_only_one() {
        assert_eq!(admitted(&source(&["acme"]), &call(r#","tenant":"acme""#)), Ok(None));
        for absent in ["", r#","tenant":null"#] {
            assert_eq!(admitted(&source(&["acme"]), &call(absent)).unwrap().unwrap()["tenant"], "acme");
        }
        let foreign = Err("foreign_tenant at /tenant".to_owned());
        assert_eq!(admitted(&source(&["acme"]), &call(r#","tenant":"acme ""#)), foreign);
        assert_eq!(admitted(&source(&["acme", "globex"]), &call("")), foreign, "which of the two nobody knows");
        assert_eq!(admitted(&source(&[""]), &call("")), Ok(None));
        assert_eq!(admitted(&source(&[""]), &call(r#","tenant":"acme""#)), foreign);
        assert_eq!(admitted(&Grant { tenants: Tenants::ALL, ..source(&[]) }, &call(r#","tenant":"acme""#)), Ok(None));
    }

    #[test]
    fn what_an_event_gets_changes_nothing_else_of_it() {
        let long = call(r#","args":{"n":123456789012345678901234567890,"x":1.0}"#);
        let meta = RecordMeta::without_place(EventTime(0), BYTES_MAX);
        let event = decode(Some(long.as_bytes()), &meta).unwrap();
        let written = source(&["acme"]).admit(&event, long.as_bytes(), &meta).unwrap().unwrap();
        assert!(String::from_utf8(written).unwrap().contains(r#"{"n":123456789012345678901234567890,"x":1.0}"#));
    }

    #[test]
    fn a_reset_is_an_act_of_an_operator_and_has_his_name() {
        assert_eq!(admitted(&Grant { tenants: Tenants::ALL, ..source(&[]) }, RESET), Err("not_permitted at /kind".to_owned()));
        let operator = Grant { tenants: Tenants::ALL, may_report: false, may_act: true, actor: Some("alice".into()) };
        let reset = admitted(&operator, RESET).unwrap().unwrap();
        assert_eq!(reset["labels"], value!({ "actor": "alice", "why": "x" }), "whoever the event says it is");
        assert_eq!(admitted(&operator, &call("")), Err("not_permitted at /kind".to_owned()), "he reports nothing");
        let unnamed = Grant { actor: None, ..operator };
        assert_eq!(admitted(&unnamed, RESET), Ok(None), "it keeps what it says");
    }

    #[test]
    fn a_stop_is_an_act_too_and_one_of_all_is_for_who_has_all_tenants() {
        let stop =
            |more: &str| format!(r#"{{"id":"1","kind":"stop","scope":"all","until":"1970-01-01T01:00:00Z","reason":"r"{more}}}"#);
        let operator = |tenants| Grant { tenants, may_report: true, may_act: true, actor: Some("alice".into()) };
        assert_eq!(
            admitted(&Grant { may_act: false, ..operator(Tenants::ALL) }, &stop("")),
            Err("not_permitted at /kind".to_owned())
        );
        assert_eq!(admitted(&operator(Tenants::ALL), &stop("")).unwrap().unwrap()["labels"], value!({ "actor": "alice" }));
        for names in [vec![String::new()], vec!["acme".to_owned()]] {
            let all = admitted(&operator(Tenants::only(&names)), &stop(""));
            assert_eq!(all, Err("foreign_tenant at /scope".to_owned()), "{names:?}");
        }
        let session = stop("").replace(r#""all""#, r#""session","session_id":"s""#);
        let narrow = admitted(&operator(Tenants::only(&["acme".to_owned()])), &session).unwrap().unwrap();
        assert_eq!((&narrow["tenant"], &narrow["reach"]), (&value!("acme"), &value!("tenant")));
        let claimed = session.replace(r#""reason""#, r#""tenant":"acme","reach":"all","reason""#);
        let unnamed = Grant { actor: None, ..operator(Tenants::only(&["acme".to_owned()])) };
        assert_eq!(admitted(&unnamed, &claimed).unwrap().unwrap()["reach"], "tenant", "whatever it claims");
        assert!(is_act(&stop("")) && is_act(r#"{"kind":"rel\u0065ase"}"#) && !is_act(&call("")));
    }

    #[test]
    fn what_goes_in_as_it_is_is_no_reset_and_of_any_tenant() {
        let all = Grant { tenants: Tenants::ALL, ..source(&[]) };
        assert!(all.takes_as_it_is(call("").as_bytes()));
        for reset in [RESET, r#"{"k\u0069nd":"\u0072eset"}"#] {
            assert!(!all.takes_as_it_is(reset.as_bytes()), "{reset}");
            assert!(Grant { may_act: true, ..all.clone() }.takes_as_it_is(reset.as_bytes()));
        }
        assert!(!all.takes_as_it_is(b"\xff"));
        assert!(!source(&["acme"]).takes_as_it_is(call("").as_bytes()));
    }

    #[test]
    fn an_event_that_its_tenant_makes_too_large_is_rejected_for_that() {
        let long = call(&format!(r#","x":"{}""#, "y".repeat(BYTES_MAX - call("").len() - 7)));
        assert_eq!(long.len(), BYTES_MAX);
        assert_eq!(admitted(&source(&["acme"]), &long), Err("too_large".to_owned()));
    }
}
