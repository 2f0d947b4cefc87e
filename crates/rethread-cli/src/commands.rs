//! The commands.

mod answer;
mod demo;
mod export;
mod fork;
mod import;
mod ls;
mod resume;
mod rm;
mod run;
mod show;
mod why;
mod wire;

use std::future::Future;
use std::sync::Arc;

use rethread_core::{Agent, Store};

use crate::args::Command;
use crate::failure::{Code, Failure};
use crate::model;

/// Does what the command line asks for.
pub(crate) fn run(command: Command) -> Result<Code, Failure> {
    match command {
        Command::Run(args) => block_on(run::run(args)),
        Command::Resume(args) => block_on(resume::resume(args)),
        Command::Why(args) => why::why(&args),
        Command::Show(args) => show::show(&args),
        Command::Ls(args) => ls::ls(&args),
        Command::Answer(args) => block_on(answer::answer(args)),
        Command::Import(args) => block_on(import::import(args)),
        Command::Export(args) => export::export(&args),
        Command::Fork(args) => block_on(fork::fork(args)),
        Command::Rm(args) => block_on(rm::rm(args)),
        Command::Check(args) => wire::check(&args),
        Command::Repair(args) => wire::repair_file(&args),
        Command::Decode(args) => wire::decode(&args),
        Command::Demo(args) => demo::demo(&args),
    }
}

/// Runs a command that writes or talks to a model.
fn block_on(command: impl Future<Output = Result<Code, Failure>>) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(command);
    // A tool that was given up may still be at work on its thread; it is not waited for.
    runtime.shutdown_background();
    result
}

/// An agent for commands that write to a session and call no model.
fn bookkeeper(store: Arc<dyn Store>) -> Result<Agent, Failure> {
    let agent = Agent::builder()
        .shared_model(model::none()?.model)
        .shared_store(store)
        .build()?;
    Ok(agent)
}
