//! Why a record is no event. The reasons are a closed list and stable: dead letters, metrics and docs name them.

/// Reason code of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The record has no value.
    NullValue,
    /// The record is larger than the limit.
    TooLarge,
    /// The value is no UTF-8.
    NotUtf8,
    /// The value is no JSON.
    NotJson,
    /// The value is JSON, but no object.
    NotAnObject,
    /// The JSON nests too deep.
    TooDeep,
    /// A field that the kind needs is absent.
    MissingField,
    /// A field has the wrong JSON type.
    BadType,
    /// A field has the right type and an impossible value.
    BadValue,
    /// A field is given twice.
    DuplicateField,
    /// `kind` is none of the known ones.
    UnknownKind,
    /// `v` is a version this program does not know.
    UnsupportedVersion,
    /// Another format: a structured CloudEvent, or an array of events.
    UnsupportedFormat,
    /// A detector panicked on it.
    Panic,
    /// It kept killing the process.
    Crash,
    /// Its tenant has had as many events judged in this minute as the policy allows.
    TenantLimit,
    /// Its sender may not say this: it is an act of an operator, or one of a source.
    NotPermitted,
    /// Its sender may not speak for its tenant.
    ForeignTenant,
    /// An operator of more tenants has stopped these for longer, or releases them.
    WiderStop,
    /// Its tenant has as many stops in force as one task takes.
    TooManyStops,
    /// An act whose record has no key, the key of others, or lies where that key does not lead to.
    WrongKey,
}

impl Reason {
    /// Every reason, in the order of the wire's list.
    pub const ALL: [Self; 21] = [
        Self::NullValue,
        Self::TooLarge,
        Self::NotUtf8,
        Self::NotJson,
        Self::NotAnObject,
        Self::TooDeep,
        Self::MissingField,
        Self::BadType,
        Self::BadValue,
        Self::DuplicateField,
        Self::UnknownKind,
        Self::UnsupportedVersion,
        Self::UnsupportedFormat,
        Self::Panic,
        Self::Crash,
        Self::TenantLimit,
        Self::NotPermitted,
        Self::ForeignTenant,
        Self::WiderStop,
        Self::TooManyStops,
        Self::WrongKey,
    ];

    /// Whether the form is wrong that a producer's program gives all of its records. No text, argument or result of an agent brings that
    /// about in a producer that works: what they can do is be too large, nest too deep, or hold names and characters that may not be.
    #[must_use]
    pub const fn is_of_the_form(self) -> bool {
        match self {
            Self::NullValue
            | Self::NotUtf8
            | Self::NotJson
            | Self::NotAnObject
            | Self::MissingField
            | Self::BadType
            | Self::UnknownKind
            | Self::UnsupportedVersion
            | Self::UnsupportedFormat => true,
            Self::TooLarge
            | Self::TooDeep
            | Self::BadValue
            | Self::DuplicateField
            | Self::Panic
            | Self::Crash
            | Self::TenantLimit
            | Self::NotPermitted
            | Self::ForeignTenant
            | Self::WiderStop
            | Self::TooManyStops
            | Self::WrongKey => false,
        }
    }

    /// The code as dead letters carry it (`dlq.reason`).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NullValue => "null_value",
            Self::TooLarge => "too_large",
            Self::NotUtf8 => "not_utf8",
            Self::NotJson => "not_json",
            Self::NotAnObject => "not_an_object",
            Self::TooDeep => "too_deep",
            Self::MissingField => "missing_field",
            Self::BadType => "bad_type",
            Self::BadValue => "bad_value",
            Self::DuplicateField => "duplicate_field",
            Self::UnknownKind => "unknown_kind",
            Self::UnsupportedVersion => "unsupported_version",
            Self::UnsupportedFormat => "unsupported_format",
            Self::Panic => "panic",
            Self::Crash => "crash",
            Self::TenantLimit => "tenant_limit",
            Self::NotPermitted => "not_permitted",
            Self::ForeignTenant => "foreign_tenant",
            Self::WiderStop => "wider_stop",
            Self::TooManyStops => "too_many_stops",
            Self::WrongKey => "wrong_key",
        }
    }
}

/// A record that cannot be an event: a dead letter with its reason and the JSON pointer of the field concerned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{}", reason.as_str(), if field.is_empty() { "" } else { " at " }, field)]
pub struct Rejected {
    pub reason: Reason,
    /// JSON pointer of the field, empty where the whole value is concerned. Bounded; never content.
    pub field: String,
}

impl Rejected {
    /// A rejection of the whole value.
    #[must_use]
    pub const fn whole(reason: Reason) -> Self {
        Self { reason, field: String::new() }
    }

    /// A rejection of one field, given as its pointer without the first slash.
    pub fn at(reason: Reason, field: &str) -> Self {
        Self { reason, field: format!("/{field}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_by_reason_stand_in_the_order_of_the_list() {
        let places: Vec<usize> = Reason::ALL.into_iter().map(|reason| reason as usize).collect();
        assert_eq!(places, (0..Reason::ALL.len()).collect::<Vec<_>>());
    }
}
