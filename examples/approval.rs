//! A tool that asks first: the call waits in the store until a person answers, from any process.
//!
//!     cargo run --example approval

#![allow(clippy::print_stdout)] // an example shows what it does

use std::error::Error;

use rethread::prelude::*;
use rethread::{MemoryStore, Script};

/// Deletes a table.
#[tool(serial, ask = "Drop the table {name}?")]
async fn drop_table(name: String) -> Result<String, ToolError> {
    println!("    dropped {name}");
    Ok(format!("dropped {name}"))
}

const MODEL: &str = r#"{
  "replies": [{"tool_calls": [{"id": "call_1", "name": "drop_table", "arguments": {"name": "logs"}}]}],
  "then": {"text": "The table is gone."}
}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = Agent::builder()
        .model(Script::from_json(MODEL)?.model())
        .tool(drop_table)
        .store(MemoryStore::new())
        .build()?;
    let session = agent.session("cleanup");

    let Err(rethread::Error::Suspended(point)) = session.run("Clean up").await else {
        return Err("the call should wait".into());
    };
    println!("{}", point.description());

    for call in &point.unanswered {
        session.answer(&call.id, Answer::Approve).await?;
    }
    println!("{}", session.resume().await?.text());
    Ok(())
}
