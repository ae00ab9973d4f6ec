//! A JSON object of an agent, its members unread. What has another type than expected counts as absent.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

/// Members by name; of equal names the last one.
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    /// Reads a text; `None` where it is no object.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// A member as it was written; null is absent.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|value| value.get() != "null")
    }

    /// The first of several spellings that is there.
    pub(crate) fn raw_of(&self, names: &[&str]) -> Option<&'a RawValue> {
        names.iter().find_map(|name| self.raw(name))
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.raw(name)?).filter(|text| !text.is_empty())
    }

    /// The first of several spellings that is a text.
    pub(crate) fn text_of(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        names.iter().find_map(|name| self.text(name))
    }

    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        Self::read(self.raw(name)?.get())
    }

    /// Whether a member is true.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.raw(name).is_some_and(|value| value.get() == "true")
    }

    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// A number that is none below 0.
    pub(crate) fn amount(&self, name: &str) -> Option<f64> {
        serde_json::from_str(self.raw(name)?.get()).ok().filter(|number| *number >= 0.0)
    }

    /// The object without some of its members.
    pub(crate) fn without(mut self, names: &[&str]) -> Option<Box<RawValue>> {
        self.0.retain(|name, _| !names.contains(&name.as_str()));
        serde_json::value::to_raw_value(&self.0).ok()
    }
}

/// A text; `None` for any other value.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    match serde_json::from_str::<&str>(value.get()) {
        Ok(plain) => Some(Cow::Borrowed(plain)),
        // With escapes it cannot be lent.
        Err(_) => serde_json::from_str(value.get()).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_another_type_is_absent() {
        let object = Object::read(r#"{"a":1,"b":"","c":null,"d":"x\ny","e":{"f":true},"g":-1.5,"a":2}"#).unwrap();
        assert_eq!((object.integer("a"), object.text("a"), object.object("a").is_none()), (Some(2), None, true));
        assert_eq!((object.text("b"), object.raw("c").is_none(), object.text("d").as_deref()), (None, true, Some("x\ny")));
        assert!(object.object("e").unwrap().is_true("f"));
        assert_eq!((object.amount("g"), object.amount("a")), (None, Some(2.0)));
        assert_eq!(object.text_of(&["z", "b", "d"]).as_deref(), Some("x\ny"));
        assert!(Object::read("[]").is_none() && Object::read("{").is_none());
    }

    #[test]
    fn what_is_left_out_is_gone_and_the_rest_is_as_it_was() {
        let left = Object::read(r#"{"n":9007199254740993.0,"kind":"x","p":"a"}"#).unwrap().without(&["kind"]).unwrap();
        assert_eq!(left.get(), r#"{"n":9007199254740993.0,"p":"a"}"#);
    }
}
