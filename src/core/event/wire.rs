//! The shape of an event on its topic: which fields there are, before any of them is understood.

use crate::event::sound;

/// Major version of the event schema.
pub const SCHEMA_VERSION: u32 = 1;

/// A field's JSON source text; `None` where it is null or absent.
pub(super) type Raw<'a> = Option<&'a str>;

/// Lists the fields once: as a struct, as names, and as a look-up from one to the other.
macro_rules! wire {
    ($($field:ident $name:literal)*) => {
        /// An event as it was written: of every known field its source text. `serde` would need half as long again, and could
        /// not say which field comes twice.
        #[derive(Default)]
        pub(super) struct Wire<'a> {
            $(pub(super) $field: Raw<'a>,)*
        }

        impl<'a> Wire<'a> {
            /// The place of a field, and its name; none for unknown ones, whose names are content.
            fn place(&mut self, name: &str) -> Option<(&mut Raw<'a>, &'static str)> {
                match name {
                    $($name => Some((&mut self.$field, $name)),)*
                    _ => None,
                }
            }

            fn forget_nulls(&mut self) {
                $(self.$field = self.$field.filter(|source| *source != "null");)*
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

impl<'a> Wire<'a> {
    /// Reads the source text of an object into its place: it is large, and moving it would cost as much as finding its fields. None where
    /// the text is no object this program may look into.
    ///
    /// # Errors
    /// The name of a known field that comes twice.
    pub(super) fn read(&mut self, text: &'a str) -> Option<Result<(), &'static str>> {
        let (mut twice, mut has_nulls) = (None, false);
        sound::fields(text, |name, value| {
            if let Some((place, name)) = self.place(&name) {
                has_nulls |= value == "null";
                if place.replace(value).is_some() {
                    twice = twice.or(Some(name));
                }
            }
        })?;
        if has_nulls {
            self.forget_nulls();
        }
        Some(twice.map_or(Ok(()), Err))
    }

    /// The name of a field as rejections may show it.
    pub(super) fn known_name(name: &str) -> Option<&'static str> {
        Wire::default().place(name).map(|(_, name)| name)
    }
}
