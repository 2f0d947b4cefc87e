//! The `rethread` program: run, inspect and resume agent sessions from the command line.

mod args;
mod ask;
mod commands;
mod document;
mod failure;
mod find;
mod go;
mod history;
mod model;
mod point;
mod poll;
mod recorder;
mod remembered;
mod signals;
mod store;
mod term;
mod tools;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli.command) {
        Ok(code) => code.into(),
        Err(failure) => {
            term::error(&failure.message);
            failure.code.into()
        }
    }
}
