//! The shape of an event on its topic: which fields there are, before any of them is understood.

use std::ops::Range;

use crate::event::sound;

/// Major version of the event schema.
pub const SCHEMA_VERSION: u32 = 1;

/// A field's JSON source text; `None` where it is null or absent.
pub(super) type Raw<'a> = Option<&'a str>;

/// Lists the fields once: as a struct, as names, and as a look-up from one to the other.
macro_rules! wire {
    ($($field:ident $name:literal)*) => {
        /// A known field; the names of others are content.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(non_camel_case_types, reason = "spelled as the fields are")]
        enum Known {
            $($field,)*
        }

        impl Known {
            fn of(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$field),)*
                    _ => None,
                }
            }

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)*
                }
            }
        }

        /// An event as it was written: of every known field its source text. `serde` would need half as long again, and could
        /// not say which field comes twice.
        #[derive(Default)]
        pub(super) struct Wire<'a> {
            $(pub(super) $field: Raw<'a>,)*
        }

        impl<'a> Wire<'a> {
            const fn place(&mut self, known: Known) -> &mut Raw<'a> {
                match known {
                    $(Known::$field => &mut self.$field,)*
                }
            }
        }
    };
}

wire! {
    v "v"
    id "id"
    kind "kind"
    session_id "session_id"
    swarm_id "swarm_id"
    tenant "tenant"
    agent "agent"
    time "time"
    seq "seq"
    turn "turn"
    tool "tool"
    call_id "call_id"
    description "description"
    args "args"
    args_sha256 "args_sha256"
    args_bytes "args_bytes"
    result "result"
    result_sha256 "result_sha256"
    result_bytes "result_bytes"
    stable_result "stable_result"
    truncated "truncated"
    outcome "outcome"
    error "error"
    duration_ms "duration_ms"
    role "role"
    text "text"
    text_sha256 "text_sha256"
    is_final "final"
    synthetic "synthetic"
    state "state"
    scope "scope"
    command_id "command_id"
    ack "ack"
    usage "usage"
    traceparent "traceparent"
    labels "labels"
    // A structured CloudEvent has these two, and wraps the event.
    specversion "specversion"
    data "data"
}

/// The places of known fields are the bits of one word.
const _: () = assert!((Known::data as u32) < u64::BITS);

/// Walks over the source text of an object: `known` is shown where each known field stands that is not null, `each` name and source text
/// of every field. None where the text is no object this program may look into.
///
/// # Errors
/// The name of a known field that comes twice.
fn walk<'a>(
    text: &'a str,
    mut known: impl FnMut(Known, Range<usize>),
    mut each: impl FnMut(&str, &'a str),
) -> Option<Result<(), &'static str>> {
    let (mut seen, mut twice) = (0_u64, None);
    sound::fields(text, |name, at| {
        let Some(source) = text.get(at.clone()) else { return };
        each(&name, source);
        if let Some(field) = Known::of(&name) {
            let bit = 1 << field as u32;
            if seen & bit != 0 {
                twice = twice.or(Some(field.name()));
            }
            seen |= bit;
            if source != "null" {
                known(field, at);
            }
        }
    })?;
    Some(twice.map_or(Ok(()), Err))
}

impl<'a> Wire<'a> {
    /// Reads the source text of an object into its place: it is large, and moving it would cost as much as finding its fields. None where
    /// the text is no object this program may look into.
    ///
    /// # Errors
    /// The name of a known field that comes twice.
    pub(super) fn read(&mut self, text: &'a str) -> Option<Result<(), &'static str>> {
        walk(text, |field, at| *self.place(field) = text.get(at), |_, _| ())
    }

    /// The same from what was noted of it.
    pub(super) fn read_outline(&mut self, outline: Outline<'a>) {
        for FieldAt { field, start, end } in outline.fields {
            *self.place(*field) = outline.text.get(*start as usize..*end as usize);
        }
    }

    /// The name of a field as rejections may show it.
    pub(super) fn known_name(name: &str) -> Option<&'static str> {
        Known::of(name).map(Known::name)
    }
}

/// Where a known field stands in the source text of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldAt {
    field: Known,
    start: u32,
    end: u32,
}

/// The source text of an object and where its known fields stand: what decoding finds out first, found by who has looked at it before.
#[derive(Debug, Clone, Copy)]
pub struct Outline<'a> {
    /// The source text.
    pub text: &'a str,
    /// What [`outline`] has noted of it.
    pub fields: &'a [FieldAt],
}

/// Notes where the known fields of an object stand, and shows name and source text of every field. False where the text is no object that
/// can be decoded: only [`decode`](crate::event::decode) says why. What was noted and shown until then means nothing.
pub fn outline<'a>(text: &'a str, found: &mut Vec<FieldAt>, each: impl FnMut(&str, &'a str)) -> bool {
    let note = |field, at: Range<usize>| found.push(FieldAt { field, start: at.start as u32, end: at.end as u32 });
    u32::try_from(text.len()).is_ok() && walk(text, note, each) == Some(Ok(()))
}
