//! Messages: what a model may see, in the neutral form all providers are translated from and to.
//!
//! The JSON of a message is *rethread JSON*: stable, documented, and what stores keep.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Json, Stop, StopReason, Text};

/// One item of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// Who speaks, and what.
    pub body: Body,
    /// The host's own data, a JSON object; never sent to a model.
    pub attributes: Option<Json>,
    /// False for a message that is stored but never sent. Such a message decides nothing.
    pub in_context: bool,
}

/// Who speaks, and what.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant)] // a record boxes its message; a second box would buy nothing
pub enum Body {
    /// An instruction of the host, kept for the record. Shown to the model again only when the
    /// message is marked as in context.
    System(Content),
    /// What a person said.
    User(Content),
    /// An instruction from the program, not the person. Providers see it as a user message.
    Agent(Content),
    /// A response of a model.
    Assistant(Assistant),
    /// The result of a tool call.
    Tool(ToolResult),
    /// A compaction: stands for everything before it.
    Summary(Content),
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the roles are described on `Body`
pub enum Role {
    System,
    User,
    Agent,
    Assistant,
    Tool,
    Summary,
}

impl Message {
    /// A message in context, without attributes.
    #[must_use]
    pub fn new(body: Body) -> Self {
        Self {
            body,
            attributes: None,
            in_context: true,
        }
    }

    /// What a person said.
    #[must_use]
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Body::User(content.into()))
    }

    /// An instruction from the program.
    #[must_use]
    pub fn agent(content: impl Into<Content>) -> Self {
        Self::new(Body::Agent(content.into()))
    }

    /// An instruction kept for the record, not shown to the model again.
    #[must_use]
    pub fn system(content: impl Into<Content>) -> Self {
        Self {
            in_context: false,
            ..Self::new(Body::System(content.into()))
        }
    }

    /// A compaction of everything before it.
    #[must_use]
    pub fn summary(content: impl Into<Content>) -> Self {
        Self::new(Body::Summary(content.into()))
    }

    /// A response that ended normally.
    #[must_use]
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Body::Assistant(Assistant::new(content)))
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        match &self.body {
            Body::System(_) => Role::System,
            Body::User(_) => Role::User,
            Body::Agent(_) => Role::Agent,
            Body::Assistant(_) => Role::Assistant,
            Body::Tool(_) => Role::Tool,
            Body::Summary(_) => Role::Summary,
        }
    }

    /// The content of any role.
    #[must_use]
    pub fn content(&self) -> &Content {
        match &self.body {
            Body::System(content)
            | Body::User(content)
            | Body::Agent(content)
            | Body::Summary(content) => content,
            Body::Assistant(assistant) => &assistant.content,
            Body::Tool(result) => &result.content,
        }
    }

    /// The response, if this is one.
    #[must_use]
    pub fn as_assistant(&self) -> Option<&Assistant> {
        match &self.body {
            Body::Assistant(assistant) => Some(assistant),
            _ => None,
        }
    }

    /// The tool result, if this is one.
    #[must_use]
    pub fn as_tool(&self) -> Option<&ToolResult> {
        match &self.body {
            Body::Tool(result) => Some(result),
            _ => None,
        }
    }
}

impl From<Assistant> for Message {
    fn from(assistant: Assistant) -> Self {
        Self::new(Body::Assistant(assistant))
    }
}

impl From<ToolResult> for Message {
    fn from(result: ToolResult) -> Self {
        Self::new(Body::Tool(result))
    }
}

/// A response of a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Assistant {
    /// The visible answer.
    pub content: Content,
    /// The readable part of the model's reasoning.
    pub reasoning: Option<Text>,
    /// The tools it asks for, in order.
    pub tool_calls: Vec<ToolCall>,
    /// How it ended; `None` for a normal end.
    pub stop: Option<Stop>,
    /// Where it came from.
    pub origin: Option<Origin>,
    /// The provider's own items exactly as received. They go back, byte for byte, to the same
    /// origin only, all or none.
    pub native: Vec<Json>,
    /// A digest of the canonical view the native items were stored with. The items are used only
    /// while it still fits; `None` trusts them.
    pub digest: Option<u64>,
    /// Tokens this response took.
    pub usage: Option<Usage>,
}

