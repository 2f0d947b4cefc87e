//! Records: the appended items a session consists of. Nothing in the list is ever rewritten.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Content, Json, Message, Origin, Text, ToolResult};

/// A moment, in microseconds since 1970 UTC. For people and for expiry only; the order of records
/// is their sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The current time of this machine.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// This moment and a while.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(wait.as_micros()).unwrap_or(i64::MAX)),
        )
    }
}

/// One appended item with its place in the session.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The sequence number: 1 for the first record of a session, without gaps.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What it says.
    pub entry: Entry,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// An item the model may see.
    Message(Box<Message>, Mark),
    /// A call of run or resume begins.
    RunStarted(RunStarted),
    /// It is over. A run without this and without a live lease crashed.
    RunEnded(RunEnded),
    /// These calls start now; written before the tools do.
    CallStarted(CallStarted),
    /// A call waits for an answer from outside.
    CallSuspended(CallSuspended),
    /// A person let a waiting call start.
    CallApproved(CallApproved),
    /// A result that came after its call had been closed. It is told to the model in an agent
    /// message that follows.
    LateResult(LateResult),
    /// A record that is not sent to a model, and why.
    SetAside(SetAside),
    /// The instructions and tools that requests use from here on.
    Setup(Setup),
    /// The session was made from a history of another format.
    Imported(Imported),
    /// The session was made from another one.
    Forked(Forked),
    /// A record of a kind this version does not know, kept whole.
    Unknown(Json),
}

/// What is known of a message besides what it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// For a response of this program's own: the step that made it.
    pub step: Option<Step>,
    /// For a result of this program's own: the call it answers.
    pub call: Option<CallKey>,
}

/// A step of a run: one model call and the tools it asks for. The counts are what has been used of
/// the allowance so far, this step included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The run.
    pub run: String,
    /// What has been used.
    #[serde(default)]
    pub used: Budget,
}

/// How much a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Model calls.
    pub steps: u32,
    /// Paused responses that are continued automatically.
    pub pauses: u32,
    /// Tokens of requests and responses; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// Steps, pauses and tokens that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Model calls that came to an end.
    #[serde(default)]
    pub steps: u32,
    /// Paused responses that were continued automatically.
    #[serde(default)]
    pub pauses: u32,
    /// Tokens of requests and responses.
    #[serde(default)]
    pub tokens: u64,
}

/// Names a call in its session: the record of the response that asks for it and the place in that
/// response. Ids of providers repeat; this does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// The sequence number of the response.
    pub message: u64,
    /// The place of the call in it, from 0.
    pub index: u32,
}

impl CallKey {
    /// The key a tool can hand to systems that take one: the same on every attempt of this call.
    #[must_use]
    pub fn idempotency_key(&self, session: &str) -> String {
        format!("{session}:{}:{}", self.message, self.index)
    }
}

/// What a call of run or resume is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run's id.
    pub run: String,
    /// What began it.
    pub kind: RunKind,
    /// How much it may use.
    pub limits: Limits,
    /// How much had been used before; nothing when a new allowance was granted.
    #[serde(default)]
    pub used: Budget,
    /// The model it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Origin>,
    /// The digest of the setup it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
}

/// What began a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunKind {
    /// A new message.
    Run,
    /// An explicit resume.
    Resume,
    /// A trajectory's trigger.
    Trigger,
    /// Direct appends without a model.
    Append,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run's id.
    pub run: String,
    /// How.
    pub outcome: Outcome,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The digest of the setup it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The last response ended normally.
    Completed,
    /// The last response did not end normally.
    Stopped,
    /// A provider, a limit or a hook failed.
    Failed,
    /// The caller cancelled.
    Cancelled,
    /// It waits for an answer from outside.
    Suspended,
}

/// What failed, in words that can be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class, such as `overloaded` or `step_limit`.
    pub kind: String,
    /// The provider's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The message.
    pub message: String,
}

/// Calls that start at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The calls.
    pub calls: Vec<CallKey>,
}

/// A call that waits for an answer from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSuspended {
    /// The call.
    pub call: CallKey,
    /// What it waits for.
    pub wait: Wait,
    /// What to tell the person or system that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Text>,
}

