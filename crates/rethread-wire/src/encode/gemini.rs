//! Google Gemini.

use rethread_core::{Assistant, Body, Content, Json, Message, PromptOptions, ToolCall, ToolResult};
use serde::Deserialize;

use super::ids::Note;
use super::raw::{Piece, Raw, joined, pieces, put, splice, string};
use super::{End, NOTICE, Sheet, Tail, Target, call_name, is_paused, is_said};
use crate::is_made_id;

/// The documented stand-in for the signature of a call that has none, as the first member of a part.
/// Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>.
pub(super) const DUMMY_SIGNATURE: &[u8] =
    b"\"thoughtSignature\":\"skip_thought_signature_validator\",";

/// The conversation so far.
pub(super) struct Gemini {
    open: Open,
    /// Where the stand-in goes: into the first call of each unsigned step of the current turn. It costs
    /// quality, so it is put into a request only while it is needed.
    unsigned: Vec<usize>,
    paused: Option<Paused>,
}

/// A response the service goes on with when it is asked the same again and given a token. It is not
/// part of that request; what comes is the rest of it.
struct Paused {
    token: String,
    parts: Vec<u8>,
    written: Written,
}

/// The content that is still open.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Nothing,
    User,
    Results,
    Model {
        /// Whether the model itself goes on with it.
        goes_on: bool,
    },
}

impl Default for Gemini {
    fn default() -> Self {
        Self {
            open: Open::Nothing,
            unsigned: Vec::new(),
            paused: None,
        }
    }
}

/// What stands before and behind the contents.
pub(super) fn frame(options: &PromptOptions, target: &Target) -> (Vec<u8>, Vec<u8>) {
    let head = b"{\"contents\":[".to_vec();
    let mut tail = Tail::new(target);
    if let Some(instructions) = options.instructions.as_deref().filter(|text| is_said(text)) {
        tail.member("systemInstruction", |out| {
            put(out, "{\"parts\":[{\"text\":");
            string(out, instructions);
            put(out, "}]}");
        });
    }
    if !options.tools.is_empty() {
        let mut out = b"{\"functionDeclarations\":[".to_vec();
        for (at, tool) in options.tools.iter().enumerate() {
            put(&mut out, if at > 0 { ",{\"name\":" } else { "{\"name\":" });
            string(&mut out, &tool.name);
            if is_said(&tool.description) {
                put(&mut out, ",\"description\":");
                string(&mut out, &tool.description);
            }
            put(&mut out, ",\"parametersJsonSchema\":");
            splice(&mut out, tool.parameters.get());
            out.push(b'}');
        }
        put(&mut out, "]}");
        tail.tools(out);
    } else {
        tail.tools(Vec::new());
    }
    let mut config = Vec::new();
    if let Some(max) = options.max_output.or(target.max_output) {
        config.push(("maxOutputTokens", max.to_string()));
    }
    if let Some(schema) = &options.response_schema {
        config.push(("responseMimeType", "\"application/json\"".to_owned()));
        config.push(("responseJsonSchema", schema.get().to_owned()));
    }
    tail.object("generationConfig", &config);
    (head, tail.end())
}

/// A part of a response, as far as it matters here.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Raw<'a>>,
    #[serde(borrow, default, rename = "thoughtSignature")]
    signature: Option<Raw<'a>>,
    #[serde(default, rename = "functionCall")]
    call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: String,
}

/// The parts of a response.
#[derive(Default)]
struct Written {
    /// Where the first call's part has its first member, if the call is not signed.
    unsigned: Option<usize>,
    has_call: bool,
    is_native: bool,
}

impl Written {
    /// Notes a call whose part begins there.
    fn call(&mut self, start: usize, signed: bool) {
        if !self.has_call && !signed {
            self.unsigned = Some(start + 1);
        }
        self.has_call = true;
    }

    /// The same with the parts that came after, which stand behind a comma at `end`.
    fn then(self, end: usize, rest: Self) -> Self {
        let rest_unsigned = rest.unsigned.map(|at| end + 1 + at);
        Self {
            unsigned: if self.has_call {
                self.unsigned
            } else {
                rest_unsigned
            },
            has_call: self.has_call || rest.has_call,
            is_native: rest.is_native,
        }
    }
}

impl Gemini {
    /// Where the stand-in for a signature goes.
    pub(super) fn unsigned(&self) -> &[usize] {
        &self.unsigned
    }

    pub(super) fn push(&mut self, sheet: &mut Sheet, message: &Message) {
        let mut parts = std::mem::take(&mut sheet.scratch);
        parts.clear();
        match &message.body {
            Body::Assistant(response) => self.response(sheet, response, &mut parts),
            Body::Tool(result) => self.result(sheet, result, &mut parts),
            Body::System(content)
            | Body::User(content)
            | Body::Agent(content)
            | Body::Summary(content) => {
                write_content(sheet, content, &mut parts);
                if parts.is_empty() {
                    sheet.lost_part("message", "it has nothing the service takes");
                } else {
                    self.settle(sheet);
                    // A new turn begins, so the calls before need no signature any more.
                    self.unsigned.clear();
                    let out = sheet.out.tail();
                    begin(out, &mut self.open, Open::User);
                    out.extend_from_slice(&parts);
                }
            }
            _ => {}
        }
        sheet.scratch = parts;
    }

