//! A run as a person at a terminal sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rethread_core::{CallState, Event, Json, Outcome, StopReason};

use crate::point::waits_for;
use crate::term::{self, CYAN, DIM, GREEN, RED, YELLOW, paint, short};

/// Shows events: the answer on standard output as it comes, all else on standard error.
pub(crate) struct View {
    spinner: Option<ProgressBar>,
    /// Whether the text on standard output has not ended its line.
    in_line: bool,
    /// Tools at work, for the spinner.
    at_work: Vec<(String, String)>,
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            spinner: None,
            in_line: false,
            at_work: Vec::new(),
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::ModelStarted { .. } => self.wait("thinking"),
            Event::TextDelta { text } => {
                let text = term::clean(text);
                if let Some(last) = text.chars().last() {
                    self.stop_waiting();
                    term::text(&text);
                    self.in_line = last != '\n';
                }
            }
            Event::ReasoningDelta { .. } => self.wait("reasoning"),
            Event::ToolCallDelta { name, .. } if !name.is_empty() => {
                self.wait(&format!("asking for {}", short(name, 40)));
            }
            Event::ModelCompleted { stop, .. } => {
                self.stop_waiting();
                self.end_line();
                if let Some(stop) = stop.as_ref() {
                    self.stopped(stop.reason, stop.message.as_deref());
                }
            }
            Event::ToolStarted {
                call_id,
                name,
                arguments,
            } => {
                let name = short(name, 40);
                self.say(&call_line(&name, arguments));
                self.at_work.push((call_id.clone(), name));
                self.wait_for_tools();
            }
            Event::ToolProgress { message, .. } => self.wait(&short(message, 80)),
            Event::ToolCompleted { call_id, name } => {
                self.say(&format!("{} {}", paint(GREEN, "✓"), short(name, 40)));
                self.tool_ended(call_id);
            }
            Event::ToolFailed {
                call_id,
                name,
                error,
            } => {
                self.say(&format!(
                    "{} {}: {}",
                    paint(RED, "✗"),
                    short(name, 40),
                    short(error, 160)
                ));
                self.tool_ended(call_id);
            }
            Event::ToolSuspended {
                call_id,
                name,
                wait,
                ..
            } => {
                self.say(&format!(
                    "{} {} ({}) waits for {}",
                    paint(YELLOW, "…"),
                    short(name, 40),
                    short(call_id, 64),
                    waits_for(*wait)
                ));
                self.tool_ended(call_id);
            }
            Event::CallClosed { name, state, .. } => {
                let known = match state {
                    CallState::Unknown => "may or may not have run; the model is told so",
                    CallState::Suspended(_) => "was not answered; the model is told so",
                    _ => "did not run; the model is told so",
                };
                self.say(&paint(DIM, &format!("· {} {known}", short(name, 40))));
            }
            Event::SetAside { record, reason } => {
                self.say(&paint(
                    DIM,
                    &format!("· record {record} is set aside: {}", short(reason, 160)),
                ));
            }
            Event::Notice { .. } => {
                self.say(&paint(
                    DIM,
                    "· the model is told where its response stopped",
                ));
            }
            Event::Drift { what } => {
                self.say(&format!("{} {}", paint(YELLOW, "!"), short(what, 160)));
            }
            Event::LeftOut { item, reason } => {
                self.say(&paint(
                    DIM,
                    &format!("· {} is left out: {}", short(item, 60), short(reason, 160)),
                ));
            }
            Event::Retrying { wait_ms, error, .. } => {
                let seconds = Duration::from_millis(*wait_ms).as_secs_f64();
                self.say(&format!(
                    "{} {}; again in {seconds:.1} s",
                    paint(YELLOW, "!"),
                    short(error, 160)
                ));
                self.wait("waiting to try again");
            }
            Event::RunEnded { outcome, .. } => {
                self.stop_waiting();
                if *outcome != Outcome::Completed {
                    self.end_line();
                }
            }
            _ => {}
        }
    }

    /// Ends what is on the screen; nothing is shown after it.
    pub(crate) fn end(&mut self) {
        self.stop_waiting();
        self.end_line();
    }

    fn stopped(&mut self, reason: StopReason, message: Option<&str>) {
        let what = match reason {
            StopReason::MaxOutput => "the response reached the output limit",
            StopReason::Interrupted => "the response broke off",
            StopReason::Refusal => "the model declined",
            StopReason::ContextFull => "the context window is full",
            StopReason::Paused => return,
            _ => "the response stopped for an unknown reason",
        };
        let why = message
            .map(|message| format!(": {}", short(message, 160)))
            .unwrap_or_default();
        self.say(&format!("{} {what}{why}", paint(YELLOW, "!")));
    }

    fn say(&mut self, line: &str) {
        self.stop_waiting();
        self.end_line();
        term::say(line);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.in_line) {
            term::text("\n");
        }
    }

    fn tool_ended(&mut self, call_id: &str) {
        self.at_work.retain(|(id, _)| id != call_id);
        self.wait_for_tools();
    }

    fn wait_for_tools(&mut self) {
        let names: Vec<&str> = self.at_work.iter().map(|(_, name)| name.as_str()).collect();
        if !names.is_empty() {
            self.wait(&names.join(", "));
        }
    }

    /// Shows that something is being waited for, if there is a terminal to show it on.
    fn wait(&mut self, what: &str) {
        if self.in_line {
            return; // the text itself shows that something happens
        }
        let spinner = self.spinner.get_or_insert_with(|| {
            let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}…") {
                spinner.set_style(style);
            }
            spinner.enable_steady_tick(Duration::from_millis(100));
            spinner
        });
        spinner.set_message(what.to_owned());
    }

    fn stop_waiting(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

/// A call on one line.
pub(crate) fn call_line(name: &str, arguments: &Json) -> String {
    let call = format!("{} {name}", paint(CYAN, "▸"));
    match arguments_line(arguments) {
        none if none.is_empty() => call,
        arguments => format!("{call} {}", paint(DIM, &arguments)),
    }
}

/// Arguments on one line: short values as they are, long ones cut.
pub(crate) fn arguments_line(arguments: &Json) -> String {
    let Ok(fields) = arguments.decode::<BTreeMap<String, Json>>() else {
        return short(arguments.get(), 120);
    };
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| {
            let value = value
                .decode::<String>()
                .unwrap_or_else(|_| value.get().to_owned());
            format!("{name}={}", short(&value, 60))
        })
        .collect();
    short(&fields.join(" "), 160)
}