/// What a suspended call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wait {
    /// A person's leave to start.
    Approval,
    /// A person's reply.
    Question,
    /// A result that is made elsewhere.
    External,
}

/// Leave for a waiting call to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallApproved {
    /// The call.
    pub call: CallKey,
    /// Other arguments to run it with; the model's own stay beside them in its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Json>,
}

/// A result that came after its call had been closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateResult {
    /// The call.
    pub call: CallKey,
    /// The content that came.
    pub content: Content,
    /// False for a failure.
    pub success: bool,
}

/// A record that is not sent to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetAside {
    /// The record.
    pub record: u64,
    /// Why.
    pub reason: String,
}

/// The instructions and tools a request carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The digest that names it.
    pub digest: String,
    /// The instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Text>,
    /// The tools as a JSON list of name, description and parameters.
    pub tools: Json,
}

impl Setup {
    /// A setup, named by the digest of what it holds.
    #[must_use]
    pub fn new(instructions: Option<Text>, tools: Json) -> Self {
        let said = instructions.as_ref().map(Text::literal).unwrap_or_default();
        let digest = crate::message::digest([said, tools.get()]);
        Self {
            digest: format!("{digest:016x}"),
            instructions,
            tools,
        }
    }
}

/// Where an imported session came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The format.
    pub format: String,
    /// What could not be read, one sentence each.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// Where a forked session came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forked {
    /// The other session.
    pub session: String,
    /// The last record that was copied.
    pub at: u64,
}

impl Entry {
    /// An entry with a message and no marks.
    #[must_use]
    pub fn message(message: impl Into<Message>) -> Self {
        Self::Message(Box::new(message.into()), Mark::default())
    }

    /// The message, if this is one.
    #[must_use]
    pub fn as_message(&self) -> Option<&Message> {
        match self {
            Self::Message(message, _) => Some(message),
            _ => None,
        }
    }

    /// A result of a call of this session.
    #[must_use]
    pub fn result(call: CallKey, result: ToolResult) -> Self {
        Self::Message(
            Box::new(result.into()),
            Mark {
                call: Some(call),
                step: None,
            },
        )
    }
}

impl Record {
    /// The record as stored: one JSON object on one line, without its sequence number, which the
    /// store keeps.
    ///
    /// # Errors
    /// When the JSON cannot be written; with the types of this crate it always can.
    pub fn encode(at: Timestamp, entry: &Entry) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = Vec::with_capacity(256);
        serde_json::to_writer(
            &mut out,
            &Stored {
                seq: None,
                at,
                entry,
            },
        )?;
        Ok(out)
    }

    /// Reads a stored record.
    ///
    /// # Errors
    /// When the bytes are not a record; the store's row stays as it is.
    pub fn decode(seq: u64, body: &[u8]) -> Result<Self, serde_json::Error> {
        // Text is checked once here, and then sliced without looking again.
        let text = std::str::from_utf8(body).map_err(serde::de::Error::custom)?;
        let json: RecordJson = serde_json::from_str(text)?;
        Ok(Self {
            seq,
            at: json.at,
            entry: json.into_entry(text)?,
        })
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored {
            seq: Some(self.seq),
            at: self.at,
            entry: &self.entry,
        }
        .serialize(serializer)
    }
}

struct Stored<'a> {
    seq: Option<u64>,
    at: Timestamp,
    entry: &'a Entry,
}

impl Serialize for Stored<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Entry::Unknown(raw) = self.entry {
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        if let Some(seq) = self.seq {
            map.serialize_entry("seq", &seq)?;
        }
        map.serialize_entry("at", &self.at)?;
        match self.entry {
            Entry::Message(message, mark) => {
                if let Some(step) = &mark.step {
                    map.serialize_entry("step", step)?;
                }
                if let Some(call) = &mark.call {
                    map.serialize_entry("call", call)?;
                }
                map.serialize_entry("message", message)?;
            }
            Entry::RunStarted(entry) => map.serialize_entry("run_started", entry)?,
            Entry::RunEnded(entry) => map.serialize_entry("run_ended", entry)?,
            Entry::CallStarted(entry) => map.serialize_entry("call_started", entry)?,
            Entry::CallSuspended(entry) => map.serialize_entry("call_suspended", entry)?,
            Entry::CallApproved(entry) => map.serialize_entry("call_approved", entry)?,
            Entry::LateResult(entry) => map.serialize_entry("late_result", entry)?,
            Entry::SetAside(entry) => map.serialize_entry("set_aside", entry)?,
            Entry::Setup(entry) => map.serialize_entry("setup", entry)?,
            Entry::Imported(entry) => map.serialize_entry("imported", entry)?,
            Entry::Forked(entry) => map.serialize_entry("forked", entry)?,
            Entry::Unknown(_) => {}
        }
        map.end()
    }
}

