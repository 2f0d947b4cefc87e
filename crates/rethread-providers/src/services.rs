//! The services that are known by name.

use rethread_core::Error;
use rethread_wire::Api;

use crate::HttpModel;
use crate::http::Auth;

/// Anthropic Messages, and the services that copy it.
///
/// ```no_run
/// use rethread_providers::Anthropic;
///
/// let model = Anthropic::from_env("claude-opus-4-1")?.max_output(8_000);
/// # Ok::<(), rethread_core::Error>(())
/// ```
#[derive(Debug)]
pub enum Anthropic {}

/// OpenAI Chat Completions, and the many services and local servers that copy it.
#[derive(Debug)]
pub enum OpenAiChat {}

/// OpenAI Responses.
#[derive(Debug)]
pub enum OpenAiResponses {}

/// Google Gemini.
#[derive(Debug)]
pub enum Gemini {}

impl Anthropic {
    /// A model with the key in `ANTHROPIC_API_KEY`, at `ANTHROPIC_BASE_URL` if that is set.
    ///
    /// # Errors
    /// When there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, Error> {
        from_env(
            Self::model(model),
            &["ANTHROPIC_API_KEY"],
            "ANTHROPIC_BASE_URL",
        )
    }

    /// A model with a key.
    #[must_use]
    pub fn with_key(model: impl Into<String>, key: impl Into<String>) -> HttpModel {
        Self::model(model).api_key(key)
    }

    fn model(model: impl Into<String>) -> HttpModel {
        let base_url = "https://api.anthropic.com";
        let api = Api::AnthropicMessages;
        HttpModel::new(api, "anthropic", model.into(), base_url, Auth::ApiKey)
    }
}

impl OpenAiChat {
    /// A model of OpenAI with the key in `OPENAI_API_KEY`, at `OPENAI_BASE_URL` if that is set.
    ///
    /// # Errors
    /// When there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, Error> {
        let model = chat("openai", model, "https://api.openai.com/v1");
        from_env(model, &["OPENAI_API_KEY"], "OPENAI_BASE_URL")
    }

    /// A model of OpenAI with a key. With another [`HttpModel::base_url`] and
    /// [`HttpModel::provider`] this is any service that speaks Chat Completions.
    #[must_use]
    pub fn with_key(model: impl Into<String>, key: impl Into<String>) -> HttpModel {
        chat("openai", model, "https://api.openai.com/v1").api_key(key)
    }

    /// A model of OpenRouter with the key in `OPENROUTER_API_KEY`, at `OPENROUTER_BASE_URL` if that
    /// is set.
    ///
    /// # Errors
    /// When there is no key.
    pub fn openrouter(model: impl Into<String>) -> Result<HttpModel, Error> {
        let model = chat("openrouter", model, "https://openrouter.ai/api/v1");
        from_env(model, &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL")
    }

    /// A model of DeepSeek with the key in `DEEPSEEK_API_KEY`, at `DEEPSEEK_BASE_URL` if that is set.
    ///
    /// # Errors
    /// When there is no key.
    pub fn deepseek(model: impl Into<String>) -> Result<HttpModel, Error> {
        let model = chat("deepseek", model, "https://api.deepseek.com");
        from_env(model, &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL")
    }

    /// A model of an Ollama on this machine, or at `OLLAMA_BASE_URL`.
    #[must_use]
    pub fn ollama(model: impl Into<String>) -> HttpModel {
        let model = chat("ollama", model, "http://127.0.0.1:11434/v1");
        at(model, "OLLAMA_BASE_URL")
    }

    /// The model of a llama.cpp server, such as `http://127.0.0.1:8080`. The server answers whatever
    /// name it is asked for, so its address is its name; [`HttpModel::model`] sets another.
    #[must_use]
    pub fn llama_cpp(url: impl Into<String>) -> HttpModel {
        let url = url.into();
        let base = url.trim_end_matches('/').trim_end_matches("/v1");
        chat("llama.cpp", base, &format!("{base}/v1"))
    }
}

impl OpenAiResponses {
    /// A model with the key in `OPENAI_API_KEY`, at `OPENAI_BASE_URL` if that is set.
    ///
    /// # Errors
    /// When there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, Error> {
        from_env(Self::model(model), &["OPENAI_API_KEY"], "OPENAI_BASE_URL")
    }

    /// A model with a key.
    #[must_use]
    pub fn with_key(model: impl Into<String>, key: impl Into<String>) -> HttpModel {
        Self::model(model).api_key(key)
    }

    fn model(model: impl Into<String>) -> HttpModel {
        let base_url = "https://api.openai.com/v1";
        let api = Api::OpenAiResponses;
        HttpModel::new(api, "openai", model.into(), base_url, Auth::Bearer)
    }
}

impl Gemini {
    /// A model with the key in `GEMINI_API_KEY` or `GOOGLE_API_KEY`, at `GEMINI_BASE_URL` if that is
    /// set.
    ///
    /// # Errors
    /// When there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, Error> {
        let keys = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
        from_env(Self::model(model), &keys, "GEMINI_BASE_URL")
    }

    /// A model with a key.
    #[must_use]
    pub fn with_key(model: impl Into<String>, key: impl Into<String>) -> HttpModel {
        Self::model(model).api_key(key)
    }

    fn model(model: impl Into<String>) -> HttpModel {
        let base_url = "https://generativelanguage.googleapis.com";
        let model = model.into();
        let name = model.strip_prefix("models/").unwrap_or(&model).to_owned();
        HttpModel::new(
            Api::GeminiContents,
            "google",
            name,
            base_url,
            Auth::GoogleKey,
        )
    }
}

fn chat(provider: &str, model: impl Into<String>, base_url: &str) -> HttpModel {
    HttpModel::new(
        Api::OpenAiChat,
        provider,
        model.into(),
        base_url,
        Auth::Bearer,
    )
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name)
        .ok()
        .filter(|value| !value.trim().is_empty())
}

fn at(model: HttpModel, url: &str) -> HttpModel {
    match variable(url) {
        Some(url) => model.base_url(url),
        None => model,
    }
}

fn from_env(model: HttpModel, keys: &[&str], url: &str) -> Result<HttpModel, Error> {
    let Some(key) = keys.iter().find_map(|name| variable(name)) else {
        let names = keys.join(" or ");
        return Err(Error::Setup(format!("there is no API key; set {names}")));
    };
    Ok(at(model.api_key(key), url))
}
