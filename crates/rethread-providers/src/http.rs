//! A model behind HTTP, whichever of the four APIs it speaks.

mod answer;
mod client;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rethread_core::{
    Error, Json, LeftOut, Message, Model, ModelError, ModelErrorKind, ModelStream, Origin, Prompt,
    PromptOptions,
};
use rethread_wire::{Api, Encoder, Target};

/// How long to wait for a service. Running out of any of these counts as an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection stands; 10 seconds unless set.
    pub connect: Duration,
    /// From then until the first byte of the response's body; 10 minutes unless set, since a model
    /// may think first.
    pub first_byte: Duration,
    /// Between two bytes of the body; 5 minutes unless set. Comments and pings count.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(300),
        }
    }
}

/// A model behind HTTP. Made by [`Anthropic`](crate::Anthropic), [`OpenAiChat`](crate::OpenAiChat),
/// [`OpenAiResponses`](crate::OpenAiResponses) or [`Gemini`](crate::Gemini); cheap to clone.
///
/// It does not retry: a run does, and knows what it may spend.
#[derive(Clone)]
pub struct HttpModel {
    setup: Arc<Setup>,
    client: Arc<OnceLock<Result<Client, String>>>,
}

#[derive(Clone)]
struct Setup {
    api: Api,
    origin: Origin,
    base_url: String,
    auth: Auth,
    key: Option<String>,
    headers: Vec<(String, String)>,
    timeouts: Timeouts,
    max_output: Option<u32>,
    fields: Vec<(String, Json)>,
    switches: Vec<Json>,
}

/// How the key is shown to the service.
#[derive(Clone, Copy)]
pub(crate) enum Auth {
    Bearer,
    /// `x-api-key` (Anthropic).
    ApiKey,
    /// `x-goog-api-key` (Google).
    GoogleKey,
}

impl HttpModel {
    pub(crate) fn new(api: Api, provider: &str, model: String, base_url: &str, auth: Auth) -> Self {
        Self {
            setup: Arc::new(Setup {
                api,
                origin: Origin::new(api.as_str(), provider, model),
                base_url: base_url.trim_end_matches('/').to_owned(),
                auth,
                key: None,
                headers: Vec::new(),
                timeouts: Timeouts::default(),
                max_output: None,
                fields: Vec::new(),
                switches: Vec::new(),
            }),
            client: Arc::default(),
        }
    }

    fn set(mut self, set: impl FnOnce(&mut Setup)) -> Self {
        set(Arc::make_mut(&mut self.setup));
        // What was built for other settings is of no use.
        self.client = Arc::default();
        self
    }

    /// Where the service is. For the OpenAI APIs it usually ends in `/v1`; for the others it has no
    /// path.
    #[must_use]
    pub fn base_url(self, url: impl Into<String>) -> Self {
        let url = url.into().trim_end_matches('/').to_owned();
        self.set(|setup| setup.base_url = url)
    }

    /// The key. It is never shown, neither by `Debug` nor in an error.
    #[must_use]
    pub fn api_key(self, key: impl Into<String>) -> Self {
        let key = Some(key.into()).filter(|key| !key.is_empty());
        self.set(|setup| setup.key = key)
    }

    /// The name under which the service's responses are stored. Reasoning goes back only to the same
    /// service, so two that share no accounts should have two names.
    #[must_use]
    pub fn provider(self, name: impl Into<String>) -> Self {
        self.set(|setup| setup.origin.provider = name.into())
    }

    /// The model's name, as the service knows it.
    #[must_use]
    pub fn model(self, name: impl Into<String>) -> Self {
        self.set(|setup| setup.origin.model = name.into())
    }

    /// The most tokens of a response, unless the agent says otherwise.
    #[must_use]
    pub fn max_output(self, tokens: u32) -> Self {
        self.set(|setup| setup.max_output = Some(tokens))
    }