#[derive(Deserialize)]
struct RecordJson {
    #[serde(default)]
    at: Timestamp,
    #[serde(default)]
    step: Option<Step>,
    #[serde(default)]
    call: Option<CallKey>,
    #[serde(default)]
    message: Option<Box<Message>>,
    #[serde(default)]
    run_started: Option<RunStarted>,
    #[serde(default)]
    run_ended: Option<RunEnded>,
    #[serde(default)]
    call_started: Option<CallStarted>,
    #[serde(default)]
    call_suspended: Option<CallSuspended>,
    #[serde(default)]
    call_approved: Option<CallApproved>,
    #[serde(default)]
    late_result: Option<LateResult>,
    #[serde(default)]
    set_aside: Option<SetAside>,
    #[serde(default)]
    setup: Option<Setup>,
    #[serde(default)]
    imported: Option<Imported>,
    #[serde(default)]
    forked: Option<Forked>,
}

impl RecordJson {
    fn into_entry(self, text: &str) -> Result<Entry, serde_json::Error> {
        let mark = Mark {
            step: self.step,
            call: self.call,
        };
        let known = self
            .message
            .map(|message| Entry::Message(message, mark))
            .or(self.run_started.map(Entry::RunStarted))
            .or(self.run_ended.map(Entry::RunEnded))
            .or(self.call_started.map(Entry::CallStarted))
            .or(self.call_suspended.map(Entry::CallSuspended))
            .or(self.call_approved.map(Entry::CallApproved))
            .or(self.late_result.map(Entry::LateResult))
            .or(self.set_aside.map(Entry::SetAside))
            .or(self.setup.map(Entry::Setup))
            .or(self.imported.map(Entry::Imported))
            .or(self.forked.map(Entry::Forked));
        match known {
            Some(entry) => Ok(entry),
            None => Json::parse(text).map(Entry::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_comes_back_as_it_was_written() {
        let call = CallKey {
            message: 2,
            index: 1,
        };
        let entries = [
            Entry::message(Message::user("hi")),
            Entry::Message(
                Box::new(Message::assistant("x")),
                Mark {
                    step: Some(Step {
                        run: "r".into(),
                        used: Budget {
                            steps: 1,
                            pauses: 0,
                            tokens: 9,
                        },
                    }),
                    call: None,
                },
            ),
            Entry::RunEnded(RunEnded {
                run: "r".into(),
                outcome: Outcome::Suspended,
                error: None,
                setup: None,
            }),
            Entry::CallStarted(CallStarted { calls: vec![call] }),
            Entry::CallSuspended(CallSuspended {
                call,
                wait: Wait::Approval,
                prompt: Some("may I?".into()),
            }),
            Entry::SetAside(SetAside {
                record: 4,
                reason: "second result".into(),
            }),
        ];
        for entry in entries {
            let body = Record::encode(Timestamp(5), &entry).unwrap();
            assert!(!body.contains(&b'\n'));
            let back = Record::decode(7, &body).unwrap();
            assert_eq!(
                back,
                Record {
                    seq: 7,
                    at: Timestamp(5),
                    entry
                }
            );
        }
    }

    #[test]
    fn a_record_from_a_newer_version_is_kept_whole() {
        let body = br#"{"at":5,"hologram":{"n":1e2}}"#;
        let record = Record::decode(1, body).unwrap();
        assert_eq!(Record::encode(record.at, &record.entry).unwrap(), body);
    }
}
