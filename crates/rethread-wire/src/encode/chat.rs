//! OpenAI Chat Completions and the servers that copy it.

use rethread_core::{Assistant, Body, Content, Json, Message, PromptOptions, ToolCall, ToolResult};
use serde::Deserialize;

use super::ids::Note;
use super::raw::{
    Piece, Raw, decoded, edited, is_blank, joined, pieces, put, quoted, splice, string,
};
use super::target::Reasoning;
use super::{End, NOTICE, Sheet, Tail, Target, call_name, is_said, literal, pair};

/// The conversation so far.
pub(super) struct Chat {
    last: Last,
    /// Images of tool results, which a tool message cannot hold: parts for a user message behind the
    /// results.
    images: Vec<u8>,
    /// Whether a response had calls.
    had_calls: bool,
}

/// The message before.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    /// The instructions, and nothing behind them.
    Instructions,
    System,
    User,
    /// A user message whose list of parts is still open, where roles must alternate.
    OpenUser,
    Assistant,
    Tool,
}

/// Stands between a tool's result and a message of the user where roles must alternate.
const BRIDGE: &str = "{\"role\":\"assistant\",\"content\":\"I have read the results.\"}";

/// What stands before and behind the messages.
pub(super) fn frame(model: &str, options: &PromptOptions, target: &Target) -> (Vec<u8>, Vec<u8>) {
    let mut head = Vec::new();
    put(&mut head, "{\"model\":");
    string(&mut head, model);
    put(&mut head, ",\"stream\":true,\"messages\":[");
    if let Some(instructions) = options.instructions.as_deref().filter(|text| is_said(text)) {
        put(&mut head, "{\"role\":\"system\",\"content\":");
        string(&mut head, instructions);
        head.push(b'}');
    }
    let mut tail = Tail::new(target);
    if let Some(max) = options.max_output.or(target.max_output) {
        let name = if target.max_completion_tokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        tail.member(name, |out| put(out, &max.to_string()));
    }
    if target.stream_options {
        tail.member("stream_options", |out| put(out, "{\"include_usage\":true}"));
    }
    let mut out = Vec::new();
    for (at, tool) in options.tools.iter().enumerate() {
        put(&mut out, if at > 0 { "," } else { "" });
        put(&mut out, "{\"type\":\"function\",\"function\":{\"name\":");
        string(&mut out, &tool.name);
        if is_said(&tool.description) {
            put(&mut out, ",\"description\":");
            string(&mut out, &tool.description);
        }
        put(&mut out, ",\"parameters\":");
        splice(&mut out, tool.parameters.get());
        put(&mut out, "}}");
    }
    tail.tools(out);
    if let Some(schema) = &options.response_schema {
        tail.member("response_format", |out| {
            put(
                out,
                "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"schema\":",
            );
            splice(out, schema.get());
            put(out, "}}");
        });
    }
    (head, tail.end())
}

/// A response as one message, as far as it matters here.
#[derive(Deserialize)]
struct Native<'a> {
    role: String,
    #[serde(borrow, default)]
    content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    reasoning_content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<Raw<'a>>,
    #[serde(borrow, default)]
    reasoning_details: Option<Raw<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Raw<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Raw<'a>>>,
}

#[derive(Deserialize)]
struct NativeCall<'a> {
    id: String,
    #[serde(borrow, default)]
    function: Option<NativeFunction<'a>>,
}

#[derive(Deserialize)]
struct NativeFunction<'a> {
    #[serde(borrow, default)]
    arguments: Option<Raw<'a>>,
}

impl Chat {
    pub(super) fn new(instructed: bool) -> Self {
        Self {
            last: if instructed {
                Last::Instructions
            } else {
                Last::Nothing
            },
            images: Vec::new(),
            had_calls: false,
        }
    }

    pub(super) fn push(&mut self, sheet: &mut Sheet, message: &Message) {
        match &message.body {
            Body::Assistant(response) => self.response(sheet, response),
            Body::Tool(result) => self.result(sheet, result),
            Body::System(content) if !sheet.target.strict_roles => {
                self.show_images(sheet);
                let out = sheet.out.tail();
                begin(out, &mut self.last, Last::System);
                put(out, "{\"role\":\"system\",\"content\":");
                joined(out, content);
                out.push(b'}');
            }
            Body::System(content)
            | Body::User(content)
            | Body::Agent(content)
            | Body::Summary(content) => {
                self.show_images(sheet);
                self.user(sheet, content);
            }
            _ => {}
        }
    }

