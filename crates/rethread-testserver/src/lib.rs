//! A validating mock server for four LLM APIs: Anthropic Messages, OpenAI Chat
//! Completions, OpenAI Responses and Gemini generateContent (streaming).
//!
//! It plays a [`Script`] of replies and faults over real sockets, and it reads every
//! request the way the real service does: a history the service would refuse is
//! refused with the service's status and words, and noted in [`Server::problems`].
//! A test that ends with `assert!(server.problems().is_empty())` therefore fails when
//! the code under test sent an unsound request, even if it recovered from the refusal.
//!
//! ```
//! use rethread_testserver::{Fault, Reply, Script, Server};
//!
//! let server = Server::start(Script::new([
//!     Reply::text("Looking.").reasoning("Need the weather.")
//!         .call("toolu_1", "get_weather", r#"{"city":"Paris"}"#)
//!         .fault(Fault::rate_limited(1)),
//!     Reply::text("Sunny."),
//! ]))?;
//! let base = server.url();
//! // ... run a client against `base` ...
//! assert!(server.problems().is_empty(), "{:#?}", server.problems());
//! # assert!(base.starts_with("http://127.0.0.1:"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The rules are also plain functions over a request body ([`check_anthropic`],
//! [`check_chat`], [`check_responses`], [`check_gemini`]). What only a server with a
//! memory can know (was this signature handed out by me, with this very text, after
//! this very prefix?) is checked by the server alone.

mod api;
mod http;
mod memory;
pub mod rules;
pub mod script;
pub mod server;
mod stream;
mod value;

pub use api::Api;
pub use rules::{
    ChatServer, Rules, Violation, check_anthropic, check_chat, check_gemini, check_responses,
};
pub use script::{AfterEnd, Call, Fault, Pick, Reply, Script, Stop};
pub use server::{Recorded, Server, Verdict};
