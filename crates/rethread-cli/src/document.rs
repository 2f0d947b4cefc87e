//! What a run ended with, as one JSON document.

use rethread_core::{Error, Json, Reply, Stop, StoreError, Wait};
use serde::Serialize;

use crate::failure::{Code, Failure, chain};
use crate::recorder::Request;

/// The document `run --json` and `resume --json` print.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) session: &'a str,
    #[serde(flatten)]
    pub(crate) end: End,
    pub(crate) model_calls: usize,
    pub(crate) tool_runs: Vec<(String, Json)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests: Option<Vec<Request>>,
}

/// How a run ended.
#[derive(Serialize)]
pub(crate) struct End {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<Stop>,
    #[serde(skip)]
    pub(crate) code: Code,
}

/// A call that waits for someone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(rename = "for")]
    pub(crate) wait: Wait,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    pub(crate) arguments: Json,
}

impl End {
    /// What a run's result says; an error when it never began because of how it was asked for.
    pub(crate) fn of(result: Result<Reply, Error>) -> Result<Self, Failure> {
        let error = match result {
            Ok(reply) => {
                let stop = reply.stop().cloned();
                let (outcome, code) = match stop {
                    Some(_) => ("stopped", Code::Failed),
                    None => ("answered", Code::Done),
                };
                return Ok(Self {
                    outcome,
                    reason: None,
                    answer: Some(reply.text()),
                    stop,
                    code,
                });
            }
            Err(error) => error,
        };
        let (outcome, reason) = match &error {
            Error::NotResumable(reason) => ("not_resumable", reason.as_str().to_owned()),
            Error::Store(StoreError::Busy { .. }) => ("busy", chain(&error)),
            Error::Suspended(point) => ("suspended", point.description()),
            Error::Cancelled => ("cancelled", chain(&error)),
            _ => ("failed", chain(&error)),
        };
        let failure = Failure::from(error);
        if failure.code == Code::Usage {
            return Err(failure);
        }
        Ok(Self {
            outcome,
            reason: Some(reason),
            answer: None,
            stop: None,
            code: failure.code,
        })
    }
}