impl Assistant {
    /// A response with nothing but its answer.
    #[must_use]
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// The neutral reason it stopped for; a response without a stop ended normally.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        match &self.stop {
            Some(stop) => stop.reason,
            None if self.tool_calls.is_empty() => StopReason::EndTurn,
            None => StopReason::ToolUse,
        }
    }

    /// Whether nothing of this response can be sent: no text, no call, no native item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.is_blank() && self.tool_calls.is_empty() && self.native.is_empty()
    }

    /// The digest of what this response says in neutral terms, see [`Assistant::digest`].
    #[must_use]
    pub fn view_digest(&self) -> u64 {
        let mut hash = Digest::default();
        match &self.content {
            Content::Text(text) => hash.field(text.literal()),
            Content::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Text(text) => hash.field(text.literal()),
                        other => hash.field(&format!("{other:?}")),
                    }
                }
            }
        }
        if let Some(reasoning) = &self.reasoning {
            hash.field(reasoning.literal());
        }
        for call in &self.tool_calls {
            hash.field(&call.id);
            hash.field(&call.name);
            hash.field(call.arguments.get());
        }
        hash.0
    }

    /// Whether the native items still say what the view says.
    #[must_use]
    pub fn native_holds(&self) -> bool {
        !self.native.is_empty()
            && self
                .digest
                .is_none_or(|digest| digest == self.view_digest())
    }
}

/// A change detector: the same over versions and machines, eight bytes at a time. Not a defence
/// against someone who wants two texts to look equal.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn field(&mut self, text: &str) {
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let rest = rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.word(rest);
        self.word(text.len() as u64);
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The digest of several texts.
pub(crate) fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut digest = Digest::default();
    texts.into_iter().for_each(|text| digest.field(text));
    digest.0
}

/// Where a response came from. Native items go back only to an equal origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The wire format, such as `anthropic-messages`.
    pub api: String,
    /// The service, such as `anthropic`.
    pub provider: String,
    /// The model, as the request names it.
    pub model: String,
}

impl Origin {
    /// An origin.
    #[must_use]
    pub fn new(
        api: impl Into<String>,
        provider: impl Into<String>,
        model: impl Into<String>,
    ) -> Self {
        Self {
            api: api.into(),
            provider: provider.into(),
            model: model.into(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.provider, self.model, self.api)
    }
}

/// Tokens of one response or the sum of several. `None` means the provider did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens of the response, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Of the input, read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Of the input, written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Of the output, spent on reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Adds another response's tokens.
    pub fn add(&mut self, other: &Self) {
        fn sum(into: &mut Option<u64>, more: Option<u64>) {
            if let Some(more) = more {
                *into = Some(into.unwrap_or(0).saturating_add(more));
            }
        }
        sum(&mut self.input, other.input);
        sum(&mut self.output, other.output);
        sum(&mut self.cache_read, other.cache_read);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.reasoning, other.reasoning);
    }
}

/// A tool the model asks for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The provider's id. Unique within a response in a sound history, not over a session.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, a JSON object exactly as it came; `{}` when they do not decode.
    pub arguments: Json,
    /// Set when the arguments that came are no JSON object. Such a call is never run.
    pub undecoded: Option<Undecoded>,
}

/// Arguments that do not decode.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecoded {
    /// The text that came, if it is known.
    pub text: Option<Text>,
    /// Why it does not decode.
    pub error: String,
}

