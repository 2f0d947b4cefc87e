//! Resume after a failure: the connection drops in the middle of a run, and another agent, as in
//! another process, carries on from the store.
//!
//!     cargo run --example resume

#![allow(clippy::print_stdout)] // an example shows what it does

use std::error::Error;

use rethread::prelude::*;
use rethread::{Script, SqliteStore};

/// Writes a text file.
#[tool(serial)]
async fn write_file(path: String, content: String) -> Result<String, ToolError> {
    println!("    write_file {path}");
    Ok(format!("wrote {} bytes to {path}", content.len()))
}

/// Plays the model, so that this runs without a network: it asks for a tool, and then its connection
/// drops in the middle of a sentence.
const MODEL: &str = r#"{
  "replies": [
    {"text": "I write the plan.", "tool_calls": [
      {"id": "call_1", "name": "write_file", "arguments": {"path": "plan.txt", "content": "1. rest"}}]},
    {"text": "The plan is written; it has one step.", "cut_after": 19}
  ],
  "then": {"text": "The plan is written; it has one step."}
}"#;

fn agent(store: SqliteStore) -> Result<Agent, Box<dyn Error>> {
    Ok(Agent::builder()
        .model(Script::from_json(MODEL)?.model())
        .instructions("You plan holidays.")
        .tool(write_file)
        .store(store)
        .build()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("rethread-resume-{}.db", std::process::id()));

    println!("A run:");
    let session = agent(SqliteStore::open(&path).await?)?.session("holiday");
    let reply = session.run("Plan my holiday").await?;
    println!(
        "    {:?}, and it stopped: {:?}",
        reply.text(),
        reply.stop().map(|stop| stop.reason)
    );
    drop(session);

    println!("Later, elsewhere:");
    let session = agent(SqliteStore::open(&path).await?)?.session("holiday");
    if let Some(point) = session.resume_point().await? {
        println!("    {}", point.description());
        let reply = session.resume().await?;
        println!("    {:?}", reply.text());
        assert!(reply.is_complete());
    }
    // The tool ran once: its result was in the store.
    assert_eq!(session.resume_point().await?, None);

    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
    Ok(())
}
