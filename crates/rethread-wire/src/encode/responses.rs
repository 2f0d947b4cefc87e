//! OpenAI Responses.
//!
//! The whole history is sent with each request, and nothing is kept on the other side.

use rethread_core::{Assistant, Body, Content, Json, Message, PromptOptions, ToolCall, ToolResult};
use serde::Deserialize;

use super::ids::Note;
use super::raw::{
    Piece, Raw, data_url, decoded, edited, joined, pieces, put, quoted, splice, string,
};
use super::{End, NOTICE, Sheet, Tail, Target, call_name, is_said, literal, pair};

/// The conversation so far.
#[derive(Default)]
pub(super) struct Responses {
    begun: bool,
    /// Whether the last item is the model's.
    answered: bool,
}

/// What stands before and behind the items.
pub(super) fn frame(model: &str, options: &PromptOptions, target: &Target) -> (Vec<u8>, Vec<u8>) {
    let mut head = Vec::new();
    put(&mut head, "{\"model\":");
    string(&mut head, model);
    put(&mut head, ",\"stream\":true,\"input\":[");
    let mut tail = Tail::new(target);
    let store = if target.store { "true" } else { "false" };
    tail.member("store", |out| put(out, store));
    if target.encrypted_reasoning && !target.store {
        tail.member("include", |out| {
            put(out, "[\"reasoning.encrypted_content\"]")
        });
    }
    if let Some(max) = options.max_output.or(target.max_output) {
        tail.member("max_output_tokens", |out| put(out, &max.to_string()));
    }
    if let Some(instructions) = options.instructions.as_deref().filter(|text| is_said(text)) {
        tail.text("instructions", instructions);
    }
    let mut out = Vec::new();
    for (at, tool) in options.tools.iter().enumerate() {
        put(&mut out, if at > 0 { "," } else { "" });
        put(&mut out, "{\"type\":\"function\",\"name\":");
        string(&mut out, &tool.name);
        if is_said(&tool.description) {
            put(&mut out, ",\"description\":");
            string(&mut out, &tool.description);
        }
        put(&mut out, ",\"parameters\":");
        splice(&mut out, tool.parameters.get());
        // Strict is the default here, and takes only a part of JSON Schema.
        put(&mut out, ",\"strict\":false}");
    }
    tail.tools(out);
    if let Some(schema) = &options.response_schema {
        let schema = schema.get();
        let format =
            format!("{{\"type\":\"json_schema\",\"name\":\"answer\",\"schema\":{schema}}}");
        tail.object("text", &[("format", format)]);
    }
    (head, tail.end())
}

/// An item of a response, as far as it matters here.
#[derive(Deserialize)]
struct Item<'a> {
    r#type: String,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(borrow, default)]
    arguments: Option<Raw<'a>>,
    #[serde(borrow, default)]
    encrypted_content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    created_by: Option<Raw<'a>>,
}

impl Item<'_> {
    fn is_call(&self) -> bool {
        matches!(self.r#type.as_str(), "function_call" | "custom_tool_call")
    }

    /// Whether this is reasoning of which only the service has what it says.
    fn is_bare_reasoning(&self) -> bool {
        let is_there = |raw: &Raw<'_>| !matches!(raw.get(), "null" | "\"\"" | "[]");
        self.r#type == "reasoning"
            && !self.encrypted_content.as_ref().is_some_and(is_there)
            && !self.content.as_ref().is_some_and(is_there)
    }
}

impl Responses {
    pub(super) fn push(&mut self, sheet: &mut Sheet, message: &Message) {
        match &message.body {
            Body::Assistant(response) => self.response(sheet, response),
            Body::Tool(result) => self.result(sheet, result),
            Body::System(content) => self.said(sheet, "developer", content),
            Body::User(content) | Body::Agent(content) | Body::Summary(content) => {
                self.said(sheet, "user", content);
            }
            _ => {}
        }
    }

    /// Makes ready for an item.
    fn begin(&mut self, out: &mut Vec<u8>, answered: bool) {
        if self.begun {
            out.push(b',');
        }
        self.begun = true;
        self.answered = answered;
    }

    fn said(&mut self, sheet: &mut Sheet, role: &str, content: &Content) {
        let mut value = std::mem::take(&mut sheet.scratch);
        value.clear();
        if write_content(sheet, content, &mut value) {
            let out = sheet.out.tail();
            self.begin(out, false);
            put(out, "{\"type\":\"message\",\"role\":\"");
            put(out, role);
            put(out, "\",\"content\":");
            out.extend_from_slice(&value);
            out.push(b'}');
        } else {
            sheet.lost_part("message", "it has nothing the service takes");
        }
        sheet.scratch = value;
    }

    fn response(&mut self, sheet: &mut Sheet, response: &Assistant) {
        sheet.ids.begin();
        let mut items = std::mem::take(&mut sheet.scratch);
        items.clear();
        let native = sheet.native(response);
        let sent = native.is_some_and(|native| write_native(sheet, response, native, &mut items));
        if !sent {
            write_view(sheet, response, &mut items);
        }
        if !items.is_empty() {
            let out = sheet.out.tail();
            if self.answered && !sheet.target.prefill {
                self.begin(out, false);
                notice(out);
            }
            self.begin(out, true);
            out.extend_from_slice(&items);
        }
        sheet.scratch = items;
    }

