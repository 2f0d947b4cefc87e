//! What is known of the service and the model a request goes to.

use rethread_core::Json;
use serde::Deserialize;

use super::ids::IdRule;
use crate::Api;

/// What is known of the service and the model a request goes to: the switches for everything in which
/// those that speak one API differ.
///
/// [`Target::new`] sets them by address and model name; [`Target::with`] changes some by name, so a
/// service nobody knew of needs no new code.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Target {
    /// The service, such as `openai`.
    pub provider: String,
    /// Whether the next response may reason; `None` for the service's default.
    pub thinking: Option<bool>,
    /// Whether a request may end with a response, which the model then goes on with.
    pub prefill: bool,
    /// Which call ids are accepted.
    pub ids: IdRule,
    /// Chat: what happens to the reasoning of earlier responses.
    pub reasoning: Reasoning,
    /// Chat: whether the token limit is `max_completion_tokens` rather than `max_tokens`.
    pub max_completion_tokens: bool,
    /// Chat: whether `stream_options` is understood.
    pub stream_options: bool,
    /// Chat: whether roles must alternate, with no user message behind a tool's.
    pub strict_roles: bool,
    /// Responses: whether the service keeps what it answers.
    pub store: bool,
    /// Responses: whether to ask for the reasoning in encrypted form.
    pub encrypted_reasoning: bool,
    /// Gemini: whether the calls of the current turn must be signed (Gemini 3 and later).
    pub signatures: bool,
    /// Anthropic: whether the service is asked to cache the conversation.
    pub cache: bool,
    /// The longest arguments a call may have, in bytes; longer ones go as `{}`.
    pub max_argument_chars: Option<usize>,
    /// The most tokens of a response unless the request says otherwise.
    pub max_output: Option<u32>,
    /// More top-level fields of the request, such as `thinking` or `temperature`.
    pub fields: Vec<(String, Json)>,
}

/// What happens to the reasoning of earlier responses in Chat Completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reasoning {
    /// It is not sent.
    Strip,
    /// It goes back to where it came from.
    #[default]
    Replay,
    /// As [`Reasoning::Replay`], and a response with calls always has `reasoning_content` (Kimi, MiMo).
    WithCalls,
    /// As [`Reasoning::Replay`], and from the first calls on every response has `reasoning_content`
    /// (DeepSeek).
    AfterCalls,
}

impl Target {
    /// What is known by default of a model at an address.
    #[must_use]
    pub fn new(api: Api, base_url: &str, model: &str) -> Self {
        let provider = provider(api, base_url);
        let mut target = Self {
            provider: provider.to_owned(),
            thinking: None,
            prefill: api == Api::OpenAiResponses && provider == "openai",
            ids: match api {
                Api::AnthropicMessages => IdRule::WORD,
                Api::OpenAiChat => IdRule::SHORT,
                Api::OpenAiResponses => IdRule::LONG,
                Api::GeminiContents => IdRule::ANY,
            },
            reasoning: Reasoning::Replay,
            max_completion_tokens: false,
            stream_options: true,
            strict_roles: false,
            store: false,
            encrypted_reasoning: matches!(provider, "openai" | "openrouter" | "xai"),
            signatures: false,
            cache: false,
            // Documented for OpenAI: a string of at most 1 MiB.
            max_argument_chars: (provider == "openai").then_some(1 << 20),
            max_output: (api == Api::AnthropicMessages).then(|| anthropic_max_output(model)),
            fields: Vec::new(),
        };
        target.family(api, provider);
        target.family(api, model);
        target
    }

    /// Sets what a service or a family of models is known for.
    fn family(&mut self, api: Api, name: &str) {
        // A model may be named with its maker, as in `deepseek/deepseek-v3.2`.
        let name = name.to_ascii_lowercase();
        let is = |word: &str| name.contains(word);
        match api {
            Api::OpenAiChat if is("deepseek") => {
                self.reasoning = match self.thinking {
                    Some(false) => Reasoning::Strip,
                    None if is("deepseek-chat") => Reasoning::Strip,
                    _ => Reasoning::AfterCalls,
                };
            }
            Api::OpenAiChat if is("kimi") || is("moonshot") || is("mimo") => {
                self.reasoning = Reasoning::WithCalls;
            }
            Api::OpenAiChat if is("mistral") || is("codestral") || is("devstral") => {
                self.ids = IdRule::NINE;
                self.strict_roles = true;
                self.stream_options = false;
            }
            Api::OpenAiChat if is("gemma") || is("llama-2") => self.strict_roles = true,
            Api::OpenAiChat if name == "openai" => {
                self.max_completion_tokens = true;
                self.reasoning = Reasoning::Strip;
                self.prefill = true;
            }
            Api::GeminiContents => {
                // `gemini-3`, `gemini-3.1-pro`, `models/gemini-4-flash`
                let version = name.split("gemini-").nth(1).unwrap_or("");
                let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
                if let Ok(version) = digits.parse::<u32>() {
                    self.signatures = version >= 3;
                }
            }
            _ => {}
        }
    }

