//! Steps of sessions, in pages of a few slots of the ring each. Written for every event, so every byte counts: absent hashes and texts
//! cost one byte, the sequence none (the head and the slot give it).
//!
//! A record costs a client and a store far more than its bytes do. One for each step is dear where a session has many in a commit; one for
//! the whole ring where it has a single one. A page is written as a whole when one of its steps has changed. The newest steps lie in the head,
//! which is written anyway, and move into their page four at a time: most events cost one record.

use std::borrow::Cow;

use loopwarden_core::detect::{DetectorBits, Evidence, Facts, Flags, Hashed, Marks, Step};
use loopwarden_core::identity::{Signature, Sketch};
use loopwarden_core::{engine::SEPARATOR, event::EventTime};
use serde::{Deserialize, Serialize};

use crate::codec::{pack64, pack128, unpack64, unpack128};
use crate::{KeyFamily, StateKey, StoreError, codec};

pub const PAGE_SLOTS: u16 = 8;
/// Slots that lie in the head together; divides [`PAGE_SLOTS`]. More would save records where a session has many steps in a commit, and
/// write the same steps again and again where it has one.
const GROUP_SLOTS: u16 = 4;

pub const fn page_of(slot: u16) -> u16 {
    slot / PAGE_SLOTS
}

pub(super) fn slots_of_page(page: u16) -> impl Iterator<Item = u16> {
    (0..PAGE_SLOTS).map(move |at| page * PAGE_SLOTS + at)
}

pub(super) const fn group_of(slot: u16) -> u16 {
    slot / GROUP_SLOTS
}

pub(super) fn slots_of_group(group: u16) -> impl Iterator<Item = u16> {
    (0..GROUP_SLOTS).map(move |at| group * GROUP_SLOTS + at)
}

pub(super) const fn page_of_group(group: u16) -> u16 {
    group / (PAGE_SLOTS / GROUP_SLOTS)
}

/// What the keys of a session's pages begin with: the head's key and U+001F.
pub fn prefix(session_key: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(session_key.len() + 3);
    prefix.extend_from_slice(session_key);
    prefix.push(SEPARATOR as u8);
    prefix
}

/// Key of a page: the head's key, U+001F, page (2 bytes, big endian).
pub fn key(session_key: &[u8], page: u16) -> StateKey {
    let mut bytes = prefix(session_key);
    bytes.extend_from_slice(&page.to_be_bytes());
    StateKey::new(KeyFamily::Page, bytes)
}

/// The page in a key; `None` where something else follows the prefix.
pub fn page_in(key: &[u8], prefix: &[u8]) -> Option<u16> {
    let page: &[u8; 2] = key.strip_prefix(prefix)?.try_into().ok()?;
    Some(u16::from_be_bytes(*page))
}

/// Bytes that a page of ordinary steps has room in, and so a head with its newest ones: growing byte by byte would cost more than
/// encoding.
const PAGE_BYTES: usize = 1_024;

#[derive(Serialize, Deserialize)]
struct StoredStep<'a> {
    time: i64,
    turn: u64,
    flags: u32,
    fired: DetectorBits,
    call: Option<[u8; 16]>,
    fingerprint: Option<[u8; 16]>,
    read_target: Option<[u8; 8]>,
    outcome: Option<[u8; 8]>,
    state: Option<[u8; 8]>,
    error: Option<[u8; 8]>,
    call_id: Option<[u8; 8]>,
    event: Option<[u8; 8]>,
    result_event: Option<[u8; 8]>,
    tool: &'a str,
    event_id: &'a str,
    #[serde(with = "differences")]
    tokens: Cow<'a, [u32]>,
    excerpt: &'a str,
    evidence: Option<StoredEvidence<'a>>,
}

/// Sorted numbers as the difference of each to the one before: small numbers are short.
mod differences {
    use std::borrow::Cow;

    use serde::ser::SerializeSeq as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(numbers: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(numbers.len()))?;
        let mut before = 0;
        for number in numbers {
            list.serialize_element(&number.wrapping_sub(before))?;
            before = *number;
        }
        list.end()
    }

    pub(super) fn deserialize<'de, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, [u32]>, D::Error> {
        let mut numbers = Vec::deserialize(deserializer)?;
        let mut before = 0_u32;
        for number in &mut numbers {
            before = before.wrapping_add(*number);
            *number = before;
        }
        Ok(Cow::Owned(numbers))
    }
}

/// Evidence of a step, and what it names and shows.
#[derive(Serialize, Deserialize)]
struct StoredEvidence<'a> {
    #[serde(with = "differences")]
    arguments: Cow<'a, [u32]>,
    #[serde(with = "differences")]
    values: Cow<'a, [u32]>,
    #[serde(with = "differences")]
    answer: Cow<'a, [u32]>,
    #[serde(with = "differences")]
    failure: Cow<'a, [u32]>,
    #[serde(with = "differences")]
    own: Cow<'a, [u32]>,
    news: u8,
    marks: u16,
    asked: Cow<'a, [u16]>,
    shown: Cow<'a, [u16]>,
    around_numbers: u32,
    facts: u64,
}