    fn result(&mut self, sheet: &mut Sheet, result: &ToolResult) {
        let Some(call) = sheet.ids.answered(&result.call_id) else {
            return sheet.lost_part("tool result", "it answers no call");
        };
        let custom = call.note == Note::Custom;
        let id = call.sent.clone();
        let mut value = std::mem::take(&mut sheet.scratch);
        value.clear();
        if !write_content(sheet, &result.content, &mut value) {
            put(&mut value, "\"\"");
        }
        let out = sheet.out.tail();
        self.begin(out, false);
        put(
            out,
            if custom {
                "{\"type\":\"custom_tool_call_output\",\"call_id\":"
            } else {
                "{\"type\":\"function_call_output\",\"call_id\":"
            },
        );
        string(out, &id);
        put(out, ",\"output\":");
        out.extend_from_slice(&value);
        out.push(b'}');
        sheet.scratch = value;
    }

    /// What closes the items of a request.
    pub(super) fn end(&mut self, sheet: &mut Sheet) -> End {
        let mut end = End::default();
        if !self.begun || (self.answered && !sheet.target.prefill) {
            if self.begun {
                end.suffix.push(b',');
            }
            notice(&mut end.suffix);
        }
        end
    }
}

fn notice(out: &mut Vec<u8>) {
    put(
        out,
        "{\"type\":\"message\",\"role\":\"user\",\"content\":\"",
    );
    put(out, NOTICE);
    put(out, "\"}");
}

fn comma(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

/// Writes the response's own items; false, and nothing, if they cannot go back.
fn write_native(
    sheet: &mut Sheet,
    response: &Assistant,
    native: &[Json],
    out: &mut Vec<u8>,
) -> bool {
    let mut items = Vec::with_capacity(native.len());
    for json in native {
        let Ok(item) = json.decode::<Item<'_>>() else {
            sheet.unusable("one is no item");
            return false;
        };
        if !sheet.target.store && item.is_bare_reasoning() {
            sheet.unusable("reasoning that only the service has, and it keeps nothing");
            return false;
        }
        items.push((json, item));
    }
    // Reasoning goes back only with the item it led to.
    while items
        .pop_if(|(_, item)| item.r#type == "reasoning")
        .is_some()
    {
        sheet.left.add("reasoning", "nothing it led to came");
    }
    let ids: Vec<&str> = items
        .iter()
        .filter(|(_, item)| item.is_call())
        .map(|(_, item)| item.call_id.as_deref().unwrap_or(""))
        .collect();
    let Some((paired, alone)) = pair(&ids, &response.tool_calls) else {
        sheet.unusable("they have other calls than the message");
        return false;
    };
    if items.is_empty() && alone.is_empty() {
        return false;
    }
    let mut paired = paired.into_iter();
    for (json, item) in &items {
        comma(out);
        let mut set = Vec::new();
        let call = if item.is_call() { paired.next() } else { None };
        if let Some(call) = call {
            let custom = item.r#type == "custom_tool_call";
            let note = if custom { Note::Custom } else { Note::None };
            let arguments = sheet.arguments(call);
            let id = sheet.ids.call(&call.id, &call.name, note);
            if id != call.id {
                set.push(("call_id", literal(id)));
            }
            if let Some(came) = item.arguments
                && !custom
                && decoded(came).trim() != arguments
            {
                set.push(("arguments", literal(&super::raw::sendable(arguments))));
            }
        }
        if item.created_by.is_some() {
            // The service sends it and refuses it.
            set.push(("created_by", String::new()));
        }
        if set.is_empty() {
            splice(out, json.get());
        } else {
            put(out, &edited(json.get(), &set));
        }
    }
    for call in alone {
        write_call(sheet, call, out);
    }
    true
}

/// Writes a response from what it says; nothing if it says nothing.
fn write_view(sheet: &mut Sheet, response: &Assistant, out: &mut Vec<u8>) {
    if response.reasoning.is_some() && response.native.is_empty() {
        sheet
            .left
            .add("reasoning", "only its readable part is known");
    }
    let mut texts = false;
    for piece in pieces(&response.content) {
        match piece {
            Piece::Text(text) => texts |= !text.is_blank(),
            _ => sheet.lost_part("part", "the service takes only text of a response"),
        }
    }
    if texts {
        put(
            out,
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":",
        );
        joined(out, &response.content);
        put(out, ",\"annotations\":[]}]}");
    }
    for call in &response.tool_calls {
        write_call(sheet, call, out);
    }
}

fn write_call(sheet: &mut Sheet, call: &ToolCall, out: &mut Vec<u8>) {
    comma(out);
    let arguments = sheet.arguments(call);
    let name = call_name(&call.name, "", 64);
    put(out, "{\"type\":\"function_call\",\"call_id\":");
    string(out, sheet.ids.call(&call.id, &name, Note::None));
    put(out, ",\"name\":");
    string(out, &name);
    put(out, ",\"arguments\":");
    quoted(out, arguments);
    out.push(b'}');
}

/// Writes a string or a list of parts; false if there is nothing to write.
fn write_content(sheet: &mut Sheet, content: &Content, out: &mut Vec<u8>) -> bool {
    if pieces(content).all(|piece| matches!(piece, Piece::Text(_))) {
        joined(out, content);
        return true;
    }
    out.push(b'[');
    let start = out.len();
    for piece in pieces(content) {
        if out.len() > start && !matches!(piece, Piece::Other) {
            out.push(b',');
        }
        match piece {
            Piece::Text(text) => {
                put(out, "{\"type\":\"input_text\",\"text\":");
                splice(out, text.literal());
                out.push(b'}');
            }
            Piece::Url(url) => {
                put(out, "{\"type\":\"input_image\",\"image_url\":");
                string(out, url);
                out.push(b'}');
            }
            Piece::Data { media_type, base64 } => {
                put(out, "{\"type\":\"input_image\",\"image_url\":");
                data_url(out, media_type, base64);
                out.push(b'}');
            }
            Piece::Other => sheet.lost_part("part", "of a kind the service is not known to take"),
        }
    }
    let some = out.len() > start;
    if some {
        out.push(b']');
    } else {
        out.clear();
    }
    some
}
