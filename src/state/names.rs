//! Names of arguments, as recipes hold them. A policy has few lists of them, and every report and every verdict holds one: what is read is
//! looked up among the last ones read, and is the same list in memory.

use std::{cell::RefCell, collections::VecDeque, fmt, sync::Arc};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Lists that a thread remembers.
const LISTS_MAX: usize = 8;
/// A longer list is not remembered: no policy has one.
const NAMES_MAX: usize = 256;

thread_local! {
    static LISTS: RefCell<VecDeque<Arc<[String]>>> = const { RefCell::new(VecDeque::new()) };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names(pub(super) Arc<[String]>);

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        // What a length claims is not believed beyond what is ordinary.
        let mut names: Vec<&'de str> = Vec::with_capacity(list.size_hint().unwrap_or_default().min(NAMES_MAX));
        while let Some(name) = list.next_element()? {
            names.push(name);
        }
        Ok(Names(shared(&names)))
    }
}

/// The list of these names.
fn shared(names: &[&str]) -> Arc<[String]> {
    let new = || names.iter().map(|name| (*name).to_owned()).collect();
    if names.len() > NAMES_MAX {
        return new();
    }
    LISTS.with_borrow_mut(|lists| {
        if let Some(known) = lists.iter().find(|known| known.iter().map(String::as_str).eq(names.iter().copied())) {
            return Arc::clone(known);
        }
        if lists.len() >= LISTS_MAX {
            lists.pop_front();
        }
        let list: Arc<[String]> = new();
        lists.push_back(Arc::clone(&list));
        list
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str]) -> Names {
        let bytes = postcard::to_allocvec(names).unwrap();
        postcard::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn a_list_that_is_read_again_is_the_same_in_memory_and_as_many_are_remembered_as_are_ordinary() {
        let (one, two) = (read(&["path", "limit"]), read(&["path", "limit"]));
        assert!(Arc::ptr_eq(&one.0, &two.0) && *one.0 == ["path", "limit"]);
        assert_ne!(read(&["path"]), one);
        for number in 0..2 * LISTS_MAX {
            read(&[&number.to_string()]);
        }
        assert_eq!(LISTS.with_borrow(VecDeque::len), LISTS_MAX);
        assert_eq!(read(&["path", "limit"]), one);
        let long = vec!["x"; NAMES_MAX + 1];
        assert!(!Arc::ptr_eq(&read(&long).0, &read(&long).0));
    }

    #[test]
    fn a_list_is_written_as_a_list_of_texts() {
        let names = Names(["a".to_owned(), "b".to_owned()].into());
        assert_eq!(postcard::to_allocvec(&names).unwrap(), postcard::to_allocvec(&["a", "b"][..]).unwrap());
    }
}
