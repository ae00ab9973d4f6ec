//! Parameters and names in an address. What nobody knows is refused: whoever asks for the blocks of a misspelt tenant would be told of none,
//! and take that for leave to go on.

use std::collections::BTreeMap;

use axum::extract::Query;
use loopwarden_core::{event::is_name, limits};

/// The parameters of a request, as they stand in its address.
pub(crate) type Pairs = Query<Vec<(String, String)>>;

/// The parameters of a request, each of them known and given once.
#[derive(Debug)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Takes those that a route knows; what is wrong with another one, or with a name, is the error.
    pub(crate) fn of(pairs: &[(String, String)], known: &[&str]) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for (name, value) in pairs {
            if !known.contains(&name.as_str()) {
                return Err(format!("unknown parameter {name:?}; known: {}", known.join(", ")));
            }
            if ["session_id", "swarm_id", "tenant"].contains(&name.as_str()) && !(name == "tenant" && value.is_empty()) {
                checked_name(name, value)?;
            }
            if found.insert(name.clone(), value.clone()).is_some() {
                return Err(format!("parameter {name:?} is given twice"));
            }
        }
        Ok(Self(found))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// A name that an event can have.
pub(crate) fn checked_name(what: &str, name: &str) -> Result<(), String> {
    let length = limits::NAME_CHARS_MAX;
    is_name(name).then_some(()).ok_or_else(|| format!("{what} is a name of 1 to {length} characters without control characters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> Result<Parameters, String> {
        let pairs: Vec<(String, String)> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Parameters::of(&pairs, &["tenant", "steps"])
    }

    #[test]
    fn what_is_not_known_given_twice_or_no_name_is_refused() {
        let parameters = told(&[("tenant", "acme"), ("steps", "3")]).unwrap();
        assert_eq!((parameters.get("tenant"), parameters.get("steps")), (Some("acme"), Some("3")));
        assert_eq!(told(&[("tenant", "")]).unwrap().get("tenant"), Some(""));
        assert!(told(&[("tennant", "acme")]).unwrap_err().contains("known: tenant, steps"));
        assert!(told(&[("tenant", "acme"), ("tenant", "x")]).unwrap_err().contains("twice"));
        assert!(told(&[("tenant", "a\u{1f}b")]).unwrap_err().contains("control characters"));
    }
}