    fn result(&mut self, sheet: &mut Sheet, result: &ToolResult, part: &mut Vec<u8>) {
        if write_result(sheet, result, part) {
            self.settle(sheet);
            let out = sheet.out.tail();
            begin(out, &mut self.open, Open::Results);
            out.extend_from_slice(part);
        }
    }

    fn response(&mut self, sheet: &mut Sheet, response: &Assistant, parts: &mut Vec<u8>) {
        sheet.ids.begin();
        let native = sheet.native(response);
        let written = native.and_then(|items| write_native(sheet, response, items, parts));
        let written = written.unwrap_or_else(|| write_view(sheet, response, parts));
        if parts.is_empty() {
            return;
        }
        let mut written = written;
        if let Some(before) = self.paused.take() {
            let rest = std::mem::replace(parts, before.parts);
            written = before.written.then(parts.len(), written);
            comma(parts);
            parts.extend_from_slice(&rest);
        }
        let paused = written.is_native && is_paused(response);
        match token(response).filter(|_| paused) {
            Some(token) => {
                let parts = parts.clone();
                self.paused = Some(Paused {
                    token,
                    parts,
                    written,
                });
            }
            None => self.model(sheet, parts, &written),
        }
    }

    /// Writes what was held of a paused response: the conversation went on without the rest of it.
    fn settle(&mut self, sheet: &mut Sheet) {
        if let Some(paused) = self.paused.take() {
            self.model(sheet, &paused.parts, &paused.written);
        }
    }

    fn model(&mut self, sheet: &mut Sheet, parts: &[u8], written: &Written) {
        let goes_on = sheet.target.prefill;
        let signatures = sheet.target.signatures;
        let before = sheet.out.len();
        let out = sheet.out.tail();
        let start = out.len();
        if begin(out, &mut self.open, Open::Model { goes_on }) {
            self.unsigned.clear();
        }
        let at = before + (out.len() - start);
        out.extend_from_slice(parts);
        if let Some(offset) = written.unsigned.filter(|_| signatures) {
            self.unsigned.push(at + offset);
        }
    }

    /// What closes the contents of a request.
    pub(super) fn end(&mut self, _sheet: &mut Sheet) -> End {
        let mut end = End::default();
        let mut open = self.open;
        if matches!(open, Open::Nothing | Open::Model { goes_on: false }) {
            begin(&mut end.suffix, &mut open, Open::User);
            notice(&mut end.suffix);
        }
        put(&mut end.suffix, "]}");
        if let Some(paused) = &self.paused {
            put(&mut end.member, ",\"continuationToken\":");
            string(&mut end.member, &paused.token);
        }
        end
    }
}

/// What the service goes on with a paused response by.
fn token(response: &Assistant) -> Option<String> {
    #[derive(Deserialize)]
    struct Detail {
        continuation_token: String,
    }
    let detail = response.stop.as_ref()?.detail.as_ref()?;
    detail
        .decode::<Detail>()
        .ok()
        .map(|detail| detail.continuation_token)
}

fn notice(out: &mut Vec<u8>) {
    put(out, "{\"text\":\"");
    put(out, NOTICE);
    put(out, "\"}");
}

/// Makes ready for a part of `now`, closing the content before if it is another's. True if a message of
/// the user had to come between.
fn begin(out: &mut Vec<u8>, open: &mut Open, now: Open) -> bool {
    let (between, notices) = match (*open, now) {
        (Open::User, Open::User)
        | (Open::Results, Open::Results)
        | (Open::Model { goes_on: true }, Open::Model { .. }) => {
            out.push(b',');
            *open = now;
            return false;
        }
        (Open::Nothing | Open::Model { goes_on: false }, Open::Model { .. }) => {
            begin(out, open, Open::User);
            notice(out);
            ("]},", true)
        }
        (Open::Nothing, _) => ("", false),
        _ => ("]},", false),
    };
    put(out, between);
    put(
        out,
        if matches!(now, Open::Model { .. }) {
            "{\"role\":\"model\",\"parts\":["
        } else {
            "{\"role\":\"user\",\"parts\":["
        },
    );
    *open = now;
    notices
}