    /// Changes switches by name. The JSON is an object; names are those of the fields, and `family`
    /// for all that a family of models is known for, `id_pattern` for [`Target::ids`], `reasoning` as
    /// a boolean for [`Target::encrypted_reasoning`] or as a word for [`Target::reasoning`].
    ///
    /// # Errors
    /// When it is no object, has another name, or a value of the wrong type.
    pub fn with(mut self, api: Api, json: &Json) -> Result<Self, serde_json::Error> {
        let told: Told = json.decode()?;
        if let Some(provider) = told.provider {
            self.family(api, &provider);
            self.provider = provider;
        }
        self.thinking = told.thinking.or(self.thinking);
        if let Some(family) = &told.family {
            self.family(api, family);
        }
        fn set<T>(switch: &mut T, told: Option<T>) {
            if let Some(told) = told {
                *switch = told;
            }
        }
        set(&mut self.prefill, told.prefill);
        set(&mut self.max_completion_tokens, told.max_completion_tokens);
        set(&mut self.stream_options, told.stream_options);
        set(&mut self.strict_roles, told.strict_roles);
        set(&mut self.store, told.store);
        set(&mut self.signatures, told.signatures);
        set(&mut self.cache, told.cache);
        self.max_argument_chars = told.max_argument_chars.or(self.max_argument_chars);
        self.max_output = told.max_output.or(self.max_output);
        match told.reasoning {
            Some(ToldReasoning::Encrypted(encrypted)) => self.encrypted_reasoning = encrypted,
            Some(ToldReasoning::Chat(reasoning)) => self.reasoning = reasoning,
            None => {}
        }
        if let Some(pattern) = told.id_pattern {
            self.ids = pattern.parse().map_err(serde::de::Error::custom)?;
        }
        if let Some(fields) = told.fields {
            self.fields.extend(fields);
        }
        Ok(self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    thinking: Option<bool>,
    prefill: Option<bool>,
    store: Option<bool>,
    reasoning: Option<ToldReasoning>,
    family: Option<String>,
    provider: Option<String>,
    id_pattern: Option<String>,
    max_argument_chars: Option<usize>,
    max_completion_tokens: Option<bool>,
    stream_options: Option<bool>,
    strict_roles: Option<bool>,
    signatures: Option<bool>,
    cache: Option<bool>,
    max_output: Option<u32>,
    fields: Option<std::collections::BTreeMap<String, Json>>,
}

/// Told, not stored, so that both forms may share a name.
#[derive(Deserialize)]
#[serde(untagged)]
enum ToldReasoning {
    Encrypted(bool),
    Chat(Reasoning),
}

/// The service behind an address, by its host; the API's own if there is no address.
fn provider(api: Api, base_url: &str) -> &str {
    const KNOWN: &[(&str, &str)] = &[
        ("openrouter.ai", "openrouter"),
        ("deepseek.com", "deepseek"),
        ("mistral.ai", "mistral"),
        ("moonshot.", "kimi"),
        ("api.x.ai", "xai"),
        ("groq.com", "groq"),
        ("anthropic.com", "anthropic"),
        ("openai.com", "openai"),
        ("openai.azure.com", "openai"),
        ("googleapis.com", "google"),
    ];
    let host = base_url
        .split_once("://")
        .map_or(base_url, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or("");
    if let Some((_, name)) = KNOWN.iter().find(|(part, _)| host.contains(part)) {
        return name;
    }
    match api {
        _ if !host.is_empty() => host,
        Api::AnthropicMessages => "anthropic",
        Api::OpenAiChat | Api::OpenAiResponses => "openai",
        Api::GeminiContents => "google",
    }
}

/// Anthropic wants a limit and refuses one beyond the model's own. These are the smallest of each
/// generation in its model table.
fn anthropic_max_output(model: &str) -> u32 {
    if !model.contains("claude") || model.contains("claude-3-5") {
        8_192
    } else if model.contains("claude-3-7") || !model.contains("claude-3-") {
        32_000
    } else {
        4_096
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(api: Api, json: &str) -> Result<Target, serde_json::Error> {
        Target::new(api, "", "m").with(api, &Json::parse(json).unwrap())
    }

    #[test]
    fn services_and_models_are_known_by_name() {
        let chat = |url, model| Target::new(Api::OpenAiChat, url, model);
        assert!(chat("https://api.openai.com/v1", "gpt-5").max_completion_tokens);
        assert!(!chat("http://127.0.0.1:8080/v1", "qwen").max_completion_tokens);
        assert_eq!(
            chat("https://api.deepseek.com", "deepseek-reasoner").reasoning,
            Reasoning::AfterCalls
        );
        assert_eq!(
            chat("https://api.deepseek.com", "deepseek-chat").reasoning,
            Reasoning::Strip
        );
        assert_eq!(
            chat("https://openrouter.ai/api/v1", "moonshotai/kimi-k2.6").reasoning,
            Reasoning::WithCalls
        );
        assert_eq!(
            chat("https://api.mistral.ai/v1", "magistral").ids,
            IdRule::NINE
        );
        let gemini = |model| Target::new(Api::GeminiContents, "", model).signatures;
        assert!(gemini("gemini-3-pro") && gemini("models/gemini-10") && !gemini("gemini-2.5-pro"));
        let anthropic = |model| Target::new(Api::AnthropicMessages, "", model).max_output;
        assert_eq!(anthropic("claude-3-haiku-20240307"), Some(4_096));
        assert_eq!(anthropic("claude-opus-4-1"), Some(32_000));
    }

    #[test]
    fn switches_are_flipped_by_name() {
        let target = told(
            Api::OpenAiChat,
            r#"{"family":"deepseek","thinking":true,"id_pattern":"^[a-zA-Z0-9]{9}$","prefill":false}"#,
        )
        .unwrap();
        assert_eq!(target.reasoning, Reasoning::AfterCalls);
        assert_eq!(target.ids, IdRule::NINE);
        assert!(
            told(Api::GeminiContents, r#"{"family":"gemini-3"}"#)
                .unwrap()
                .signatures
        );
        assert!(
            !told(Api::OpenAiResponses, r#"{"reasoning":false}"#)
                .unwrap()
                .encrypted_reasoning
        );
        let error = told(Api::OpenAiChat, r#"{"colour":1}"#).unwrap_err();
        assert!(error.to_string().contains("colour"), "{error}");
    }
}