impl ToolCall {
    /// A call with decoded arguments. `arguments` must be a JSON object, see [`ToolCall::from_text`]
    /// for what a provider sent.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Json) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments,
            undecoded: None,
        }
    }

    /// A call with the argument text a provider sent: nothing and `null` are an empty object, an
    /// object is kept as it came, everything else is kept as undecoded.
    #[must_use]
    pub fn from_text(id: impl Into<String>, name: impl Into<String>, text: &str) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed == "null" {
            return Self::new(id, name, Json::empty_object());
        }
        let error = match Json::parse(trimmed) {
            // Decoding all of it finds what a scan does not: numbers out of range, nesting too deep.
            Ok(json) if json.is_object() => match json.decode::<serde::de::IgnoredAny>() {
                Ok(_) => return Self::new(id, name, json),
                Err(error) => error.to_string(),
            },
            Ok(_) => "the arguments are not a JSON object".to_owned(),
            // Some providers send raw control characters inside strings; these are taken.
            Err(error) => match Json::parse(&escape_controls(trimmed)) {
                Ok(json) if json.is_object() => return Self::new(id, name, json),
                _ => error.to_string(),
            },
        };
        Self {
            undecoded: Some(Undecoded {
                text: Some(Text::new(text)),
                error,
            }),
            ..Self::new(id, name, Json::empty_object())
        }
    }

    /// Whether the arguments decode.
    #[must_use]
    pub fn is_decoded(&self) -> bool {
        self.undecoded.is_none()
    }
}

/// Escapes raw control characters inside the strings of almost-JSON.
fn escape_controls(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    for char in json.chars() {
        if in_string && char < ' ' {
            out.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            out.push(char);
        }
        match char {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    out
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call it answers.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the tool gave back.
    pub content: Content,
    /// False for a failure.
    pub success: bool,
}

impl ToolResult {
    /// A successful result of a call.
    #[must_use]
    pub fn for_call(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: content.into(),
            success: true,
        }
    }

    /// A failed result of a call.
    #[must_use]
    pub fn failure(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self {
            success: false,
            ..Self::for_call(call, content)
        }
    }
}

/// What a message says: a text or a list of parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A text.
    Text(Text),
    /// Several parts.
    Parts(Vec<Part>),
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// A text.
    Text(Text),
    /// An image by its address.
    ImageUrl {
        /// The address.
        url: String,
    },
    /// An image by its bytes.
    ImageData {
        /// The media type, such as `image/png`.
        media_type: String,
        /// The bytes in base64.
        base64: String,
    },
    /// A part of a kind this version does not know, kept whole.
    Other(Json),
}

impl Content {
    /// Whether there is nothing but white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.is_blank(),
            Self::Parts(parts) => parts
                .iter()
                .all(|part| matches!(part, Part::Text(text) if text.is_blank())),
        }
    }

    /// All text, parts joined by a line break.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.to_str().into_owned(),
            Self::Parts(parts) => {
                let texts: Vec<_> = parts
                    .iter()
                    .filter_map(|part| match part {
                        Part::Text(text) => Some(text.to_str()),
                        _ => None,
                    })
                    .collect();
                texts.join("\n")
            }
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl<T: Into<Text>> From<T> for Content {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::Parts(parts)
    }
}

