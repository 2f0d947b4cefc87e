//! What a history file says, and whether it can be sent: as JSON and in words.

use rethread_core::{Cause, Json, NotResumable, ResumePoint, Stop};
use serde::Serialize;

use crate::formats::{FileProblem, Format, Loaded};
use crate::rules::{self, Problem, Target, neutral};
use crate::{Api, Change, repair};

/// What a history file says and whether an API would take it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// How the file is written.
    pub format: Format,
    /// The API it was checked for, if any.
    pub api: Option<Api>,
    /// How many messages were read.
    pub messages: usize,
    /// Where the history stopped.
    pub point: Result<ResumePoint, NotResumable>,
    /// What is wrong with the file, then what is wrong with the history.
    pub problems: Vec<Problem>,
    /// Whether the API would take the history as it stands. Damage of the file does not count: what is
    /// left can be sent.
    pub valid: bool,
}

impl Check {
    /// Checks a history for an API; without one for that of the file, and where a file has none of its
    /// own, for what all of them want.
    #[must_use]
    pub fn of(loaded: &Loaded, api: Option<Api>, target: &Target) -> Self {
        let target = repair::known(loaded, target);
        let api = api.or_else(|| loaded.format.api());
        let found = match (&loaded.document, api) {
            (Some(document), Some(api)) if loaded.format.native_api() == Some(api) => {
                rules::check(api, &document.items, &target)
            }
            _ => neutral::check(&loaded.messages, &target),
        };
        let mut problems: Vec<Problem> = loaded.problems.iter().map(of_file).collect();
        let valid = found.is_empty();
        problems.extend(found);
        Self {
            format: loaded.format,
            api,
            messages: loaded.messages.len(),
            point: loaded.resume_point(),
            problems,
            valid,
        }
    }

    /// The document the `check` command prints.
    #[must_use]
    pub fn to_json(&self) -> String {
        json(&CheckJson {
            format: self.format.as_str(),
            messages: self.messages,
            point: PointJson::of(&self.point),
            problems: &self.problems,
            valid: self.valid,
        })
    }

    /// The exit code of the `check` command: 0 valid, 3 not.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        if self.valid { 0 } else { 3 }
    }

    /// The same in words, a line each.
    #[must_use]
    pub fn explain(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} in the format {}",
            count(self.messages, "message"),
            self.format
        )];
        lines.push(match &self.point {
            Ok(point) => point.description(),
            Err(reason) => sentence(&reason.to_string()),
        });
        let word = place_word(self.format);
        for problem in &self.problems {
            let help = if problem.fixable {
                ""
            } else {
                " (no change of the history mends this)"
            };
            let (at, rule, detail) = (problem.at, problem.rule, &problem.detail);
            lines.push(format!("{word} {at}: {rule}: {detail}{help}"));
        }
        let api = self
            .api
            .map_or("any provider".to_owned(), |api| api.to_string());
        lines.push(match self.valid {
            true => format!("it can be sent to {api} as it is"),
            false => format!(
                "{api} would refuse it as it is; `rethread repair --for {}` makes it ready to send",
                self.api.map_or("API", Api::as_str)
            ),
        });
        lines
    }
}

/// What the places in files of a format are.
fn place_word(format: Format) -> &'static str {
    match format.native_api() {
        Some(_) => "item",
        None => "line",
    }
}

fn of_file(problem: &FileProblem) -> Problem {
    Problem {
        rule: problem.rule,
        at: problem.line,
        id: None,
        detail: problem.detail.clone(),
        fixable: problem.fixable,
    }
}

/// Checks a history and says what the `check` command prints, and its exit code: 0 valid, 3 not.
#[must_use]
pub fn check_report(loaded: &Loaded, api: Option<Api>, target: &Target) -> (String, i32) {
    let check = Check::of(loaded, api, target);
    (check.to_json(), check.exit_code())
}

/// Repairs a history and says what the `repair` command prints, and its exit code, 0.
#[must_use]
pub fn repair_report(
    loaded: &Loaded,
    api: Api,
    target: &Target,
    append: Option<&str>,
) -> (String, i32) {
    let repaired = repair::repair(loaded, api, target, append);
    let report = RepairJson {
        request: &repaired.request,
        changes: &repaired.changes,
    };
    (json(&report), 0)
}

/// What a repair changed, in words, a line each.
#[must_use]
pub fn explain_changes(format: Format, changes: &[Change]) -> Vec<String> {
    let word = place_word(format);
    if changes.is_empty() {
        return vec!["nothing had to change".to_owned()];
    }
    let line = |change: &Change| {
        let what = change.what.replace('_', " ");
        format!("{word} {}: {what}: {}", change.at, change.detail)
    };
    changes.iter().map(line).collect()
}

