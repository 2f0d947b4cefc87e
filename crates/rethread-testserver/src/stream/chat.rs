//! The Chat Completions stream.

use super::{Context, Frame};
use crate::rules::ChatServer;
use crate::script::Stop;
use crate::value::At;
use serde_json::{Value, json};

pub(super) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn chunk(context: &Context<'_>, choices: &Value, usage: &Value) -> String {
    event(&json!({
        "id": format!("chatcmpl-{:04}", context.number), "object": "chat.completion.chunk",
        "created": 1_796_000_000, "model": context.model, "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb", "choices": choices, "usage": usage,
    }))
}

fn delta(context: &Context<'_>, delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    chunk(context, &json!([choice]), &Value::Null)
}

fn reasoning(context: &Context<'_>, text: &str, frames: &mut Vec<Frame>) {
    let openrouter = context.chat == ChatServer::OpenRouter;
    for piece in context.pieces(text) {
        let value = if openrouter {
            json!({"content": "", "reasoning": piece, "reasoning_details": [
                {"type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1", "index": 0}]})
        } else {
            json!({"reasoning_content": piece})
        };
        frames.push(Frame::new(delta(context, &value, None)));
    }
    if let Some(signature) = context.blob("Eq", 0).filter(|_| openrouter) {
        let value = json!({"content": "", "reasoning": null, "reasoning_details": [
            {"type": "reasoning.text", "signature": signature, "format": "anthropic-claude-v1", "index": 0}]});
        let whole = json!({"type": "reasoning.text", "text": text, "signature": signature,
            "format": "anthropic-claude-v1", "index": 0});
        frames.push(Frame::gives(delta(context, &value, None), whole));
    }
}

pub(super) fn frames(context: &Context<'_>) -> Vec<Frame> {
    let reply = context.reply;
    let mut frames = vec![Frame::new(delta(
        context,
        &json!({"role": "assistant", "content": null}),
        None,
    ))];
    if let Some(text) = &reply.reasoning {
        reasoning(context, text, &mut frames);
    }
    let stop = reply.stop_in_force();
    let field = if stop == Stop::Refusal {
        "refusal"
    } else {
        "content"
    };
    for piece in context.pieces(reply.text.as_deref().unwrap_or_default()) {
        frames.push(Frame::new(delta(context, &json!({field: piece}), None)));
    }
    for (i, call) in reply.calls.iter().enumerate() {
        let id = context.call_id(&call.id, "call_", i);
        let mut first = json!({"index": i, "id": id, "type": "function",
            "function": {"name": call.name, "arguments": ""}});
        let mut whole = None;
        if context.chat == ChatServer::GeminiCompat
            && i == 0
            && let Some(signature) = context.blob("Cs", 0)
        {
            let extra = json!({"google": {"thought_signature": signature}});
            first.put("extra_content", extra.clone());
            whole = Some(json!({"id": id, "extra_content": extra}));
        }
        let text = delta(context, &json!({"tool_calls": [first]}), None);
        frames.push(Frame { text, gives: whole });
        for piece in context.pieces(&call.args) {
            let more = json!({"tool_calls": [{"index": i, "function": {"arguments": piece}}]});
            frames.push(Frame::new(delta(context, &more, None)));
        }
    }
    let finish = match stop {
        Stop::EndTurn | Stop::Paused => "stop".to_owned(),
        Stop::ToolUse => "tool_calls".to_owned(),
        Stop::MaxOutput => "length".to_owned(),
        Stop::Refusal => "content_filter".to_owned(),
        Stop::ContextFull if context.chat == ChatServer::Mistral => "model_length".to_owned(),
        Stop::ContextFull => "length".to_owned(),
        Stop::Raw(raw) => raw,
    };
    frames.push(Frame::new(delta(context, &json!({}), Some(&finish))));
    if context.body.at("stream_options").at("include_usage") == true {
        let usage = json!({"prompt_tokens": 25, "completion_tokens": 42, "total_tokens": 67,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 4}});
        frames.push(Frame::new(chunk(context, &json!([]), &usage)));
    }
    frames.push(Frame::new("data: [DONE]\n\n".to_owned()));
    frames
}