    fn user(&mut self, sheet: &mut Sheet, content: &Content) {
        let strict = sheet.target.strict_roles;
        let is_text = match content {
            Content::Text(_) => true,
            Content::Parts(parts) => {
                parts.len() == 1 && pieces(content).all(|p| matches!(p, Piece::Text(_)))
            }
        };
        if is_text && !strict {
            let out = sheet.out.tail();
            begin(out, &mut self.last, Last::User);
            put(out, "{\"role\":\"user\",\"content\":");
            joined(out, content);
            return out.push(b'}');
        }
        let mut parts = std::mem::take(&mut sheet.scratch);
        parts.clear();
        write_parts(sheet, content, &mut parts);
        if parts.is_empty() {
            sheet.lost_part("message", "it has nothing the service takes");
        } else {
            user_parts(sheet.out.tail(), &mut self.last, strict, &parts);
        }
        sheet.scratch = parts;
    }

    fn response(&mut self, sheet: &mut Sheet, response: &Assistant) {
        self.show_images(sheet);
        sheet.ids.begin();
        let mut out = std::mem::take(&mut sheet.scratch);
        out.clear();
        let native = sheet.native(response);
        let sent = native.is_some_and(|items| self.write_native(sheet, response, items, &mut out));
        if !sent {
            self.write_view(sheet, response, &mut out);
        }
        self.had_calls |= !response.tool_calls.is_empty();
        if !out.is_empty() {
            let strict = sheet.target.strict_roles;
            let alone = match self.last {
                Last::Assistant => strict || !sheet.target.prefill,
                Last::Nothing | Last::Instructions | Last::System => strict,
                Last::User | Last::OpenUser | Last::Tool => false,
            };
            let tail = sheet.out.tail();
            if alone {
                begin(tail, &mut self.last, Last::User);
                notice(tail);
            }
            begin(tail, &mut self.last, Last::Assistant);
            tail.extend_from_slice(&out);
        }
        sheet.scratch = out;
    }

    /// What is sent as a response's reasoning if the service wants one.
    fn demanded(&self, sheet: &Sheet, response: &Assistant) -> Option<String> {
        let calls = !response.tool_calls.is_empty();
        let demanded = match sheet.target.reasoning {
            Reasoning::WithCalls => calls,
            Reasoning::AfterCalls => calls || self.had_calls,
            _ => return None,
        };
        let own = response.origin.as_ref() == Some(&sheet.origin);
        match &response.reasoning {
            Some(reasoning) if own => Some(super::raw::sendable(reasoning.literal()).into_owned()),
            _ if demanded => Some("\"\"".to_owned()),
            _ => None,
        }
    }

