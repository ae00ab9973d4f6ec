//! `[[token]]`: who may reach the listener, and for what.

use std::path::PathBuf;

use loopwarden_core::event::is_name;
use loopwarden_core::setting::{Maybe, Needed, settings};

use crate::messages::diagnostic::{BAD, Diagnostic};
use crate::process::kinds::{FilePath, Ruled};
use crate::{layers::file, process::rules};

/// Longest name: it is a label of commands, and stands in log lines.
const NAME_MAX: usize = 64;
/// What a token may be for.
const ROLES: [&str; 3] = ["source", "reader", "operator"];
/// Most tenants of one token.
const TENANTS_MAX: usize = 64;

settings! {
    /// `[[token]]`.
    pub struct TokenConfig {
        name: String = r#""ci-agents""#, Needed(Ruled(rules::plain_name::<NAME_MAX>)),
            "who it is: a reset has it as its label actor, and log lines name it";
        file: PathBuf = r#""/run/secrets/ci-agents-token""#, Needed(FilePath), "file with the bearer token";
        roles: String = r#""source""#, Needed(Ruled(roles)),
            "source, reader, operator, or some of them, separated by commas: reports and asks, reads, resets";
        tenants: Option<String> = r#""acme""#, Maybe(Ruled(tenants)),
            "these tenants only, separated by commas; empty: events of none; without: all of them, and what the whole process shows";
    }
}

/// The tenants in a list; none where there is no list: all of them.
pub(crate) fn tenants_in(list: Option<&str>) -> Option<Vec<String>> {
    list.map(|list| rules::listed(list).into_iter().map(str::to_owned).collect())
}

/// Roles of senders: no topic is read for somebody else.
pub(crate) fn sender_roles(list: &str) -> Result<String, Vec<String>> {
    match roles(list)? {
        list if rules::listed(&list).contains(&"reader") => {
            Err(vec![format!("is {list:?}, but must be source, operator, or both: records of a topic read nothing")])
        }
        list => Ok(list),
    }
}

pub(crate) fn roles(list: &str) -> Result<String, Vec<String>> {
    rules::words_of(list, &ROLES)
}

pub(crate) fn tenants(list: &str) -> Result<String, Vec<String>> {
    let tenants = rules::listed(list);
    if tenants.len() > TENANTS_MAX {
        return Err(vec![format!("holds {} tenants, but must not hold more than {TENANTS_MAX}", tenants.len())]);
    }
    match tenants.iter().find(|tenant| !tenant.is_empty() && !is_name(tenant)) {
        None => Ok(tenants.join(",")),
        Some(wrong) => {
            let shown: String = wrong.chars().take(64).filter(|letter| !letter.is_control()).collect();
            Err(vec![format!("holds {shown:?}, but must be names of tenants, separated by commas")])
        }
    }
}

impl TokenConfig {
    /// What it is for: `source`, `reader`, `operator`.
    pub fn roles(&self) -> Vec<&str> {
        rules::listed(&self.roles)
    }

    /// Its tenants; none: all of them.
    pub fn tenants(&self) -> Option<Vec<String>> {
        tenants_in(self.tenants.as_deref())
    }

    /// The token itself.
    ///
    /// # Errors
    /// As [`file::read_secret`].
    pub fn secret(&self, index: usize) -> Result<String, Diagnostic> {
        file::read_secret(&self.file, &format!("token[{index}].file"))
    }
}

/// What is wrong with a token that another one is equal to: nobody knows whose it is.
pub fn same_token(index: usize, other: &str) -> Diagnostic {
    let message = format!("token[{index}].file holds the same token as {other}, so that nobody knows whose it is");
    Diagnostic::new(BAD, message).help("give each its own, as from: openssl rand -hex 32")
}
