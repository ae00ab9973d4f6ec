//! Who is meant: by a stop, by a budget, by a command, in a state row.
//!
//! A [`Whom`] names agents that are meant together. A [`Who`] is one agent by all that it may be meant by: that of an event, of a stored
//! head, of a check at a guard. Whether something binds an agent is decided in one place, [`Who::all`].

use std::borrow::Cow;

use crate::limits::NAME_CHARS_MAX;

/// The agent of a session that names none.
pub const MAIN_AGENT: &str = "main";
/// Record key of what is about everybody: no name, since none is needed.
pub const ALL_KEY: &str = "*";

/// What agents that are meant together have in common; all kinds but the last are within one tenant. In order, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One session, with all of its agents.
    Session,
    /// The id of the agent, in whatever session.
    Agent,
    /// The root that started them, itself or through others; it is among them.
    Tree,
    /// The swarm that their sessions share.
    Swarm,
    /// A label of their events; the name is `key=value`.
    Label,
    /// The tenant; the name is empty.
    Tenant,
    /// Every agent of every tenant; the name is empty.
    All,
}

impl Kind {
    /// Every kind, the narrowest first.
    pub const ALL: [Self; 7] = [Self::Session, Self::Agent, Self::Tree, Self::Swarm, Self::Label, Self::Tenant, Self::All];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Tree => "tree",
            Self::Swarm => "swarm",
            Self::Label => "label",
            Self::Tenant => "tenant",
            Self::All => "all",
        }
    }

    /// The kind that a word on the wire stands for.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The field of requests and rows that holds the name; none where the kind is enough, within its tenant.
    #[must_use]
    pub const fn field(self) -> Option<&'static str> {
        match self {
            Self::Session => Some("session_id"),
            Self::Agent => Some("agent_id"),
            Self::Tree => Some("root_id"),
            Self::Swarm => Some("swarm_id"),
            Self::Label => Some("label"),
            Self::Tenant | Self::All => None,
        }
    }

    /// Whether those of the kind are all within one tenant.
    #[must_use]
    pub const fn is_in_tenant(self) -> bool {
        !matches!(self, Self::All)
    }

    /// Whether operators stop by it: which labels an agent has is known of its events alone.
    #[must_use]
    pub const fn can_stop(self) -> bool {
        !matches!(self, Self::Label)
    }

    /// Whether budgets add up by the kind alone: a label has a key beside it, and the windows of a session are those of its own.
    #[must_use]
    pub const fn can_add_up(self) -> bool {
        !matches!(self, Self::Session | Self::Label | Self::All)
    }

    /// Those of the kind, as a text names them to one of them.
    #[must_use]
    pub const fn these(self) -> &'static str {
        match self {
            Self::Session => "this session",
            Self::Agent => "this agent",
            Self::Tree => "this agent and all that it started",
            Self::Swarm => "this swarm",
            Self::Label => "those with this label",
            Self::Tenant => "this tenant",
            Self::All => "everybody",
        }
    }

    /// The kinds by which operators stop, the narrowest first.
    pub fn stopped() -> impl Iterator<Item = Self> + Clone {
        Self::ALL.into_iter().filter(|kind| kind.can_stop())
    }
}

/// Agents that are meant together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whom {
    /// Name of the tenant; empty: of none, or of all.
    pub tenant: String,
    pub kind: Kind,
    /// Empty where the kind is enough.
    pub name: String,
}

impl Whom {
    /// Those of that kind and name in a tenant; a name that the kind does not need is left out.
    #[must_use]
    pub fn new(tenant: &str, kind: Kind, name: &str) -> Self {
        let name = if kind.field().is_some() { name } else { "" };
        Self { tenant: tenant.to_owned(), kind, name: name.to_owned() }
    }

    /// Those whose events have a label; none where the value cannot be part of a key.
    #[must_use]
    pub fn label(tenant: &str, key: &str, value: &str) -> Option<Self> {
        Some(Self { tenant: tenant.to_owned(), kind: Kind::Label, name: label_name(key, value)? })
    }

    /// Key of the records about them: all of these go to one partition.
    #[must_use]
    pub fn record_key(&self) -> &str {
        match self.kind {
            Kind::Tenant => &self.tenant,
            Kind::All => ALL_KEY,
            _ => &self.name,
        }
    }
}

/// One agent, by all that it may be meant by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Who<'a> {
    /// Name of the tenant; an empty one is none.
    pub tenant: &'a str,
    pub session_id: &'a str,
    pub agent_id: &'a str,
    /// Empty: it is in no swarm.
    pub swarm_id: &'a str,
    /// The tree that it has a place in, by the name of its root; none: its session is a tree by itself.
    pub tree: Option<&'a str>,
    /// None where they are not known, as of a stored session.
    pub labels: Option<&'a [(Cow<'a, str>, Cow<'a, str>)]>,
}

