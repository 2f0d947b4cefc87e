//! The Messages stream.

use super::{Context, Frame};
use crate::script::Stop;
use serde_json::{Value, json};

pub(super) fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

struct Blocks {
    frames: Vec<Frame>,
    index: usize,
}

impl Blocks {
    fn start(&mut self, block: Value) {
        self.frames.push(Frame::new(event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": self.index, "content_block": block}),
        )));
    }

    fn delta(&mut self, delta: Value) {
        self.frames.push(Frame::new(event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": self.index, "delta": delta}),
        )));
    }

    fn stop(&mut self, whole: Value) {
        self.frames.push(Frame::gives(
            event(
                "content_block_stop",
                &json!({"type": "content_block_stop", "index": self.index}),
            ),
            whole,
        ));
        self.index += 1;
    }

    fn thinking(&mut self, context: &Context<'_>, text: &str) {
        let signature = context.blob("EqQB", self.index);
        self.start(json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in context.pieces(text) {
            self.delta(json!({"type": "thinking_delta", "thinking": piece}));
        }
        if let Some(signature) = &signature {
            self.delta(json!({"type": "signature_delta", "signature": signature}));
        }
        let signature = signature.unwrap_or_default();
        self.stop(json!({"type": "thinking", "thinking": text, "signature": signature}));
    }
}

pub(super) fn frames(context: &Context<'_>) -> Vec<Frame> {
    let reply = context.reply;
    let mut blocks = Blocks {
        frames: Vec::new(),
        index: 0,
    };
    blocks.frames.push(Frame::new(event(
        "message_start",
        &json!({"type": "message_start", "message": {
            "id": format!("msg_{:04}", context.number), "type": "message", "role": "assistant",
            "model": context.model, "content": [], "stop_reason": null, "stop_sequence": null,
            "stop_details": null,
            "usage": {"input_tokens": 25, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "output_tokens": 1, "service_tier": "standard"},
        }}),
    )));
    blocks
        .frames
        .push(Frame::new(event("ping", &json!({"type": "ping"}))));
    if let Some(text) = &reply.reasoning {
        blocks.thinking(context, text);
    }
    if reply.redacted
        && let Some(data) = context.blob("Redacted", blocks.index)
    {
        let whole = json!({"type": "redacted_thinking", "data": data});
        blocks.start(whole.clone());
        blocks.stop(whole);
    }
    if let Some(text) = &reply.text {
        blocks.start(json!({"type": "text", "text": ""}));
        for piece in context.pieces(text) {
            blocks.delta(json!({"type": "text_delta", "text": piece}));
        }
        blocks.stop(json!({"type": "text", "text": text}));
    }
    if let Some(text) = &reply.reasoning_before_calls {
        blocks.thinking(context, text);
    }
    for (i, call) in reply.calls.iter().enumerate() {
        let id = context.call_id(&call.id, "toolu_", i);
        blocks.start(json!({"type": "tool_use", "id": id, "name": call.name, "input": {}}));
        blocks.delta(json!({"type": "input_json_delta", "partial_json": ""}));
        for piece in context.pieces(&call.args) {
            blocks.delta(json!({"type": "input_json_delta", "partial_json": piece}));
        }
        let input: Value = serde_json::from_str(&call.args).unwrap_or_else(|_| json!({}));
        blocks.stop(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }
    let (reason, details) = match reply.stop_in_force() {
        Stop::EndTurn => ("end_turn".to_owned(), Value::Null),
        Stop::ToolUse => ("tool_use".to_owned(), Value::Null),
        Stop::MaxOutput => ("max_tokens".to_owned(), Value::Null),
        Stop::Refusal => (
            "refusal".to_owned(),
            json!({"type": "refusal", "category": "cyber", "explanation": "Not this."}),
        ),
        Stop::ContextFull => ("model_context_window_exceeded".to_owned(), Value::Null),
        Stop::Paused => ("pause_turn".to_owned(), Value::Null),
        Stop::Raw(raw) => (raw, Value::Null),
    };
    blocks.frames.push(Frame::new(event(
        "message_delta",
        &json!({"type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": null, "stop_details": details},
            "usage": {"output_tokens": 42}}),
    )));
    blocks.frames.push(Frame::new(event(
        "message_stop",
        &json!({"type": "message_stop"}),
    )));
    blocks.frames
}