#[derive(Serialize)]
struct CheckJson<'a> {
    format: &'static str,
    messages: usize,
    point: PointJson<'a>,
    problems: &'a [Problem],
    valid: bool,
}

#[derive(Serialize)]
struct RepairJson<'a> {
    request: &'a Json,
    changes: &'a [Change],
}

/// A resume point as the commands print it.
#[derive(Serialize)]
#[serde(untagged)]
enum PointJson<'a> {
    Resumable {
        resumable: bool,
        kind: &'static str,
        description: String,
        unanswered: Vec<OpenCall<'a>>,
        stop: Option<&'a Stop>,
        cause: Option<&'static str>,
        draft: Option<()>,
    },
    Not {
        resumable: bool,
        reason: &'static str,
        description: String,
    },
}

#[derive(Serialize)]
struct OpenCall<'a> {
    id: &'a str,
    name: &'a str,
    state: &'static str,
}

impl<'a> PointJson<'a> {
    fn of(point: &'a Result<ResumePoint, NotResumable>) -> Self {
        match point {
            Ok(point) => {
                let open = point.unanswered.iter().map(|call| OpenCall {
                    id: &call.id,
                    name: &call.name,
                    state: call.state.as_str(),
                });
                Self::Resumable {
                    resumable: true,
                    kind: point.kind.as_str(),
                    description: point.description(),
                    unanswered: open.collect(),
                    stop: point.stop.as_ref(),
                    cause: point.cause.map(Cause::as_str),
                    draft: None,
                }
            }
            Err(reason) => Self::Not {
                resumable: false,
                reason: reason.as_str(),
                description: sentence(&reason.to_string()),
            },
        }
    }
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => String::new(),
    }
}

fn count(n: usize, what: &str) -> String {
    let end = if n == 1 { "" } else { "s" };
    format!("{n} {what}{end}")
}

fn json(value: &impl Serialize) -> String {
    // Text, numbers and JSON that was read: nothing here can fail to encode.
    Json::encode(value).map_or_else(|_| "{}".to_owned(), |json| json.get().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::formats::read;

    fn report(file: &str, format: Format, api: Option<Api>) -> (Value, i32) {
        let loaded = read(file.as_bytes(), format);
        let (text, code) = check_report(&loaded, api, &Target::default());
        (serde_json::from_str(&text).unwrap(), code)
    }

    #[test]
    fn a_report_says_the_point_the_problems_and_whether_it_is_valid() {
        let file = r#"[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{}"}}]}]"#;
        let (got, code) = report(file, Format::OpenAiChat, None);
        assert_eq!(code, 3);
        assert_eq!(got["format"], "openai-chat");
        assert_eq!(got["messages"], 2);
        assert_eq!(got["point"]["kind"], "recover_tools");
        let open = json!([{"id": "a", "name": "t", "state": "unknown"}]);
        assert_eq!(got["point"]["unanswered"], open);
        assert_eq!(got["problems"][0]["rule"], "unanswered_tool_call");
        assert_eq!(got["problems"][0]["at"], 1);
        assert_eq!(got["problems"][0]["fixable"], true);
        assert_eq!(got["valid"], false);
    }

    #[test]
    fn damage_that_was_set_aside_makes_nothing_invalid() {
        let file = "{\"role\":\"user\",\"content\":\"q\"}\n{\"role\":\"assistant\",\"content\":\"x\"}\n\0\0";
        let (got, code) = report(file, Format::Rethread, Some(Api::GeminiContents));
        assert_eq!((code, &got["valid"]), (0, &json!(true)));
        assert_eq!(got["problems"][0]["rule"], "nul_padding");
        assert_eq!(got["point"]["reason"], "completed");
    }

    #[test]
    fn people_are_told_the_same_in_words() {
        let file = "[{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"x\"}]";
        let loaded = read(file.as_bytes(), Format::OpenAiChat);
        let check = Check::of(&loaded, None, &Target::default());
        assert_eq!(
            check.explain(),
            [
                "1 message in the format openai-chat",
                "A tool result at the end answers no call; `repair` sets it aside.",
                "item 0: orphan_tool_result: a result for `a`, which no call before it asks for",
                "openai-chat would refuse it as it is; `rethread repair --for openai-chat` makes it ready to send",
            ]
        );
        let (text, code) = repair_report(&loaded, Api::OpenAiChat, &Target::default(), Some("q"));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(code, 0);
        assert_eq!(
            report["request"]["messages"],
            json!([{"role": "user", "content": "q"}])
        );
        let repaired = repair::repair(&loaded, Api::OpenAiChat, &Target::default(), None);
        assert_eq!(
            explain_changes(loaded.format, &repaired.changes),
            ["item 0: set aside: a result for `a`, which no call before it asks for"]
        );
    }
}
