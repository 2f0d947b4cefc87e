//! The command line.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Effects};
use clap::{Args, Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER: &str = "\
See it in ten seconds, offline:  rethread demo

Stores:  sqlite:PATH
Models:  anthropic:MODEL  openai:MODEL  responses:MODEL  gemini:MODEL  ollama:MODEL
         openrouter:MODEL  deepseek:MODEL  llama.cpp:URL  script:FILE  or a known name
Waiting: a response that is silent for 5 minutes is interrupted; RETHREAD_IDLE_TIMEOUT_MS
         sets another time
Exit:    0 done  1 failed  2 wrong usage  3 nothing to resume  4 in use
         5 waits for an answer  130 cancelled";

/// Durable agent sessions: interrupted work is kept, explained, and carried on.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, styles = STYLES, after_help = AFTER, disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run with a new message, in a new session or one that exists
    Run(Run),
    /// Carry on where a session was interrupted
    Resume(Resume),
    /// Say where a session stopped and what a resume would do
    Why(Look),
    /// Show a session's messages
    Show(Look),
    /// List sessions, those that need attention first
    Ls(List),
    /// Answer a call that waits for someone
    Answer(Answer),
    /// Make a session from a history file
    Import(Import),
    /// Print a session's records, one JSON object a line
    Export(Export),
    /// Copy a session, or its beginning, into a new one
    Fork(Fork),
    /// Delete sessions
    Rm(Remove),
    /// Check a history file against an API's rules
    Check(Check),
    /// Make a history file valid for an API and ready to send
    Repair(Repair),
    /// Read one recorded response body
    Decode(Decode),
    /// Watch a run being killed and resumed; needs no key and no network
    Demo(Demo),
}

#[derive(Debug, Args)]
pub(crate) struct Store {
    /// Where sessions are kept: sqlite:PATH [env: RETHREAD_STORE; default: a file in the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// A session that exists, by its id, a beginning of it that is unique, or as the last one.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The session's id, or a beginning of it that no other has
    #[arg(value_name = "ID", required_unless_present = "last")]
    pub(crate) id: Option<String>,
    /// The session that changed last
    #[arg(long, conflicts_with = "id")]
    pub(crate) last: bool,
}

/// What a run is given.
#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The model, such as anthropic:MODEL or script:FILE [env: RETHREAD_MODEL]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The instructions: a file, or the text itself
    #[arg(long, value_name = "FILE|TEXT")]
    pub(crate) instructions: Option<String>,
    /// At most so many model calls
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u32>,
    /// Let tools act without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Append every event to a file as a JSON line, each at once
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Put the messages of each model call into the --json document
    #[arg(long, requires = "json")]
    pub(crate) record_requests: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The message; `-` reads it from standard input
    pub(crate) text: String,
    /// The session, made if there is none of this id; a new one unless given
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The session that changed last
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) work: Work,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The session's id, or a beginning of it that no other has
    #[arg(value_name = "ID", required_unless_present_any = ["last", "from"])]
    pub(crate) id: Option<String>,
    /// The session that changed last
    #[arg(long, conflicts_with_all = ["id", "from"])]
    pub(crate) last: bool,
    /// Carry on a history file instead: its last message is what is acted on
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "dry_run"])]
    pub(crate) from: Option<PathBuf>,
    /// The file's format; recognised unless given
    #[arg(long, value_name = "F", requires = "from")]
    pub(crate) format: Option<String>,
    /// The session that is made from the file
    #[arg(long, value_name = "ID", requires = "from")]
    pub(crate) session: Option<String>,
    /// If that session exists, keep it as a fork and begin it anew
    #[arg(long, requires = "session")]
    pub(crate) replace: bool,
    /// Only say what would be added and sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Go on although the response was refused, ran into a full context or stopped for an unknown reason
    #[arg(long)]
    pub(crate) override_stop: bool,
    /// Take the session over from a live writer
    #[arg(long)]
    pub(crate) take_over: bool,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) work: Work,
}

#[derive(Debug, Args)]
pub(crate) struct Look {
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) store: Store,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The session's id, or a beginning of it that no other has
    pub(crate) id: String,
    /// The call's id, as `why` names it
    pub(crate) call: String,
    #[command(flatten)]
    pub(crate) what: What,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct What {
    /// The call's result, or the reply to its question
    #[arg(long, value_name = "TEXT")]
    pub(crate) result: Option<String>,
    /// The call failed, and why
    #[arg(long, value_name = "REASON")]
    pub(crate) failure: Option<String>,
    /// The call may start
    #[arg(long)]
    pub(crate) approve: bool,
    /// The call may not start, and why
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    pub(crate) deny: Option<String>,
    /// The call may start with these arguments
    #[arg(long, value_name = "JSON")]
    pub(crate) edit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The history
    pub(crate) file: PathBuf,
    /// The session that is made; a new id unless given
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The file's format; recognised unless given
    #[arg(long, value_name = "F")]
    pub(crate) format: Option<String>,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The file to write; standard output unless given
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The last record that is copied; all unless given
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// The new session's id; one is made up unless given
    #[arg(long, value_name = "ID")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The sessions' ids, or beginnings of them that no others have
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Delete without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The history
    pub(crate) file: PathBuf,
    /// Its format; recognised unless given
    #[arg(long, value_name = "F")]
    pub(crate) format: Option<String>,
    /// The API it is to be valid for; the file's own unless given
    #[arg(long = "for", value_name = "API")]
    pub(crate) api: Option<String>,
    /// What is known of the next request, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) target: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// The history; it is never written
    pub(crate) file: PathBuf,
    /// Its format; recognised unless given
    #[arg(long, value_name = "F")]
    pub(crate) format: Option<String>,
    /// The API it is to be valid for
    #[arg(long = "for", value_name = "API")]
    pub(crate) api: String,
    /// What is known of the next request, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) target: Option<String>,
    /// The message to end with
    #[arg(long, value_name = "TEXT")]
    pub(crate) append: Option<String>,
    /// The file to write the request to
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// The response body, a stream or JSON
    pub(crate) file: PathBuf,
    /// The API it came from
    #[arg(long, value_name = "API")]
    pub(crate) api: String,
    /// The HTTP status it came with
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) status: u16,
    /// The headers it came with: a file with a JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) headers: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Keep the demo's directory
    #[arg(long)]
    pub(crate) keep: bool,
}