impl<'a> Who<'a> {
    /// Everybody that it is among, the narrowest first: what is in force for one of these binds it, and nothing else does.
    pub fn all(self) -> impl Iterator<Item = Whom> {
        let of = move |kind: Kind| self.names(kind).map(move |name| Whom::new(self.tenant_by(kind), kind, &name));
        Kind::ALL.into_iter().flat_map(of)
    }

    /// Whether it is among them.
    #[must_use]
    pub fn is(&self, whom: &Whom) -> bool {
        self.tenant_by(whom.kind) == whom.tenant && self.names(whom.kind).any(|name| name == whom.name)
    }

    /// Its own name of a kind, where it has just one: that by which it is added up.
    #[must_use]
    pub fn own(&self, kind: Kind) -> Option<&'a str> {
        match kind {
            Kind::Session => Some(self.session_id),
            Kind::Agent => Some(self.agent_id),
            Kind::Tree => self.tree,
            Kind::Swarm => Some(self.swarm_id).filter(|swarm_id| !swarm_id.is_empty()),
            Kind::Label => None,
            Kind::Tenant | Kind::All => Some(""),
        }
    }

    /// Its names of a kind.
    fn names(self, kind: Kind) -> impl Iterator<Item = Cow<'a, str>> {
        let (first, second) = if kind == Kind::Tree {
            // Beside its own that of the agents that it started, which name it as their parent.
            let tree = self.tree.unwrap_or(self.session_id);
            (Some(tree), (self.agent_id != MAIN_AGENT && self.agent_id != tree).then_some(self.agent_id))
        } else {
            (self.own(kind), None)
        };
        let labels = self.labels.filter(|_| kind == Kind::Label).unwrap_or_default();
        let named = labels.iter().filter_map(|(key, value)| label_name(key, value)).map(Cow::Owned);
        first.into_iter().chain(second).map(Cow::Borrowed).chain(named)
    }

    /// The tenant of those of a kind.
    const fn tenant_by(&self, kind: Kind) -> &'a str {
        if kind.is_in_tenant() { self.tenant } else { "" }
    }
}

fn label_name(key: &str, value: &str) -> Option<String> {
    let name = format!("{key}={value}");
    is_name(&name).then_some(name)
}

/// Whether an event may have this name: a session, agent, swarm or tenant, an id. 1 to [`NAME_CHARS_MAX`] characters, none of them a control
/// character: these separate the parts of keys.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_short = text.len() <= NAME_CHARS_MAX || text.chars().nth(NAME_CHARS_MAX).is_none();
    !text.is_empty() && is_short && !text.bytes().any(|byte| byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(who: &Who<'_>) -> Vec<String> {
        who.all().map(|whom| format!("{}/{}/{}", whom.tenant, whom.kind.as_str(), whom.name)).collect()
    }

    #[test]
    fn an_agent_is_meant_by_all_that_it_is_the_narrowest_first() {
        let labels = [("team".into(), "a".into()), ("note".into(), "\u{1f}".into())];
        let who = Who { tenant: "t", session_id: "s", agent_id: "x", swarm_id: "w", tree: Some("r"), labels: Some(&labels) };
        let expected = ["t/session/s", "t/agent/x", "t/tree/r", "t/tree/x", "t/swarm/w", "t/label/team=a", "t/tenant/", "/all/"];
        assert_eq!(words(&who), expected);
        let kinds: Vec<Kind> = who.all().map(|whom| whom.kind).collect();
        assert!(kinds.is_sorted() && Kind::ALL.is_sorted());
        assert!(who.all().all(|whom| who.is(&whom)));
    }

    #[test]
    fn an_agent_is_nobody_else() {
        let who = Who { tenant: "t", session_id: "s", agent_id: MAIN_AGENT, ..Who::default() };
        assert_eq!(words(&who), ["t/session/s", "t/agent/main", "t/tree/s", "t/tenant/", "/all/"]);
        for kind in Kind::ALL {
            assert!(!who.is(&Whom::new("u", kind, "s")), "{kind:?} of another tenant");
            assert_eq!(who.is(&Whom::new("t", kind, "other")), kind == Kind::Tenant, "{kind:?} of another name");
        }
        assert!(!who.is(&Whom::new("t", Kind::Swarm, "")), "in no swarm");
        let root = Who { agent_id: "r", tree: Some("r"), ..who };
        assert_eq!(words(&root).iter().filter(|word| word.starts_with("t/tree/")).count(), 1, "a root starts its own tree");
    }

    #[test]
    fn each_kind_has_a_word_and_a_record_key_of_its_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.as_str()), Some(kind));
            let key = Whom::new("t", kind, "n").record_key().to_owned();
            assert_eq!(
                key,
                match kind {
                    Kind::Tenant => "t",
                    Kind::All => "*",
                    _ => "n",
                }
            );
        }
        assert_eq!(Kind::from_name("galaxy"), None);
    }
}
