//! The Responses stream.

use super::{Context, Frame};
use crate::script::Stop;
use crate::value::At;
use serde_json::{Value, json};

pub(super) fn event(data: &Value) -> String {
    format!(
        "event: {}\ndata: {data}\n\n",
        data.at("type").as_str().unwrap_or_default()
    )
}

struct Items<'a> {
    context: &'a Context<'a>,
    frames: Vec<Frame>,
    sequence: usize,
    output: Vec<Value>,
}

impl Items<'_> {
    fn push(&mut self, mut data: Value, gives: Option<Value>) {
        data.put("sequence_number", json!(self.sequence));
        self.sequence += 1;
        self.frames.push(Frame {
            text: event(&data),
            gives,
        });
    }

    fn index(&self) -> usize {
        self.output.len()
    }

    fn added(&mut self, item: &Value) {
        let data = json!({"type": "response.output_item.added", "output_index": self.index(), "item": item});
        self.push(data, None);
    }

    fn done(&mut self, item: Value) {
        let data = json!({"type": "response.output_item.done", "output_index": self.index(), "item": item});
        self.push(data, Some(item.clone()));
        self.output.push(item);
    }

    fn part(&mut self, kind: &str, id: &str, rest: Value) {
        let mut data = json!({"type": kind, "item_id": id, "output_index": self.index()});
        if let (Some(data), Value::Object(rest)) = (data.as_object_mut(), rest) {
            data.extend(rest);
        }
        self.push(data, None);
    }

    fn reasoning(&mut self, text: &str) {
        let number = self.context.number;
        let id = format!("rs_{number:04}{}", self.index());
        let place = self.index();
        let blob = self.context.blob("gAAAAABp", place);
        let mut item = json!({"id": id, "type": "reasoning", "summary": []});
        if let Some(blob) = &blob {
            // The added item may hold another blob than the finished one.
            item.put("encrypted_content", json!(blob.get(..24)));
        }
        self.added(&item);
        let part = json!({"type": "summary_text", "text": ""});
        self.part(
            "response.reasoning_summary_part.added",
            &id,
            json!({"summary_index": 0, "part": part}),
        );
        for piece in self.context.pieces(text) {
            self.part(
                "response.reasoning_summary_text.delta",
                &id,
                json!({"summary_index": 0, "delta": piece}),
            );
        }
        self.part(
            "response.reasoning_summary_text.done",
            &id,
            json!({"summary_index": 0, "text": text}),
        );
        let part = json!({"type": "summary_text", "text": text});
        self.part(
            "response.reasoning_summary_part.done",
            &id,
            json!({"summary_index": 0, "part": part}),
        );
        item.put("summary", json!([part]));
        if let Some(blob) = blob {
            item.put("encrypted_content", json!(blob));
        }
        self.done(item);
    }

    fn message(&mut self, text: &str, stop: &Stop) {
        let id = format!("msg_{:04}{}", self.context.number, self.index());
        let mut item = json!({"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []});
        self.added(&item);
        let refuses = *stop == Stop::Refusal;
        let part = |text: &str| {
            if refuses {
                json!({"type": "refusal", "refusal": text})
            } else {
                json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
            }
        };
        let name = if refuses { "refusal" } else { "output_text" };
        self.part(
            "response.content_part.added",
            &id,
            json!({"content_index": 0, "part": part("")}),
        );
        for piece in self.context.pieces(text) {
            self.part(
                &format!("response.{name}.delta"),
                &id,
                json!({"content_index": 0, "delta": piece}),
            );
        }
        let field = if refuses { "refusal" } else { "text" };
        self.part(
            &format!("response.{name}.done"),
            &id,
            json!({"content_index": 0, field: text}),
        );
        self.part(
            "response.content_part.done",
            &id,
            json!({"content_index": 0, "part": part(text)}),
        );
        item.put("content", json!([part(text)]));
        item.put(
            "status",
            json!(if *stop == Stop::MaxOutput {
                "incomplete"
            } else {
                "completed"
            }),
        );
        self.done(item);
    }

    fn call(&mut self, i: usize) {
        let Some(call) = self.context.reply.calls.get(i) else {
            return;
        };
        let id = format!("fc_{:04}{}", self.context.number, self.index());
        let call_id = self.context.call_id(&call.id, "call_", i);
        let mut item = json!({"id": id, "type": "function_call", "status": "in_progress",
            "arguments": "", "call_id": call_id, "name": call.name});
        self.added(&item);
        for piece in self.context.pieces(&call.args) {
            self.part(
                "response.function_call_arguments.delta",
                &id,
                json!({"delta": piece}),
            );
        }
        self.part(
            "response.function_call_arguments.done",
            &id,
            json!({"arguments": call.args, "name": call.name}),
        );
        item.put("arguments", json!(call.args));
        item.put("status", json!("completed"));
        self.done(item);
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": format!("resp_{:04}", self.context.number), "object": "response",
            "created_at": 1_796_000_000, "status": status, "background": false, "error": null,
            "incomplete_details": null, "instructions": null, "max_output_tokens": null,
            "model": self.context.model, "output": [], "parallel_tool_calls": true,
            "previous_response_id": null, "reasoning": {"effort": "medium", "summary": "auto"},
            "store": self.context.body.at("store") != false, "temperature": 1.0,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "truncation": "disabled", "usage": null, "metadata": {},
        })
    }
}

pub(super) fn frames(context: &Context<'_>) -> Vec<Frame> {
    let reply = context.reply;
    let stop = reply.stop_in_force();
    let mut items = Items {
        context,
        frames: Vec::new(),
        sequence: 0,
        output: Vec::new(),
    };
    for kind in ["response.created", "response.in_progress"] {
        let data = json!({"type": kind, "response": items.response("in_progress")});
        items.push(data, None);
    }
    if let Some(text) = &reply.reasoning {
        items.reasoning(text);
    }
    if let Some(text) = &reply.text {
        items.message(text, &stop);
    }
    if let Some(text) = &reply.reasoning_before_calls {
        items.reasoning(text);
    }
    for i in 0..reply.calls.len() {
        items.call(i);
    }
    let (status, key, value) = match &stop {
        Stop::MaxOutput => (
            "incomplete",
            "incomplete_details",
            json!({"reason": "max_output_tokens"}),
        ),
        Stop::Refusal if reply.text.is_none() => (
            "incomplete",
            "incomplete_details",
            json!({"reason": "content_filter"}),
        ),
        Stop::ContextFull => (
            "failed",
            "error",
            json!({"code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model. Please adjust your input and try again."}),
        ),
        Stop::Raw(raw) => ("incomplete", "incomplete_details", json!({"reason": raw})),
        Stop::EndTurn | Stop::ToolUse | Stop::Refusal | Stop::Paused => {
            ("completed", "error", Value::Null)
        }
    };
    let mut response = items.response(status);
    response.put("output", json!(items.output));
    response.put(key, value);
    response.put(
        "usage",
        json!({"input_tokens": 25, "output_tokens": 42, "total_tokens": 67,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 4}}),
    );
    items.push(
        json!({"type": format!("response.{status}"), "response": response}),
        None,
    );
    items.frames
}
