//! librdkafka's errors, sorted by fate.

use loopwarden_log::LogError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::client::context::Failure;

/// Brokers cannot be reached.
pub const E_UNREACHABLE: &str = "E0101";
/// A topic does not exist.
pub const E_TOPIC_MISSING: &str = "E0102";
/// A permission is missing.
pub const E_NOT_AUTHORISED: &str = "E0103";
/// Partition counts or the cleanup policy do not fit.
pub const E_TOPIC_SHAPE: &str = "E0104";
/// An internal topic of a group that has worked before is gone.
pub const E_INTERNAL_VANISHED: &str = "E0105";
/// Another process has this identity.
pub const E_FENCED: &str = "E0501";

/// What to look at where no broker answers.
const ADVICE: &str = "check kafka.bootstrap_servers, and what security the broker expects";

/// What an error of a running client means for the lane; `None`: nothing, the client goes on by itself and has told the log.
/// `doing` says what it was about.
pub(crate) fn of_running(error: &KafkaError, doing: &str) -> Option<LogError> {
    if let KafkaError::MessageConsumptionFatal(code) = error {
        return Some(lost(&format!("the consumer failed for good: {code}")));
    }
    match error.rdkafka_error_code()? {
        Code::PartitionEOF
        | Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::NetworkException
        | Code::WaitingForCoordinator
        | Code::NotCoordinator
        | Code::CoordinatorNotAvailable
        | Code::CoordinatorLoadInProgress
        | Code::NotLeaderForPartition
        | Code::LeaderNotAvailable => None,
        // Told once: the client fetches nothing more of the partition before it is sought.
        Code::AutoOffsetReset | Code::OffsetOutOfRange => {
            Some(LogError::OutOfRange(format!("{doing}: a position is outside of its partition")))
        }
        // The client (2.12.1) says so once and hands over what lies behind, or where the broker says it, asks again for ever.
        Code::BadMessage | Code::BadCompression | Code::NotImplemented | Code::InvalidMessage => {
            Some(LogError::Damaged(format!("{doing}: {error}")))
        }
        // The member polls again by this very call, and rejoins.
        Code::PollExceeded => {
            Some(LogError::Transient("max.poll.interval.ms passed between two polls: the group has taken the tasks away".into()))
        }
        // The client does not say which topic.
        Code::TopicAuthorizationFailed => Some(missing_permission(doing, error, "Read on the topic")),
        _ => Some(of(error, doing)),
    }
}

/// What an error of a single call means. `doing` says what failed: `reading`, `asking for "topic"`.
pub(crate) fn of(error: &KafkaError, doing: &str) -> LogError {
    let Some(code) = error.rdkafka_error_code() else {
        return match error {
            KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) => fatal("E0202", format!("{doing}: {error}")),
            _ => LogError::Transient(format!("{doing}: {error}")),
        };
    };
    match code {
        Code::Fatal
        | Code::Fenced
        | Code::FencedInstanceId
        | Code::ProducerFenced
        | Code::InvalidProducerEpoch
        | Code::UnreleasedInstanceId => lost(&format!("{doing}: {error}")),
        Code::TopicAuthorizationFailed => {
            missing_permission(doing, error, "Describe on the topic, which comes with Read and with Write")
        }
        Code::GroupAuthorizationFailed => missing_permission(doing, error, "Read on the group"),
        Code::TransactionalIdAuthorizationFailed => missing_permission(doing, error, "Write on the transactional id"),
        Code::ClusterAuthorizationFailed => missing_permission(doing, error, "IdempotentWrite or Create on the cluster"),
        Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism | Code::SSL => {
            fatal(E_NOT_AUTHORISED, format!("{doing}: {error}; check mechanism, user, password and certificates"))
        }
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            fatal(E_TOPIC_MISSING, format!("{doing}: {error}"))
        }
        _ => LogError::Transient(format!("{doing}: {error}")),
    }
}

/// No broker could be asked, and what the client knows about why.
pub(crate) fn unreachable(doing: &str, failure: Option<Failure>) -> LogError {
    match failure {
        Some(Failure { is_refused: true, reason }) => fatal(
            E_NOT_AUTHORISED,
            format!("{doing}: {reason}\n  check kafka.sasl_mechanism, username and password, and the certificates of both sides"),
        ),
        Some(Failure { reason, .. }) => fatal(E_UNREACHABLE, format!("{doing}: {reason}\n  {ADVICE}")),
        None => fatal(E_UNREACHABLE, format!("{doing}; {ADVICE}")),
    }
}

/// A question at the start of a process, which nobody asks again: where it may help to ask later, brokers are not available now.
pub(crate) fn unanswered(error: LogError) -> LogError {
    match error {
        LogError::Transient(cause) => fatal(E_UNREACHABLE, format!("{cause}\n  {ADVICE}")),
        other => other,
    }
}

pub(crate) fn missing_permission(doing: &str, error: &KafkaError, acl: &str) -> LogError {
    fatal(E_NOT_AUTHORISED, format!("{doing}: {error}; the missing permission is {acl}"))
}

/// An error that stops the process.
pub(crate) fn fatal(code: &'static str, message: String) -> LogError {
    LogError::Fatal { code, message }
}

/// The lane has lost its identity.
pub(crate) fn lost(cause: &str) -> LogError {
    LogError::Lost(format!("{E_FENCED}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_consumer_is_lost_and_says_so_by_code() {
        let fate = of_running(&KafkaError::MessageConsumptionFatal(Code::FencedInstanceId), "reading");
        assert!(matches!(fate, Some(LogError::Lost(cause)) if cause.starts_with("E0501: ")));
    }

    #[test]
    fn a_question_that_nobody_answered_at_the_start_is_told_as_brokers_that_are_not_available() {
        let timed_out = of(&KafkaError::AdminOp(Code::OperationTimedOut), "asking for topic \"a\"");
        let told = unanswered(timed_out);
        assert!(matches!(&told, LogError::Fatal { code: E_UNREACHABLE, message } if message.ends_with(ADVICE)), "{told:?}");
        assert!(matches!(unanswered(lost("gone")), LogError::Lost(_)));
    }

    #[test]
    fn a_broker_that_is_away_is_no_event_for_the_lane() {
        assert_eq!(of_running(&KafkaError::MessageConsumption(Code::AllBrokersDown), "reading"), None);
    }

    #[test]
    fn a_reset_position_has_a_fate_of_its_own_so_that_the_lane_looks_for_lost_input() {
        let fate = of_running(&KafkaError::MessageConsumption(Code::AutoOffsetReset), "reading");
        assert!(matches!(fate, Some(LogError::OutOfRange(_))));
    }

    #[test]
    fn what_cannot_be_read_is_damage_whoever_notices() {
        for code in [Code::BadMessage, Code::BadCompression, Code::InvalidMessage] {
            let fate = of_running(&KafkaError::MessageConsumption(code), "reading");
            assert!(matches!(fate, Some(LogError::Damaged(_))), "{code:?}");
        }
    }

    #[test]
    fn a_missing_permission_names_what_is_missing() {
        let LogError::Fatal { code, message } = of(&KafkaError::MessageConsumption(Code::GroupAuthorizationFailed), "reading")
        else {
            panic!("not fatal")
        };
        assert_eq!(code, E_NOT_AUTHORISED);
        assert!(message.contains("Read on the group"), "{message}");
    }
}