    /// Adds a header to every request. Its value is not shown.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|setup| setup.headers.push((name.into(), value.into())))
    }

    /// How long to wait.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        self.set(|setup| setup.timeouts = timeouts)
    }

    /// Adds a top-level field to every request, such as `temperature`, `thinking` or
    /// `reasoning_effort`. Tools given here, which the service runs itself, stand beside the agent's.
    #[must_use]
    pub fn field(self, name: impl Into<String>, value: Json) -> Self {
        self.set(|setup| setup.fields.push((name.into(), value)))
    }

    /// Flips switches of what is known of the service, by name; see [`Target::with`].
    ///
    /// # Errors
    /// When a switch is not known or its value is of the wrong type.
    pub fn target(self, switches: Json) -> Result<Self, Error> {
        let setup = &self.setup;
        Target::new(setup.api, &setup.base_url, &setup.origin.model)
            .with(setup.api, &switches)
            .map_err(|error| Error::Setup(format!("the target cannot be read: {error}")))?;
        Ok(self.set(|setup| setup.switches.push(switches)))
    }

    /// The client, built when it is first needed.
    fn client(&self) -> Result<Client, ModelError> {
        let setup = &self.setup;
        let built = self
            .client
            .get_or_init(|| client::build(&setup.base_url, setup.timeouts.connect));
        built.clone().map_err(invalid)
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("origin", &self.setup.origin)
            .field("base_url", &self.setup.base_url)
            .finish_non_exhaustive()
    }
}

impl Model for HttpModel {
    fn origin(&self) -> &Origin {
        &self.setup.origin
    }

    fn prompt(&self, options: &PromptOptions) -> Box<dyn Prompt> {
        let setup = &self.setup;
        let mut target = Target::new(setup.api, &setup.base_url, &setup.origin.model);
        for switches in &setup.switches {
            // They were read once before.
            if let Ok(switched) = target.clone().with(setup.api, switches) {
                target = switched;
            }
        }
        target.max_output = setup.max_output.or(target.max_output);
        target.fields.extend(setup.fields.iter().cloned());
        Box::new(HttpPrompt {
            encoder: Encoder::new(setup.api, setup.origin.clone(), options, target),
            model: self.clone(),
        })
    }
}

struct HttpPrompt {
    encoder: Encoder,
    model: HttpModel,
}

impl Prompt for HttpPrompt {
    fn push(&mut self, message: &Message) {
        self.encoder.push(message);
    }

    fn send(&mut self) -> ModelStream {
        let call = self.model.setup.call(self.encoder.body());
        Box::pin(answer::Answer::new(self.model.clone(), call))
    }

    fn left_out(&mut self) -> Vec<LeftOut> {
        self.encoder.left_out()
    }
}

/// A request, ready to be sent.
struct Call {
    url: String,
    headers: HeaderMap,
    body: rethread_wire::Body,
}

impl Setup {
    fn call(&self, body: rethread_wire::Body) -> Result<Call, ModelError> {
        Ok(Call {
            url: self.url(),
            headers: self.headers()?,
            body,
        })
    }

    fn url(&self) -> String {
        let base = self.base_url.as_str();
        match self.api {
            Api::AnthropicMessages => {
                format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base))
            }
            Api::OpenAiResponses => format!("{base}/responses"),
            Api::GeminiContents => {
                let base = base.strip_suffix("/v1beta").unwrap_or(base);
                let model = self.origin.model.as_str();
                let folder = if model.contains('/') { "" } else { "models/" };
                format!("{base}/v1beta/{folder}{model}:streamGenerateContent?alt=sse")
            }
            _ => format!("{base}/chat/completions"),
        }
    }

    fn headers(&self) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        let mut add = |name: &str, value: &str| {
            let bad =
                |what: &str| invalid(format!("the {what} of the header `{name}` cannot be sent"));
            let header: HeaderName = name.parse().map_err(|_| bad("name"))?;
            let mut value: HeaderValue = value.parse().map_err(|_| bad("value"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
            Ok::<(), ModelError>(())
        };
        add("content-type", "application/json")?;
        add("accept", "text/event-stream")?;
        if self.api == Api::AnthropicMessages {
            add("anthropic-version", "2023-06-01")?;
        }
        if let Some(key) = &self.key {
            match self.auth {
                Auth::Bearer => add("authorization", &format!("Bearer {key}"))?,
                Auth::ApiKey => add("x-api-key", key)?,
                Auth::GoogleKey => add("x-goog-api-key", key)?,
            }
        }
        for (name, value) in &self.headers {
            add(name, value)?;
        }
        Ok(headers)
    }

    /// An error without the key, whatever the service says in it.
    fn redacted(&self, mut error: ModelError) -> ModelError {
        if let Some(key) = self.key.as_deref().filter(|key| key.len() >= 8) {
            error.message = error.message.replace(key, "…");
        }
        error
    }
}

fn invalid(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::InvalidRequest, message)
}