fn comma(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

/// Writes the response's own parts; `None`, and nothing, if they cannot go back.
fn write_native(
    sheet: &mut Sheet,
    response: &Assistant,
    items: &[Json],
    out: &mut Vec<u8>,
) -> Option<Written> {
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        match item.decode::<Part<'_>>() {
            Ok(part) if item.is_object() => parts.push((item, part)),
            _ => {
                sheet.unusable("one is no part");
                return None;
            }
        }
    }
    // By place and name: a call that came without an id has one only in the message.
    let mut decoded = response.tool_calls.iter().filter(|call| call.is_decoded());
    let native_calls = parts.iter().filter_map(|(_, part)| part.call.as_ref());
    let paired: Option<Vec<&ToolCall>> = native_calls
        .map(|native| {
            let call = decoded.next()?;
            (call.name == native.name && !call.name.is_empty()).then_some(call)
        })
        .collect();
    let Some(paired) = paired.filter(|_| decoded.next().is_none()) else {
        sheet.unusable("they have other calls than the message");
        return None;
    };
    let alone = response.tool_calls.iter().filter(|call| !call.is_decoded());
    let mut written = Written {
        is_native: true,
        ..Written::default()
    };
    let mut paired = paired.into_iter();
    for (item, part) in &parts {
        let signed = part
            .signature
            .is_some_and(|raw| !matches!(raw.get(), "null" | "\"\""));
        let is_empty_text = part.text.is_some_and(|raw| raw.get() == "\"\"");
        if is_empty_text && !signed && part.call.is_none() {
            continue;
        }
        comma(out);
        let start = out.len();
        splice(out, item.get());
        if let Some(native) = &part.call
            && let Some(call) = paired.next()
        {
            let id = native.id.as_deref().unwrap_or("");
            let note = if id.is_empty() {
                Note::NoId
            } else {
                Note::None
            };
            sheet.ids.call_as(&call.id, id, &native.name, note);
            written.call(start, signed);
        }
    }
    for call in alone {
        write_call(sheet, call, out, &mut written);
    }
    Some(written)
}

/// Writes a response from what it says.
fn write_view(sheet: &mut Sheet, response: &Assistant, out: &mut Vec<u8>) -> Written {
    let mut written = Written::default();
    if response.reasoning.is_some() && response.native.is_empty() {
        sheet
            .left
            .add("reasoning", "only its readable part is known");
    }
    write_content(sheet, &response.content, out);
    for call in &response.tool_calls {
        write_call(sheet, call, out, &mut written);
    }
    written
}

fn write_call(sheet: &mut Sheet, call: &ToolCall, out: &mut Vec<u8>, written: &mut Written) {
    comma(out);
    written.call(out.len(), false);
    let arguments = sheet.arguments(call);
    let mut name = call_name(&call.name, ".:", 128);
    if name.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_') {
        name.insert(0, '_');
        name.truncate(128);
    }
    put(out, "{\"functionCall\":{");
    if is_made_id(&call.id) {
        sheet.ids.call(&call.id, &name, Note::NoId);
    } else {
        put(out, "\"id\":");
        string(out, sheet.ids.call(&call.id, &name, Note::None));
        out.push(b',');
    }
    put(out, "\"name\":");
    string(out, &name);
    put(out, ",\"args\":");
    splice(out, arguments);
    put(out, "}}");
}

/// Writes a result; false if it answers no call.
fn write_result(sheet: &mut Sheet, result: &ToolResult, out: &mut Vec<u8>) -> bool {
    let Some(call) = sheet.ids.answered(&result.call_id) else {
        sheet.lost_part("tool result", "it answers no call");
        return false;
    };
    put(out, "{\"functionResponse\":{");
    if call.note != Note::NoId {
        put(out, "\"id\":");
        string(out, &call.sent);
        out.push(b',');
    }
    put(out, "\"name\":");
    string(out, &call.name);
    put(
        out,
        if result.success {
            ",\"response\":{\"output\":"
        } else {
            ",\"response\":{\"error\":"
        },
    );
    joined(out, &result.content);
    out.push(b'}');
    let mut media = Vec::new();
    for piece in pieces(&result.content) {
        if !matches!(piece, Piece::Text(_)) {
            write_part(sheet, piece, &mut media);
        }
    }
    if !media.is_empty() {
        put(out, ",\"parts\":[");
        out.extend_from_slice(&media);
        out.push(b']');
    }
    put(out, "}}");
    true
}

fn write_content(sheet: &mut Sheet, content: &Content, out: &mut Vec<u8>) {
    for piece in pieces(content) {
        write_part(sheet, piece, out);
    }
}

fn write_part(sheet: &mut Sheet, piece: Piece<'_>, out: &mut Vec<u8>) {
    match piece {
        Piece::Text(text) if text.is_blank() => {}
        Piece::Text(text) => {
            comma(out);
            put(out, "{\"text\":");
            splice(out, text.literal());
            out.push(b'}');
        }
        Piece::Url(url) => {
            comma(out);
            put(out, "{\"fileData\":{\"fileUri\":");
            string(out, url);
            put(out, "}}");
        }
        Piece::Data { media_type, base64 } => {
            comma(out);
            put(out, "{\"inlineData\":{\"mimeType\":");
            string(out, media_type);
            put(out, ",\"data\":");
            string(out, base64);
            put(out, "}}");
        }
        Piece::Other => sheet.lost_part("part", "of a kind the service is not known to take"),
    }
}
