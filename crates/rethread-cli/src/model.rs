//! The model a run calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Model, Origin, Tool};
use rethread_providers::{
    Anthropic, Gemini, OpenAiChat, OpenAiResponses, SCRIPT_API, Script, Timeouts,
};

use crate::failure::{Failure, chain};

/// The variable that names the model.
const VARIABLE: &str = "RETHREAD_MODEL";

/// The variable that says how long a response may be silent, in milliseconds.
const IDLE: &str = "RETHREAD_IDLE_TIMEOUT_MS";

/// The variables that hold keys.
pub(crate) const KEY_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
];

/// A model, and the tools that come with it.
pub(crate) struct Chosen {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
}

/// The model that was named, by an argument or the environment.
pub(crate) fn named(argument: Option<&str>) -> Result<Option<Chosen>, Failure> {
    let variable = || std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    argument
        .map(str::to_owned)
        .or_else(variable)
        .map(|name| open(&name))
        .transpose()
}

/// The model a session's last run used.
pub(crate) fn last(origin: Option<&Origin>) -> Result<Chosen, Failure> {
    match origin.and_then(name_of) {
        Some(name) => open(&name),
        None => Err(missing(origin)),
    }
}

/// Nobody says which model.
pub(crate) fn missing(last: Option<&Origin>) -> Failure {
    Failure::usage(match last {
        Some(origin) if origin.api == SCRIPT_API => {
            "the last run played a script; name it again with --model script:FILE".to_owned()
        }
        _ => format!(
            "no model is named; give --model, such as `--model anthropic:MODEL`, or set {VARIABLE}"
        ),
    })
}

const KNOWN: &str = "anthropic:MODEL, openai:MODEL, responses:MODEL, gemini:MODEL, ollama:MODEL, openrouter:MODEL, deepseek:MODEL, llama.cpp:URL, script:FILE";

fn open(name: &str) -> Result<Chosen, Failure> {
    let (service, model) = match name.split_once(':') {
        Some((service, model)) => (service, model),
        None => (service_of(name).ok_or_else(|| unknown(name))?, name),
    };
    if model.is_empty() {
        return Err(Failure::usage(format!(
            "`{name}` names no model; write one of {KNOWN}"
        )));
    }
    let model = match service {
        "script" => {
            let script = Script::open(model).map_err(|error| Failure::usage(chain(&error)))?;
            return Ok(Chosen {
                model: Arc::new(script.model()),
                tools: script.tools(),
            });
        }
        "anthropic" => Anthropic::from_env(model),
        "openai" => OpenAiChat::from_env(model),
        "responses" => OpenAiResponses::from_env(model),
        "gemini" => Gemini::from_env(model),
        "openrouter" => OpenAiChat::openrouter(model),
        "deepseek" => OpenAiChat::deepseek(model),
        "ollama" => Ok(OpenAiChat::ollama(model)),
        "llama.cpp" => Ok(OpenAiChat::llama_cpp(model)),
        _ => return Err(unknown(name)),
    };
    let model = model.map_err(|error| Failure::usage(format!("`{name}`: {}", chain(&error))))?;
    Ok(Chosen {
        model: Arc::new(model.timeouts(timeouts()?)),
        tools: Vec::new(),
    })
}

/// How long a service is waited for.
fn timeouts() -> Result<Timeouts, Failure> {
    let mut timeouts = Timeouts::default();
    if let Ok(text) = std::env::var(IDLE)
        && !text.is_empty()
    {
        let milliseconds = text.parse().ok().filter(|count| *count > 0);
        timeouts.idle = milliseconds.map(Duration::from_millis).ok_or_else(|| {
            Failure::usage(format!(
                "{IDLE} is `{text}`; set a number of milliseconds, such as 300000"
            ))
        })?;
    }
    Ok(timeouts)
}

fn unknown(name: &str) -> Failure {
    Failure::usage(format!("`{name}` is not a model; write one of {KNOWN}"))
}

/// The service of a well-known model name.
fn service_of(model: &str) -> Option<&'static str> {
    const PREFIXES: &[(&str, &str)] = &[
        ("claude-", "anthropic"),
        ("gpt-", "responses"),
        ("o1", "responses"),
        ("o3", "responses"),
        ("o4", "responses"),
        ("gemini-", "gemini"),
        ("deepseek-", "deepseek"),
    ];
    PREFIXES
        .iter()
        .find(|(prefix, _)| model.starts_with(prefix))
        .map(|(_, service)| *service)
}

/// The name of the model that made a response.
fn name_of(origin: &Origin) -> Option<String> {
    let service = match (origin.provider.as_str(), origin.api.as_str()) {
        (_, SCRIPT_API) => return None,
        ("openai", "openai-responses") => "responses",
        ("google", _) => "gemini",
        (provider, _) => provider,
    };
    Some(format!("{service}:{}", origin.model))
}

/// Stands where a model is needed and never called.
pub(crate) fn none() -> Result<Chosen, Failure> {
    let script = Script::from_json(r#"{"replies":[]}"#);
    let script = script.map_err(|error| Failure::usage(chain(&error)))?;
    Ok(Chosen {
        model: Arc::new(script.model()),
        tools: Vec::new(),
    })
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(f)
    }
}
