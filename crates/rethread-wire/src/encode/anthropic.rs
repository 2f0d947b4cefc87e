//! Anthropic Messages.
//!
//! Rules: <https://docs.claude.com/en/api/messages>, and the sentences with which the service refuses
//! a request.

use rethread_core::{Assistant, Body, Content, Json, Message, PromptOptions, ToolCall, ToolResult};
use serde::Deserialize;

use super::ids::Note;
use super::raw::{Piece, Raw, edited, is_blank, pieces, plain, put, splice, string};
use super::{End, NOTICE, Sheet, Tail, Target, call_name, is_paused, is_said, literal, pair};

/// The conversation so far.
pub(super) struct Anthropic {
    open: Open,
    held: Option<Held>,
    round: Round,
    /// Whether requests ask for reasoning with a fixed budget.
    thinks: bool,
    /// Whether that was told to be left out of this request.
    told: bool,
}

/// The message that is still open: the service wants one message a role, and results of a response in
/// one message with the text after them.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Nothing,
    User,
    Assistant {
        /// Whether the model itself goes on with it, so that another response belongs to it.
        goes_on: bool,
    },
}

/// A response with calls of the service's own tools whose results are not there. Such a response can
/// be sent only as the last one, for the service to go on, or before what the service made of it. What
/// comes next decides; until then both ways are kept.
struct Held {
    with: Vec<u8>,
    with_open: Open,
    without: Vec<u8>,
    without_open: Open,
    /// The calls whose results are not there.
    ids: Vec<String>,
}

/// The responses since the last message of the user that is no result. With a fixed budget the first
/// must begin with its reasoning if there are calls.
#[derive(Default)]
struct Round {
    begins_with_thinking: Option<bool>,
    calls: bool,
}

impl Round {
    /// Takes a response, before which a message of the user may have had to stand.
    fn response(&mut self, notices: bool, begins_with_thinking: bool, calls: bool) {
        if notices {
            *self = Self::default();
        }
        self.begins_with_thinking
            .get_or_insert(begins_with_thinking);
        self.calls |= calls;
    }
}

/// Whether the requests ask for reasoning with a fixed budget, which older models want.
pub(super) fn asks_for_thinking(target: &Target) -> bool {
    thinking_type(target).is_some_and(|kind| kind == "enabled")
}

fn thinking_type(target: &Target) -> Option<String> {
    #[derive(Deserialize)]
    struct Thinking {
        r#type: String,
    }
    let mut fields = target.fields.iter();
    let (_, json) = fields.find(|(name, _)| name == "thinking")?;
    json.decode::<Thinking>()
        .ok()
        .map(|thinking| thinking.r#type)
}

/// What stands before and behind the messages.
pub(super) fn frame(model: &str, options: &PromptOptions, target: &Target) -> (Vec<u8>, Vec<u8>) {
    let mut head = Vec::new();
    put(&mut head, "{\"model\":");
    string(&mut head, model);
    put(&mut head, ",\"stream\":true,\"messages\":[");
    let mut tail = Tail::new(target);
    let max = options.max_output.or(target.max_output).unwrap_or(8_192);
    tail.member("max_tokens", |out| put(out, &max.to_string()));
    if let Some(instructions) = options.instructions.as_deref().filter(|text| is_said(text)) {
        tail.text("system", instructions);
    }
    let mut out = Vec::new();
    for (at, tool) in options.tools.iter().enumerate() {
        put(&mut out, if at > 0 { ",{\"name\":" } else { "{\"name\":" });
        string(&mut out, &tool.name);
        if is_said(&tool.description) {
            put(&mut out, ",\"description\":");
            string(&mut out, &tool.description);
        }
        put(&mut out, ",\"input_schema\":");
        splice(&mut out, tool.parameters.get());
        out.push(b'}');
    }
    tail.tools(out);
    if let Some(schema) = &options.response_schema {
        let format = format!("{{\"type\":\"json_schema\",\"schema\":{}}}", schema.get());
        tail.object("output_config", &[("format", format)]);
    }
    if target.cache {
        tail.member("cache_control", |out| put(out, "{\"type\":\"ephemeral\"}"));
    }
    (head, tail.end())
}

/// A block of a response, as far as it matters here.
#[derive(Deserialize)]
struct Block<'a> {
    r#type: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(borrow, default)]
    text: Option<Raw<'a>>,
    #[serde(borrow, default)]
    signature: Option<Raw<'a>>,
    #[serde(borrow, default)]
    toolset_name: Option<Raw<'a>>,
}

