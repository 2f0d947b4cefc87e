//! How a command ends when it does not succeed: one line for people, one exit code for programs.

use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use rethread_core::{Error, StoreError};

/// The exit codes; part of the program's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NothingToResume = 3,
    Busy = 4,
    Waiting = 5,
    Cancelled = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Wrong usage or unreadable input.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::usage(format!("cannot {doing} `{}`: {error}", path.display()))
    }

    /// A store that cannot be opened: what the user named is wrong.
    pub(crate) fn open(error: &StoreError) -> Self {
        Self::usage(chain(error))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Store(StoreError::Busy { .. }) => Code::Busy,
            Error::Store(
                StoreError::NotFound { .. }
                | StoreError::NotAStore { .. }
                | StoreError::NewerFormat { .. },
            )
            | Error::UnknownCall { .. }
            | Error::AlreadyAnswered { .. }
            | Error::Exists { .. } => Code::Usage,
            Error::NotResumable(_) => Code::NothingToResume,
            Error::Suspended(_) => Code::Waiting,
            Error::Cancelled => Code::Cancelled,
            _ => Code::Failed,
        };
        Self::new(code, chain(&error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and what caused it, on one line. What an error says already is not said again.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