impl<'a> StoredEvidence<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        Self {
            arguments: Cow::Borrowed(evidence.arguments().hashes()),
            values: Cow::Borrowed(evidence.values()),
            answer: Cow::Borrowed(evidence.answer().hashes()),
            failure: Cow::Borrowed(evidence.failure().hashes()),
            own: Cow::Borrowed(evidence.own()),
            news: evidence.news,
            marks: evidence.marks.bits(),
            asked: Cow::Borrowed(evidence.asked()),
            shown: Cow::Borrowed(evidence.shown()),
            around_numbers: evidence.around_numbers,
            facts: evidence.facts.0,
        }
    }

    fn into_evidence(self) -> Evidence {
        let [arguments, answer, failure] =
            [self.arguments, self.answer, self.failure].map(|hashes| Sketch::of_hashes(hashes.into_owned()));
        let hashed = Hashed {
            arguments: arguments.view(),
            values: &self.values,
            answer: answer.view(),
            failure: failure.view(),
            asked: &self.asked,
            shown: &self.shown,
            own: &self.own,
            around_numbers: self.around_numbers,
        };
        let mut evidence = Evidence::new(hashed, self.news, Marks::from_bits_retain(self.marks));
        evidence.facts = Facts(self.facts);
        evidence
    }
}

impl<'a> StoredStep<'a> {
    fn of(step: &'a Step, tool: &'a str) -> Self {
        Self {
            time: step.time.0,
            turn: step.turn,
            flags: step.flags.bits(),
            fired: step.fired,
            call: pack128(step.call),
            fingerprint: pack128(step.fingerprint),
            read_target: pack64(step.read_target),
            outcome: pack64(step.outcome),
            state: pack64(step.state),
            error: pack64(step.error),
            call_id: pack64(step.call_id),
            event: pack64(step.event),
            result_event: pack64(step.result_event),
            tool,
            event_id: &step.event_id,
            tokens: Cow::Borrowed(&step.tokens.0),
            excerpt: &step.excerpt,
            evidence: step.evidence.as_ref().map(StoredEvidence::of),
        }
    }

    fn into_step(self) -> (Step, Box<str>) {
        let step = Step {
            time: EventTime(self.time),
            turn: self.turn,
            flags: Flags::from_bits_retain(self.flags),
            fired: self.fired,
            call: unpack128(self.call),
            fingerprint: unpack128(self.fingerprint),
            read_target: unpack64(self.read_target),
            outcome: unpack64(self.outcome),
            state: unpack64(self.state),
            error: unpack64(self.error),
            call_id: unpack64(self.call_id),
            event: unpack64(self.event),
            result_event: unpack64(self.result_event),
            event_id: self.event_id.into(),
            tokens: Signature(self.tokens.into_owned().into_boxed_slice()),
            excerpt: self.excerpt.into(),
            evidence: self.evidence.map(StoredEvidence::into_evidence),
            ..Step::default()
        };
        (step, self.tool.into())
    }
}

/// A value that steps are to lie in: its format, and room for what follows.
pub(super) fn begin() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    bytes.push(codec::FORMAT);
    bytes
}

/// Bytes of a page: for each step its slot and what it holds. The tool's name is in it; the sequence is not.
///
/// # Errors
/// As [`codec::encode`].
pub fn encode_page<'a>(steps: impl Iterator<Item = (u16, &'a Step, &'a str)>) -> Result<Vec<u8>, StoreError> {
    append(begin(), steps)
}

/// Writes the steps of one page behind what is there.
pub(super) fn append<'a>(
    mut bytes: Vec<u8>,
    steps: impl Iterator<Item = (u16, &'a Step, &'a str)>,
) -> Result<Vec<u8>, StoreError> {
    for (slot, step, tool) in steps {
        bytes.push((slot % PAGE_SLOTS) as u8);
        bytes = codec::append(bytes, &StoredStep::of(step, tool))?;
    }
    Ok(bytes)
}

/// A step as it was read: its slot, itself, and the name of its tool. Its sequence is 0: it follows from the slot.
pub type FoundStep = (u16, Step, Box<str>);

/// Reads a page.
///
/// # Errors
/// As [`codec::decode`].
pub fn decode_page(page: u16, bytes: &[u8]) -> Result<Vec<FoundStep>, StoreError> {
    read(page, codec::body(KeyFamily::Page.as_str(), bytes)?)
}