// ---------------------------------------------------------------- rethread JSON

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        match json.get().as_bytes().first() {
            Some(b'[') => json
                .decode()
                .map(Self::Parts)
                .map_err(serde::de::Error::custom),
            Some(b'n') => Ok(Self::default()),
            _ => Text::from_json(json).map(Self::Text).ok_or_else(|| {
                serde::de::Error::custom("`content` is neither a string nor a list of parts")
            }),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct PartJson {
    r#type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = PartJson {
            r#type: "image".to_owned(),
            text: None,
            url: None,
            media_type: None,
            base64: None,
        };
        match self {
            Self::Other(raw) => return raw.serialize(serializer),
            Self::Text(text) => {
                "text".clone_into(&mut json.r#type);
                json.text = Some(text.clone());
            }
            Self::ImageUrl { url } => json.url = Some(url.clone()),
            Self::ImageData { media_type, base64 } => {
                json.media_type = Some(media_type.clone());
                json.base64 = Some(base64.clone());
            }
        }
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Json::deserialize(deserializer)?;
        let json: PartJson = raw.decode().map_err(serde::de::Error::custom)?;
        Ok(match json {
            PartJson {
                r#type,
                text: Some(text),
                ..
            } if r#type == "text" => Self::Text(text),
            PartJson {
                r#type,
                url: Some(url),
                ..
            } if r#type == "image" => Self::ImageUrl { url },
            PartJson {
                r#type,
                media_type: Some(media_type),
                base64: Some(base64),
                ..
            } if r#type == "image" => Self::ImageData { media_type, base64 },
            _ => Self::Other(raw),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct CallJson {
    id: String,
    name: String,
    #[serde(default = "Json::empty_object")]
    arguments: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments_text: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let undecoded = self.undecoded.as_ref();
        CallJson {
            id: self.id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            arguments_text: undecoded.and_then(|u| u.text.clone()),
            error: undecoded.map(|u| u.error.clone()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = CallJson::deserialize(deserializer)?;
        if json.error.is_some() || json.arguments_text.is_some() {
            let error = json
                .error
                .unwrap_or_else(|| "the arguments do not decode".to_owned());
            let undecoded = Undecoded {
                text: json.arguments_text,
                error,
            };
            let arguments = if json.arguments.is_object() {
                json.arguments
            } else {
                Json::empty_object()
            };
            return Ok(Self {
                undecoded: Some(undecoded),
                ..Self::new(json.id, json.name, arguments)
            });
        }
        if json.arguments.is_object() {
            return Ok(Self::new(json.id, json.name, json.arguments));
        }
        Ok(Self::from_text(json.id, json.name, json.arguments.get()))
    }
}

/// A message as it is written: one flat object, so that it can be read in one pass.
#[derive(Serialize, Deserialize)]
struct MessageJson {
    role: Role,
    #[serde(default)]
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "stop_or_raw"
    )]
    stop: Option<StopJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native: Option<Vec<Json>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attributes: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_context: Option<bool>,
}

/// A stop as it may be written: in full, or as a provider's raw value.
enum StopJson {
    Full(Stop),
    Raw(String),
}

impl Serialize for StopJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Full(stop) => stop.serialize(serializer),
            Self::Raw(raw) => serializer.serialize_str(raw),
        }
    }
}