impl Block<'_> {
    fn is_thinking(&self) -> bool {
        matches!(self.r#type.as_str(), "thinking" | "redacted_thinking")
    }

    fn is_call(&self) -> bool {
        self.r#type == "tool_use"
    }

    fn is_server_call(&self) -> bool {
        matches!(self.r#type.as_str(), "server_tool_use" | "mcp_tool_use")
    }
}

/// The blocks of a response.
#[derive(Default)]
struct Written {
    /// Where each block stands, and the id of the service's own call if it is an unanswered one.
    blocks: Vec<(usize, usize, Option<String>)>,
    /// The service's own calls it has results of.
    answers: Vec<String>,
    begins_with_thinking: bool,
    is_native: bool,
}

impl Anthropic {
    pub(super) fn new(thinks: bool) -> Self {
        Self {
            open: Open::Nothing,
            held: None,
            round: Round::default(),
            thinks,
            told: false,
        }
    }

    pub(super) fn push(&mut self, sheet: &mut Sheet, message: &Message) {
        let mut blocks = std::mem::take(&mut sheet.scratch);
        blocks.clear();
        match &message.body {
            Body::Assistant(response) => self.response(sheet, response, &mut blocks),
            Body::Tool(result) => self.result(sheet, result, &mut blocks),
            Body::System(content)
            | Body::User(content)
            | Body::Agent(content)
            | Body::Summary(content) => {
                write_content(sheet, content, &mut blocks);
                if blocks.is_empty() {
                    sheet.lost_part("message", "it has nothing the service takes");
                } else {
                    self.user(sheet, &blocks, false);
                }
            }
            _ => {}
        }
        sheet.scratch = blocks;
    }

    fn result(&mut self, sheet: &mut Sheet, result: &ToolResult, block: &mut Vec<u8>) {
        if write_result(sheet, result, block) {
            self.user(sheet, block, true);
        }
    }

    /// Adds blocks of the user: results, or something else.
    fn user(&mut self, sheet: &mut Sheet, blocks: &[u8], results: bool) {
        if let Some(held) = &mut self.held {
            if results {
                begin(&mut held.with, &mut held.with_open, Open::User);
                held.with.extend_from_slice(blocks);
                begin(&mut held.without, &mut held.without_open, Open::User);
                held.without.extend_from_slice(blocks);
                return;
            }
            self.settle(sheet, false);
        }
        if !results && self.open != Open::User {
            self.round = Round::default();
            self.told = false;
        }
        let out = sheet.out.tail();
        begin(out, &mut self.open, Open::User);
        out.extend_from_slice(blocks);
    }

    fn response(&mut self, sheet: &mut Sheet, response: &Assistant, blocks: &mut Vec<u8>) {
        sheet.ids.begin();
        let native = sheet.native(response);
        let written = native.and_then(|items| write_native(sheet, response, items, blocks));
        let written = written.unwrap_or_else(|| write_view(sheet, response, blocks));
        if let Some(held) = &self.held {
            let resolved = held.ids.iter().all(|id| written.answers.contains(id));
            self.settle(sheet, resolved);
        }
        if blocks.is_empty() {
            return;
        }
        let open_ids: Vec<String> = written
            .blocks
            .iter()
            .filter_map(|(_, _, id)| id.clone())
            .collect();
        let prefill = sheet.target.prefill
            && !matches!(
                thinking_type(&sheet.target).as_deref(),
                Some("enabled" | "adaptive")
            )
            && sheet.target.thinking != Some(true)
            && !plain(&response.content).ends_with(char::is_whitespace);
        let paused = written.is_native && is_paused(response);
        let now = Open::Assistant {
            goes_on: paused || prefill,
        };
        let calls = !response.tool_calls.is_empty();
        if open_ids.is_empty() {
            let out = sheet.out.tail();
            let notices = begin(out, &mut self.open, now);
            out.extend_from_slice(blocks);
            return self
                .round
                .response(notices, written.begins_with_thinking, calls);
        }
        let mut held = Held {
            with: Vec::new(),
            with_open: self.open,
            without: Vec::new(),
            without_open: self.open,
            ids: open_ids,
        };
        begin(
            &mut held.with,
            &mut held.with_open,
            Open::Assistant { goes_on: true },
        );
        held.with.extend_from_slice(blocks);
        let kept = written.blocks.iter().filter(|(_, _, id)| id.is_none());
        let kept: Vec<&[u8]> = kept
            .filter_map(|(from, to, _)| blocks.get(*from..*to))
            .collect();
        if !kept.is_empty() {
            let now = Open::Assistant { goes_on: prefill };
            begin(&mut held.without, &mut held.without_open, now);
            held.without.extend_from_slice(&kept.join(&b','));
        }
        self.held = Some(held);
    }

    /// Writes what was held, with the calls of the service's own tools or without.
    fn settle(&mut self, sheet: &mut Sheet, with: bool) {
        let Some(held) = self.held.take() else { return };
        let out = sheet.out.tail();
        if with {
            out.extend_from_slice(&held.with);
            self.open = held.with_open;
        } else {
            out.extend_from_slice(&held.without);
            self.open = held.without_open;
            let reason = "the conversation went on before the service answered it";
            sheet.left.add("server tool call", reason);
        }
    }

    /// What closes the messages of a request.
    pub(super) fn end(&mut self, sheet: &mut Sheet) -> End {
        let mut end = End::default();
        let mut open = self.open;
        if let Some(held) = &self.held {
            end.suffix.extend_from_slice(&held.with);
            open = held.with_open;
        }
        if !matches!(open, Open::User | Open::Assistant { goes_on: true }) {
            begin(&mut end.suffix, &mut open, Open::User);
            notice(&mut end.suffix);
        }
        put(&mut end.suffix, "]}");
        let lacks_thinking = self.round.begins_with_thinking == Some(false) && self.round.calls;
        if self.thinks && lacks_thinking {
            end.unthinking = true;
            if !self.told {
                sheet
                    .left
                    .add("thinking", "off for this turn, which began without it");
                self.told = true;
            }
        }
        end
    }
}

fn notice(out: &mut Vec<u8>) {
    put(out, "{\"type\":\"text\",\"text\":\"");
    put(out, NOTICE);
    put(out, "\"}");
}

/// Makes ready for a block of `now`, closing the message before if it is another's. True if a message of
/// the user had to come between.
fn begin(out: &mut Vec<u8>, open: &mut Open, now: Open) -> bool {
    let (between, notices) = match (*open, now) {
        (Open::User, Open::User) | (Open::Assistant { goes_on: true }, Open::Assistant { .. }) => {
            out.push(b',');
            *open = now;
            return false;
        }
        (Open::Nothing | Open::Assistant { goes_on: false }, Open::Assistant { .. }) => {
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
        if now == Open::User {
            "{\"role\":\"user\",\"content\":["
        } else {
            "{\"role\":\"assistant\",\"content\":["
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

/// Writes the response's own blocks; `None`, and nothing, if they cannot go back.
fn write_native(
    sheet: &mut Sheet,
    response: &Assistant,
    items: &[Json],
    out: &mut Vec<u8>,
) -> Option<Written> {
    let mut blocks = Vec::with_capacity(items.len());
    for item in items {
        let Ok(block) = item.decode::<Block<'_>>() else {
            sheet.unusable("one is no content block");
            return None;
        };
        let unsigned = block.signature.is_none_or(|raw| raw.get().len() <= 2);
        if block.r#type == "thinking" && unsigned {
            sheet.unusable("reasoning without its signature");
            return None;
        }
        blocks.push((item, block));
    }
    let ids: Vec<&str> = blocks
        .iter()
        .filter(|(_, block)| block.is_call())
        .map(|(_, block)| block.id.as_deref().unwrap_or(""))
        .collect();
    let Some((paired, alone)) = pair(&ids, &response.tool_calls) else {
        sheet.unusable("they have other calls than the message");
        return None;
    };
    let mut written = Written {
        is_native: true,
        ..Written::default()
    };
    let answers = blocks
        .iter()
        .filter_map(|(_, block)| block.tool_use_id.clone());
    written.answers = answers.collect();
    let mut paired = paired.into_iter();
    let mut first = true;
    for (item, block) in &blocks {
        let is_empty_text = block.r#type == "text" && block.text.is_none_or(is_blank);
        if is_empty_text || block.r#type == "container_upload" {
            continue;
        }
        comma(out);
        let from = out.len();
        written.begins_with_thinking |= first && block.is_thinking();
        first = false;
        let call = if block.is_call() { paired.next() } else { None };
        match call {
            Some(call) => {
                let note = block.toolset_name.filter(|raw| raw.get() != "null");
                let note = note.map_or(Note::None, |raw| Note::Toolset(raw.get().to_owned()));
                let id = sheet.ids.call(&call.id, &call.name, note);
                let mut set = Vec::new();
                if id != call.id {
                    set.push(("id", literal(id)));
                }
                if !call.is_decoded() {
                    set.push(("input", "{}".to_owned()));
                }
                if set.is_empty() {
                    splice(out, item.get());
                } else {
                    put(out, &edited(item.get(), &set));
                }
            }
            None => splice(out, item.get()),
        }
        let id = block.id.as_ref().filter(|_| block.is_server_call());
        let unanswered = id.filter(|id| !written.answers.contains(id)).cloned();
        written.blocks.push((from, out.len(), unanswered));
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
        sheet.left.add("reasoning", "it has no signature");
    }
    for piece in pieces(&response.content) {
        match piece {
            Piece::Text(text) if text.is_blank() => {}
            Piece::Text(text) => {
                comma(out);
                let from = out.len();
                put(out, "{\"type\":\"text\",\"text\":");
                splice(out, text.literal());
                out.push(b'}');
                written.blocks.push((from, out.len(), None));
            }
            _ => sheet.lost_part("part", "the service takes only text of a response"),
        }
    }
    for call in &response.tool_calls {
        write_call(sheet, call, out, &mut written);
    }
    written
}

fn write_call(sheet: &mut Sheet, call: &ToolCall, out: &mut Vec<u8>, written: &mut Written) {
    comma(out);
    let from = out.len();
    let input = sheet.arguments(call);
    let name = call_name(&call.name, "", 64);
    put(out, "{\"type\":\"tool_use\",\"id\":");
    string(out, sheet.ids.call(&call.id, &name, Note::None));
    put(out, ",\"name\":");
    string(out, &name);
    put(out, ",\"input\":");
    splice(out, input);
    out.push(b'}');
    written.blocks.push((from, out.len(), None));
}

/// Writes a result; false if it answers no call.
fn write_result(sheet: &mut Sheet, result: &ToolResult, out: &mut Vec<u8>) -> bool {
    let Some(call) = sheet.ids.answered(&result.call_id) else {
        sheet.lost_part("tool result", "it answers no call");
        return false;
    };
    put(out, "{\"type\":\"tool_result\",\"tool_use_id\":");
    string(out, &call.sent);
    if let Note::Toolset(name) = &call.note {
        put(out, ",\"toolset_name\":");
        put(out, name);
    }
    let start = out.len();
    put(out, ",\"content\":");
    match &result.content {
        Content::Text(text) if !text.is_blank() => splice(out, text.literal()),
        Content::Text(_) => out.truncate(start),
        content => {
            let mut blocks = Vec::new();
            write_content(sheet, content, &mut blocks);
            if blocks.is_empty() {
                out.truncate(start);
            } else {
                out.push(b'[');
                out.extend_from_slice(&blocks);
                out.push(b']');
            }
        }
    }
    if !result.success {
        if out.len() == start {
            // A failure has to say something.
            put(out, ",\"content\":\"The tool failed and gave no reason.\"");
        }
        put(out, ",\"is_error\":true");
    }
    out.push(b'}');
    true
}

/// Writes what a person, a program or a tool said.
fn write_content(sheet: &mut Sheet, content: &Content, out: &mut Vec<u8>) {
    for piece in pieces(content) {
        match piece {
            Piece::Text(text) if text.is_blank() => {}
            Piece::Text(text) => {
                comma(out);
                put(out, "{\"type\":\"text\",\"text\":");
                splice(out, text.literal());
                out.push(b'}');
            }
            Piece::Url(url) => {
                comma(out);
                put(
                    out,
                    "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":",
                );
                string(out, url);
                put(out, "}}");
            }
            Piece::Data { media_type, base64 } => {
                let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
                if !known.contains(&media_type) || base64.is_empty() {
                    sheet.lost_part("image", "the service takes only JPEG, PNG, GIF and WebP");
                    comma(out);
                    put(
                        out,
                        "{\"type\":\"text\",\"text\":\"(An image that cannot be shown.)\"}",
                    );
                    continue;
                }
                comma(out);
                put(
                    out,
                    "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":",
                );
                string(out, media_type);
                put(out, ",\"data\":");
                string(out, base64);
                put(out, "}}");
            }
            Piece::Other => sheet.lost_part("part", "of a kind the service is not known to take"),
        }
    }
}
