//! The provider formats of `rethread`, without I/O: read what a provider sends, write what it
//! accepts, check and repair a history before it is sent, and read the session files of others.

mod api;
mod check;
mod decode;
mod encode;
mod error;
pub mod formats;
mod ids;
mod repair;
mod report;
pub mod rules;
mod sse;

pub use api::{Api, UnknownApi};
pub use check::{Check, check_report, explain_changes, repair_report};
pub use decode::{Decoder, decode_body};
pub use encode::{Body, Encoder, IdRule, Reasoning, Target, UnknownPattern};
pub use error::decode_error;
pub use ids::is_made_id;
pub use repair::{Change, Repaired, repair};
pub use report::decode_report;
pub use sse::{Frame, MAX_EVENT_BYTES, SseReader, TooLong};