fn stop_or_raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StopJson>, D::Error> {
    let json = Json::deserialize(deserializer)?;
    match json.get().as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => json
            .decode()
            .map(|raw| Some(StopJson::Raw(raw)))
            .map_err(serde::de::Error::custom),
        _ => json
            .decode()
            .map(|stop| Some(StopJson::Full(stop)))
            .map_err(serde::de::Error::custom),
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Written by hand rather than through `MessageJson`, which would have to own a copy.
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role())?;
        match &self.body {
            Body::Tool(result) => {
                map.serialize_entry("tool_call_id", &result.call_id)?;
                map.serialize_entry("name", &result.name)?;
                map.serialize_entry("content", &result.content)?;
                map.serialize_entry("success", &result.success)?;
            }
            Body::Assistant(assistant) => {
                map.serialize_entry("content", &assistant.content)?;
                if let Some(reasoning) = &assistant.reasoning {
                    map.serialize_entry("reasoning", reasoning)?;
                }
                if !assistant.tool_calls.is_empty() {
                    map.serialize_entry("tool_calls", &assistant.tool_calls)?;
                }
                if let Some(stop) = &assistant.stop {
                    map.serialize_entry("stop", stop)?;
                }
                if let Some(origin) = &assistant.origin {
                    map.serialize_entry("origin", origin)?;
                }
                if !assistant.native.is_empty() {
                    map.serialize_entry("native", &assistant.native)?;
                }
                if let Some(digest) = assistant.digest {
                    map.serialize_entry("digest", &digest)?;
                }
                if let Some(usage) = &assistant.usage {
                    map.serialize_entry("usage", usage)?;
                }
            }
            Body::System(content)
            | Body::User(content)
            | Body::Agent(content)
            | Body::Summary(content) => {
                map.serialize_entry("content", content)?;
            }
        }
        if let Some(attributes) = &self.attributes {
            map.serialize_entry("attributes", attributes)?;
        }
        // A system message is out of context unless it says otherwise; any other is in.
        if self.in_context == matches!(self.body, Body::System(_)) {
            map.serialize_entry("in_context", &self.in_context)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = MessageJson::deserialize(deserializer)?;
        let body = match json.role {
            Role::System => Body::System(json.content),
            Role::User => Body::User(json.content),
            Role::Agent => Body::Agent(json.content),
            Role::Summary => Body::Summary(json.content),
            Role::Tool => Body::Tool(ToolResult {
                call_id: json
                    .tool_call_id
                    .ok_or_else(|| serde::de::Error::missing_field("tool_call_id"))?,
                name: json.name.unwrap_or_default(),
                content: json.content,
                success: json.success.unwrap_or(true),
            }),
            Role::Assistant => {
                let tool_calls = json.tool_calls.unwrap_or_default();
                let stop = json.stop.map(|stop| match stop {
                    StopJson::Full(stop) => stop,
                    StopJson::Raw(raw) => Stop::from_raw(&raw, !tool_calls.is_empty()),
                });
                Body::Assistant(Assistant {
                    content: json.content,
                    reasoning: json.reasoning,
                    tool_calls,
                    stop,
                    origin: json.origin,
                    native: json.native.unwrap_or_default(),
                    digest: json.digest,
                    usage: json.usage,
                })
            }
        };
        let in_context = json.in_context.unwrap_or(json.role != Role::System);
        Ok(Self {
            body,
            attributes: json.attributes,
            in_context,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(json: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Message>(json).unwrap()).unwrap()
    }

    #[test]
    fn every_role_comes_back_as_it_was_written() {
        for json in [
            r#"{"role":"user","content":"a\u00e9"}"#,
            r#"{"role":"agent","content":"go on","attributes":{"k":1e2}}"#,
            r#"{"role":"system","content":"s"}"#,
            r#"{"role":"system","content":"s","in_context":true}"#,
            r#"{"role":"summary","content":"s"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","url":"u"},{"type":"image","media_type":"image/png","base64":"AA=="},{"type":"odd","k":[1]}]}"#,
            r#"{"role":"tool","tool_call_id":"a","name":"t","content":"x","success":false,"in_context":false}"#,
            r#"{"role":"assistant","content":"","reasoning":"r","tool_calls":[{"id":"a","name":"t","arguments":{"n": 1e2}},{"id":"b","name":"t","arguments":{},"arguments_text":"{\"n\"","error":"cut"}],"stop":{"reason":"max_output","raw":"length"},"origin":{"api":"x","provider":"y","model":"z"},"native":[{"type":"thinking","signature":"a+/="}],"digest":7,"usage":{"input":1}}"#,
        ] {
            assert_eq!(round(json), json);
        }
    }

    #[test]
    fn a_plain_stop_is_a_raw_value() {
        let message: Message =
            serde_json::from_str(r#"{"role":"assistant","content":null,"stop":"length"}"#).unwrap();
        assert_eq!(
            message.as_assistant().unwrap().stop_reason(),
            StopReason::MaxOutput
        );
    }

    #[test]
    fn arguments_that_are_no_object_are_kept_and_marked() {
        assert_eq!(ToolCall::from_text("a", "t", "").arguments.get(), "{}");
        assert_eq!(
            ToolCall::from_text("a", "t", " null ").arguments.get(),
            "{}"
        );
        assert_eq!(
            ToolCall::from_text("a", "t", "{\"n\":1e2}").arguments.get(),
            "{\"n\":1e2}"
        );
        for text in ["{\"a\":", "[1]", "7", "{\"a\":1}}"] {
            let call = ToolCall::from_text("a", "t", text);
            assert_eq!(call.undecoded.unwrap().text.unwrap(), text);
        }
        let call = ToolCall::from_text("a", "t", "{\"a\":\"x\ny\"}");
        assert_eq!(call.arguments.get(), "{\"a\":\"x\\u000ay\"}");
    }

    #[test]
    fn native_items_hold_until_the_view_changes() {
        let mut assistant = Assistant::new("hello");
        assistant.native = vec![Json::parse(r#"{"type":"text","text":"hello"}"#).unwrap()];
        assistant.digest = Some(assistant.view_digest());
        assert!(assistant.native_holds());
        assistant.content = Content::from("other");
        assert!(!assistant.native_holds());
    }
}
