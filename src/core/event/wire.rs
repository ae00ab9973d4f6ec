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
            fn of(name: &[u8]) -> Option<Self> {
                match name {
                    $($name => Some(Self::$field),)*
                    _ => None,
                }
            }

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$field => const { name_of($name) },)*
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
    v b"v"
    id b"id"
    kind b"kind"
    session_id b"session_id"
    swarm_id b"swarm_id"
    tenant b"tenant"
    agent b"agent"
    time b"time"
    seq b"seq"
    turn b"turn"
    tool b"tool"
    call_id b"call_id"
    description b"description"
    args b"args"
    args_sha256 b"args_sha256"
    args_bytes b"args_bytes"
    result b"result"
    result_sha256 b"result_sha256"
    result_bytes b"result_bytes"
    stable_result b"stable_result"
    truncated b"truncated"
    outcome b"outcome"
    error b"error"
    duration_ms b"duration_ms"
    role b"role"
    text b"text"
    text_sha256 b"text_sha256"
    is_final b"final"
    synthetic b"synthetic"
    state b"state"
    scope b"scope"
    until b"until"
    reason b"reason"
    fail b"fail"
    reach b"reach"
    episode b"episode"
    answer b"answer"
    command_id b"command_id"
    ack b"ack"
    usage b"usage"
    traceparent b"traceparent"
    labels b"labels"
    // A structured CloudEvent has these two, and wraps the event.
    specversion b"specversion"
    data b"data"
}

const fn name_of(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(name) => name,
        Err(_) => "",
    }
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
        Known::of(name.as_bytes()).map(Known::name)
    }
}