    /// Writes the response's own message; false, and nothing, if it cannot go back.
    fn write_native(
        &self,
        sheet: &mut Sheet,
        response: &Assistant,
        items: &[Json],
        out: &mut Vec<u8>,
    ) -> bool {
        let [item] = items else {
            sheet.unusable("they are not one message");
            return false;
        };
        let Some(native) = item
            .decode::<Native<'_>>()
            .ok()
            .filter(|n| n.role == "assistant")
        else {
            sheet.unusable("they are no message of an assistant");
            return false;
        };
        let came = native.tool_calls.as_deref().unwrap_or(&[]);
        let calls: Option<Vec<NativeCall<'_>>> = came
            .iter()
            .map(|raw| serde_json::from_str(raw.get()).ok())
            .collect();
        let calls = calls.unwrap_or_default();
        let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        let paired = pair(&ids, &response.tool_calls).filter(|_| calls.len() == came.len());
        let Some((paired, alone)) = paired else {
            sheet.unusable("they have other calls than the message");
            return false;
        };
        if response.tool_calls.is_empty() && native.content.is_none_or(is_nothing) {
            return false;
        }
        let mut set: Vec<(&str, String)> = Vec::new();
        let openai = sheet.target.provider == "openai";
        if sheet.target.reasoning == Reasoning::Strip {
            for (name, field) in [
                ("reasoning_content", native.reasoning_content),
                ("reasoning", native.reasoning),
                ("reasoning_details", native.reasoning_details),
            ] {
                if field.is_some() {
                    set.push((name, String::new()));
                }
            }
        } else if native
            .reasoning_content
            .is_none_or(|raw| !raw.get().starts_with('"'))
            && let Some(reasoning) = self.demanded(sheet, response)
        {
            set.push(("reasoning_content", reasoning));
        }
        if openai && native.annotations.is_some() {
            set.push(("annotations", String::new()));
        }
        let mut changed = !alone.is_empty() || (came.is_empty() && native.tool_calls.is_some());
        let mut all: Vec<String> = Vec::with_capacity(came.len());
        for ((raw, native), call) in came.iter().zip(&calls).zip(paired) {
            let mut set = Vec::new();
            let id = sheet.ids.call(&call.id, &call.name, Note::None);
            if id != call.id {
                set.push(("id", literal(id)));
            }
            let came = native
                .function
                .as_ref()
                .and_then(|function| function.arguments);
            let arguments = sheet.arguments(call);
            if let Some(came) = came
                && decoded(came).trim() != arguments
            {
                let function = raw_member(raw, "function");
                let mut quoted_arguments = Vec::new();
                quoted(&mut quoted_arguments, arguments);
                let quoted_arguments = String::from_utf8(quoted_arguments).unwrap_or_default();
                set.push((
                    "function",
                    edited(&function, &[("arguments", quoted_arguments)]),
                ));
            }
            changed |= !set.is_empty();
            all.push(if set.is_empty() {
                raw.get().to_owned()
            } else {
                edited(raw.get(), &set)
            });
        }
        for call in alone {
            let mut out = Vec::new();
            write_call(sheet, call, &mut out);
            all.push(String::from_utf8(out).unwrap_or_default());
        }
        if changed {
            let list = if all.is_empty() {
                String::new()
            } else {
                format!("[{}]", all.join(","))
            };
            set.push(("tool_calls", list));
        }
        if set.is_empty() {
            splice(out, item.get());
        } else {
            put(out, &edited(item.get(), &set));
        }
        true
    }

    /// Writes a response from what it says; nothing if it says nothing.
    fn write_view(&self, sheet: &mut Sheet, response: &Assistant, out: &mut Vec<u8>) {
        let blank = response.content.is_blank();
        for piece in pieces(&response.content) {
            if !matches!(piece, Piece::Text(_)) {
                sheet.lost_part("part", "the service takes only text of a response");
            }
        }
        let texts = pieces(&response.content)
            .any(|piece| matches!(piece, Piece::Text(text) if !text.is_blank()));
        if response.tool_calls.is_empty() && !texts {
            return;
        }
        put(out, "{\"role\":\"assistant\",\"content\":");
        if blank || !texts {
            put(out, "null");
        } else {
            joined(out, &response.content);
        }
        match self.demanded(sheet, response) {
            Some(reasoning) => {
                put(out, ",\"reasoning_content\":");
                put(out, &reasoning);
            }
            None if response.reasoning.is_some() && response.native.is_empty() => {
                sheet
                    .left
                    .add("reasoning", "the service does not take it back");
            }
            None => {}
        }
        for (at, call) in response.tool_calls.iter().enumerate() {
            put(out, if at == 0 { ",\"tool_calls\":[" } else { "," });
            write_call(sheet, call, out);
        }
        put(
            out,
            if response.tool_calls.is_empty() {
                "}"
            } else {
                "]}"
            },
        );
    }

    fn result(&mut self, sheet: &mut Sheet, result: &ToolResult) {
        let Some(call) = sheet.ids.answered(&result.call_id) else {
            return sheet.lost_part("tool result", "it answers no call");
        };
        let (id, name) = (call.sent.clone(), call.name.clone());
        let out = sheet.out.tail();
        begin(out, &mut self.last, Last::Tool);
        put(out, "{\"role\":\"tool\",\"tool_call_id\":");
        string(out, &id);
        put(out, ",\"content\":");
        let is_media = |piece: &Piece<'_>| !matches!(piece, Piece::Text(_));
        let media = pieces(&result.content).any(|piece| is_media(&piece));
        if media && pieces(&result.content).all(|piece| is_media(&piece)) {
            put(out, "\"The result is in the next message.\"");
        } else {
            joined(out, &result.content);
        }
        out.push(b'}');
        if media {
            let mut images = Vec::new();
            for piece in pieces(&result.content).filter(is_media) {
                write_part(sheet, piece, &mut images);
            }
            if !images.is_empty() {
                comma(&mut self.images);
                put(&mut self.images, "{\"type\":\"text\",\"text\":");
                string(
                    &mut self.images,
                    &format!("From the result of the call {id} ({name}):"),
                );
                put(&mut self.images, "},");
                self.images.extend_from_slice(&images);
            }
        }
    }

