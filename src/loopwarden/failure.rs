//! Why a command ended without success: an exit code, and what is said about it on standard error.

use std::io;

use loopwarden_lab::replay::ReplayError;
use loopwarden_lane::Exit;
use loopwarden_log::{E_DAMAGED, LogError};
use loopwarden_settings::{Diagnostic, Diagnostics};
use loopwarden_state::StoreError;

use crate::exit_code;

/// What every command answers.
pub type Outcome = Result<(), Failure>;

/// Why a command ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One of [`exit_code`].
    pub exit: u8,
    /// What to say; nothing where it was said already, or nobody listens any more.
    pub message: Option<String>,
}

impl Failure {
    /// A failure with something to say.
    pub fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { exit, message: Some(message.into()) }
    }

    /// A failure that has been told already.
    pub const fn silent(exit: u8) -> Self {
        Self { exit, message: None }
    }

    /// Something failed at run time.
    pub fn failed(what: impl std::fmt::Display) -> Self {
        Self::new(exit_code::FAILED, format!("error: {what}"))
    }

    /// A documented code with a message that may go over several lines.
    pub fn coded(code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic::new(code, message).into()
    }

    /// E0702. Only an address that another process has is not worth another try: one that this host lacks may come up.
    pub fn listen(error: &io::Error, message: impl Into<String>) -> Self {
        let failure = Self::coded("E0702", message);
        if error.kind() == io::ErrorKind::AddrInUse { failure } else { Self { exit: exit_code::FAILED, ..failure } }
    }

    /// The answer is no, and it is on standard output.
    pub const fn answer_is_no() -> Self {
        Self::silent(exit_code::ANSWER_IS_NO)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::new(exit_code::of_error(diagnostic.code), diagnostic.to_string())
    }
}

impl From<Diagnostics> for Failure {
    fn from(problems: Diagnostics) -> Self {
        let exit = problems.0.first().map_or(exit_code::FAILED, |first| exit_code::of_error(first.code));
        Self::new(exit, problems.to_string())
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Transient(cause) | LogError::OutOfRange(cause) => Self::new(exit_code::FAILED, format!("error: {cause}")),
            LogError::Damaged(cause) => Self::coded(E_DAMAGED, cause),
            LogError::Lost(cause) => fenced(&cause),
            LogError::Fatal { code, message } => Self::coded(code, message),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (code, message) = match error {
            StoreError::Locked(message) => ("E0401", format!("another process holds the state: {message}")),
            StoreError::OtherFormat(message) => ("E0402", message),
            StoreError::DiskFull(message) => ("E0403", message),
            StoreError::Corrupt(message) => ("E0404", message),
            StoreError::OtherOwner(message) => ("E0405", message),
            StoreError::Io(message) => ("E0406", message),
        };
        Diagnostic::new(code, message).help(format!("what to do: loopwarden explain {code}")).into()
    }
}

/// E0501: somebody else has the place.
fn fenced(cause: &str) -> Failure {
    Diagnostic::new("E0501", cause.trim_start_matches("E0501: "))
        .help("another process runs with the same group and `instance`; the default of `instance` is the name of the host")
        .help("if both are to run, give each process an `instance` of its own, as: --set instance=watch-1")
        .into()
}

/// A lane's end that is no success.
impl From<Exit> for Failure {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done | Exit::Stopped => Self::silent(exit_code::DONE),
            Exit::Fenced(cause) => fenced(&cause),
            Exit::Store(error) => error.into(),
            Exit::Fatal { code, message } => Self::coded(code, message),
            Exit::Failed(cause) => Self::new(exit_code::FAILED, format!("error: {cause}")),
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Lane(exit) => exit.into(),
            ReplayError::Panicked => Self::new(exit_code::BROKEN, format!("error: {error}")),
            ReplayError::Output(error) => error.into(),
        }
    }
}

/// Input and output of the command itself. Whoever reads our output may stop at any time: that is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(exit_code::DONE),
            _ => Self::new(exit_code::FAILED, format!("error: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)), Failure::silent(0));
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).exit, exit_code::FAILED);
    }

    #[test]
    fn who_is_fenced_is_told_to_give_each_process_an_instance_of_its_own() {
        let cause = "E0501: the consumer failed for good: FencedInstanceId";
        for failure in [Failure::from(Exit::Fenced(cause.into())), Failure::from(LogError::Lost(cause.into()))] {
            let told = failure.message.unwrap_or_default();
            assert_eq!(failure.exit, exit_code::FENCED);
            assert!(told.starts_with("error[E0501]: the consumer failed for good: FencedInstanceId\n"), "{told}");
            assert!(told.contains("give each process an `instance` of its own"), "{told}");
        }
    }

    #[test]
    fn only_an_address_that_another_process_has_keeps_a_supervisor_from_trying_again() {
        let of = |kind: io::ErrorKind| Failure::listen(&io::Error::from(kind), "cannot listen").exit;
        assert_eq!(of(io::ErrorKind::AddrInUse), exit_code::FENCED);
        assert_eq!(of(io::ErrorKind::AddrNotAvailable), exit_code::FAILED);
    }

    #[test]
    fn a_fatal_log_error_keeps_its_code_and_decides_the_exit_code() {
        let failure = Failure::from(LogError::Fatal { code: "E0102", message: "topic \"a\" does not exist".into() });
        assert_eq!(failure.exit, exit_code::UNAVAILABLE);
        assert_eq!(failure.message.as_deref(), Some("error[E0102]: topic \"a\" does not exist"));
    }
}
