//! What is known of the next request.

use rethread_core::Json;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::Api;
use crate::encode::{IdRule, Target as EncodeTarget};

/// What is known of the next request, so far as a history has to fit it. Nothing is known by default.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Target {
    /// Whether the response may reason.
    pub thinking: Option<bool>,
    /// Whether the model takes a request that ends with a response, which it then goes on with.
    pub prefill: Option<bool>,
    /// Whether the service keeps what it answers.
    pub store: Option<bool>,
    /// Whether the model reasons, so that its items come with their reasoning.
    pub reasoning: Option<bool>,
    /// The family of the model, such as `gemini-3` or `deepseek`.
    pub family: Option<String>,
    /// The service, such as `openai`.
    pub provider: Option<String>,
    /// Which call ids are accepted.
    pub ids: Option<IdRule>,
    /// The longest arguments a call may have, in characters.
    pub max_argument_chars: Option<usize>,
    /// Whether the request goes on from something the service has, so that calls it answers need not
    /// be in it.
    pub chained: bool,
    /// What it was read from.
    told: Option<Json>,
}

impl Target {
    /// Reads a JSON object of switches by their names: `thinking`, `prefill`, `store`, `reasoning`,
    /// `family`, `provider`, `id_pattern`, `max_argument_chars`, and those of an
    /// [encoder's target](crate::Target::with).
    ///
    /// # Errors
    /// When it is no object, has another name, or a value of the wrong type.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let json = Json::parse(json)?;
        let told: Told = json.decode()?;
        // Finds names and values that nothing understands.
        encoder(Api::OpenAiChat, "", Some(&json))?;
        Ok(Self {
            thinking: told.thinking,
            prefill: told.prefill,
            store: told.store,
            reasoning: told.reasoning,
            family: told.family.map(|name| name.to_ascii_lowercase()),
            provider: told.provider.map(|name| name.to_ascii_lowercase()),
            ids: told
                .id_pattern
                .map(|pattern| pattern.parse())
                .transpose()
                .map_err(serde_json::Error::custom)?,
            // No arguments are `{}`.
            max_argument_chars: told.max_argument_chars.map(|most| most.max(2)),
            chained: false,
            told: Some(json),
        })
    }

    /// Whether the service or the family of the model has a name with this word.
    pub(crate) fn is(&self, word: &str) -> bool {
        let names = [&self.family, &self.provider];
        names.into_iter().flatten().any(|name| name.contains(word))
    }

    /// The version of Gemini, if that is what it is.
    pub(crate) fn gemini_version(&self) -> Option<u32> {
        let name = self.family.as_deref()?;
        let rest = name.split("gemini-").nth(1)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    /// Whether it is known that a request may not end with a response.
    pub(crate) fn refuses_prefill(&self, api: Api) -> bool {
        match self.prefill {
            // No model of Anthropic's that reasons goes on with a response.
            None => api == Api::AnthropicMessages && self.thinking == Some(true),
            Some(prefill) => !prefill,
        }
    }

    /// The same for an encoder.
    pub(crate) fn encoder(&self, api: Api, model: &str) -> EncodeTarget {
        // What was told has been understood before.
        encoder(api, model, self.told.as_ref())
            .unwrap_or_else(|_| EncodeTarget::new(api, "", model))
    }
}

fn encoder(api: Api, model: &str, told: Option<&Json>) -> Result<EncodeTarget, serde_json::Error> {
    let target = EncodeTarget::new(api, "", model);
    match told {
        Some(json) => target.with(api, json),
        None => Ok(target),
    }
}

/// What is read of it here; [`encoder`] refuses what nobody reads.
#[derive(Deserialize)]
struct Told {
    thinking: Option<bool>,
    prefill: Option<bool>,
    store: Option<bool>,
    #[serde(default, deserialize_with = "boolean")]
    reasoning: Option<bool>,
    family: Option<String>,
    provider: Option<String>,
    id_pattern: Option<String>,
    max_argument_chars: Option<usize>,
}

/// An encoder takes a word here, too.
fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let json = Json::deserialize(deserializer)?;
    Ok(json.decode().ok())
}