    /// Writes the images of the results before.
    fn show_images(&mut self, sheet: &mut Sheet) {
        let images = std::mem::take(&mut self.images);
        if !images.is_empty() {
            let strict = sheet.target.strict_roles;
            user_parts(sheet.out.tail(), &mut self.last, strict, &images);
        }
    }

    /// What closes the messages of a request.
    pub(super) fn end(&mut self, sheet: &mut Sheet) -> End {
        let mut end = End::default();
        let out = &mut end.suffix;
        let mut last = self.last;
        if !self.images.is_empty() {
            // More results may come before them.
            user_parts(out, &mut last, sheet.target.strict_roles, &self.images);
        }
        match last {
            Last::OpenUser => put(out, "]}"),
            Last::Assistant if sheet.target.strict_roles || !sheet.target.prefill => {
                out.push(b',');
                notice(out);
            }
            Last::Instructions => {
                out.push(b',');
                notice(out);
            }
            Last::Nothing => notice(out),
            Last::System | Last::User | Last::Assistant | Last::Tool => {}
        }
        end
    }
}

/// Makes ready for a message.
fn begin(out: &mut Vec<u8>, last: &mut Last, now: Last) {
    let between = match last {
        Last::Nothing => "",
        Last::OpenUser => "]},",
        _ => ",",
    };
    put(out, between);
    *last = now;
}

/// Adds a user message of parts. Where roles must alternate it stays open for more.
fn user_parts(out: &mut Vec<u8>, last: &mut Last, strict: bool, parts: &[u8]) {
    if strict && *last == Last::OpenUser {
        out.push(b',');
    } else {
        if strict && *last == Last::Tool {
            begin(out, last, Last::Assistant);
            put(out, BRIDGE);
        }
        begin(out, last, Last::OpenUser);
        put(out, "{\"role\":\"user\",\"content\":[");
    }
    out.extend_from_slice(parts);
    if !strict {
        put(out, "]}");
        *last = Last::User;
    }
}

fn notice(out: &mut Vec<u8>) {
    put(out, "{\"role\":\"user\",\"content\":\"");
    put(out, NOTICE);
    put(out, "\"}");
}

fn comma(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

/// Whether content that came as this says nothing.
fn is_nothing(raw: Raw<'_>) -> bool {
    match raw.get().as_bytes().first() {
        Some(b'"') => is_blank(raw),
        Some(b'[') => raw.get() == "[]",
        _ => true,
    }
}

fn raw_member(raw: Raw<'_>, name: &str) -> String {
    let members: super::raw::Members<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let member = members.0.iter().find(|(key, _)| key == name);
    member.map_or_else(|| "{}".to_owned(), |(_, value)| value.get().to_owned())
}

fn write_call(sheet: &mut Sheet, call: &ToolCall, out: &mut Vec<u8>) {
    let arguments = sheet.arguments(call);
    let name = call_name(&call.name, "", 64);
    put(out, "{\"id\":");
    string(out, sheet.ids.call(&call.id, &name, Note::None));
    put(out, ",\"type\":\"function\",\"function\":{\"name\":");
    string(out, &name);
    put(out, ",\"arguments\":");
    quoted(out, arguments);
    put(out, "}}");
}

fn write_parts(sheet: &mut Sheet, content: &Content, out: &mut Vec<u8>) {
    for piece in pieces(content) {
        write_part(sheet, piece, out);
    }
}

fn write_part(sheet: &mut Sheet, piece: Piece<'_>, out: &mut Vec<u8>) {
    if !matches!(piece, Piece::Other) {
        comma(out);
    }
    match piece {
        Piece::Text(text) => {
            put(out, "{\"type\":\"text\",\"text\":");
            splice(out, text.literal());
            out.push(b'}');
        }
        Piece::Url(url) => {
            put(out, "{\"type\":\"image_url\",\"image_url\":{\"url\":");
            string(out, url);
            put(out, "}}");
        }
        Piece::Data { media_type, base64 } => {
            put(out, "{\"type\":\"image_url\",\"image_url\":{\"url\":");
            super::raw::data_url(out, media_type, base64);
            put(out, "}}");
        }
        Piece::Other => sheet.lost_part("part", "of a kind the service is not known to take"),
    }
}