/// Reads the steps of a page, to the last byte.
pub(super) fn read(page: u16, mut rest: &[u8]) -> Result<Vec<FoundStep>, StoreError> {
    let mut steps = Vec::with_capacity(usize::from(PAGE_SLOTS));
    while let Some((slot, body)) = rest.split_first() {
        let slot = u16::from(*slot);
        if slot >= PAGE_SLOTS || steps.len() >= usize::from(PAGE_SLOTS) {
            return Err(StoreError::Corrupt("page: a slot that is not of it".to_owned()));
        }
        let (stored, after) = codec::take::<StoredStep<'_>>(KeyFamily::Page.as_str(), body)?;
        let (step, tool) = stored.into_step();
        steps.push((page.saturating_mul(PAGE_SLOTS).saturating_add(slot), step, tool));
        rest = after;
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use loopwarden_core::identity::{Hash64, Hash128};
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn steps()(
            (time, turn, flags, fired) in any::<(i64, u64, u32, DetectorBits)>(),
            (call, fingerprint) in (maybe(any::<u128>()), maybe(any::<u128>())),
            hashes in proptest::collection::vec(maybe(any::<u64>()), 7),
            (event_id, excerpt) in any::<(String, String)>(),
            mut tokens in proptest::collection::vec(any::<u32>(), 0..64),
            evidence in proptest::option::of(evidence()),
        ) -> Step {
            tokens.sort_unstable();
            Step {
                sequence: 0, time: EventTime(time), turn, flags: Flags::from_bits_retain(flags), fired,
                call: Hash128(call), fingerprint: Hash128(fingerprint),
                read_target: Hash64(hashes[0]), outcome: Hash64(hashes[1]), state: Hash64(hashes[2]), error: Hash64(hashes[3]),
                call_id: Hash64(hashes[4]), event: Hash64(hashes[5]), result_event: Hash64(hashes[6]),
                event_id: event_id.into(), excerpt: excerpt.into(), tokens: Signature(tokens.into()),
                evidence,
                ..Step::default()
            }
        }
    }

    prop_compose! {
        fn evidence()(
            sketches in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..40), 3),
            lists in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..40), 2),
            (news, marks, around_numbers, facts) in any::<(u8, u16, u32, u64)>(),
            (asked, shown) in any::<([u16; 7], [u16; 30])>(),
            words in 0..7_usize,
        ) -> Evidence {
            let [arguments, answer, failure] = [0, 1, 2].map(|at| Sketch::of_hashes(sketches[at].clone()));
            let hashed = Hashed { arguments: arguments.view(), values: &lists[0], answer: answer.view(), failure: failure.view(), asked: &asked[..words], shown: &shown[words..], own: &lists[1], around_numbers };
            let mut evidence = Evidence::new(hashed, news, Marks::from_bits_retain(marks));
            evidence.facts = Facts(facts);
            evidence
        }
    }

    fn maybe<T: std::fmt::Debug + Default + Clone + 'static>(
        some: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = T> {
        prop_oneof![Just(T::default()), some]
    }

    proptest! {
        #[test]
        fn a_page_reads_back(found in proptest::collection::vec(steps(), 0..=usize::from(PAGE_SLOTS)), page in 0u16..8_000, tool in any::<String>()) {
            let slots = |at: usize| page * PAGE_SLOTS + at as u16;
            let bytes = encode_page(found.iter().enumerate().map(|(at, step)| (slots(at), step, tool.as_str()))).unwrap();
            let expected: Vec<_> = found.into_iter().enumerate().map(|(at, step)| (slots(at), step, tool.as_str().into())).collect();
            prop_assert_eq!(decode_page(page, &bytes).unwrap(), expected);
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), page in any::<u16>()) {
            if let Some(version) = bytes.first_mut() {
                *version = codec::FORMAT;
            }
            let _ = decode_page(page, &bytes);
        }

        #[test]
        fn pages_of_a_session_are_in_order_and_read_back(a in any::<u16>(), b in any::<u16>()) {
            let (key_a, key_b) = (key(b"t\x1fs\x1fa", a), key(b"t\x1fs\x1fa", b));
            prop_assert_eq!(a.cmp(&b), key_a.bytes.cmp(&key_b.bytes));
            prop_assert_eq!(page_in(&key_a.bytes, &prefix(b"t\x1fs\x1fa")), Some(a));
        }
    }

    #[test]
    fn a_page_with_more_slots_than_it_has_is_corrupt() {
        let step = Step::default();
        let too_many = encode_page((0..=PAGE_SLOTS).map(|slot| (slot, &step, "Bash"))).unwrap();
        assert!(matches!(decode_page(0, &too_many), Err(StoreError::Corrupt(_))));
        let mut other = encode_page(std::iter::once((0, &step, "Bash"))).unwrap();
        other[1] = PAGE_SLOTS as u8;
        assert!(matches!(decode_page(0, &other), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn an_ordinary_step_is_small() {
        let step = Step {
            time: EventTime(1_795_291_200_000),
            flags: Flags::OPEN | Flags::OBSERVED | Flags::OK,
            call: Hash128(u128::MAX),
            outcome: Hash64(u64::MAX),
            event: Hash64(u64::MAX),
            event_id: "0198f0aa-7c1e-7b3a-9d2f-0123456789ab".into(),
            ..Step::default()
        };
        assert!(encode_page(std::iter::once((0, &step, "Bash"))).unwrap().len() <= 100);
    }
}
