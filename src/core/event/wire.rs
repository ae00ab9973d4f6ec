//! The shape of an event on its topic: which fields there are, before any of them is understood.

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
    until "until"
    reason "reason"
    fail "fail"
    episode "episode"
    answer "answer"
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

impl<'a> Wire<'a> {
    /// Reads the source text of an object into its place: it is large, and moving it would cost as much as finding its fields. None where
    /// the text is no object this program may look into.
    ///
    /// # Errors
    /// The name of a known field that comes twice.
    pub(super) fn read(&mut self, text: &'a str) -> Option<Result<(), &'static str>> {
        let (mut seen, mut twice) = (0_u64, None);
        sound::fields(text, |name, at| {
            let (Some(field), Some(source)) = (Known::of(&name), text.get(at)) else { return };
            let bit = 1 << field as u32;
            if seen & bit != 0 {
                twice = twice.or(Some(field.name()));
            }
            seen |= bit;
            if source != "null" {
                *self.place(field) = Some(source);
            }
        })?;
        Some(twice.map_or(Ok(()), Err))
    }

    /// The name of a field as rejections may show it.
    pub(super) fn known_name(name: &str) -> Option<&'static str> {
        Known::of(name).map(Known::name)
    }
}
