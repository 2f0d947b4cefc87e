//! The generateContent stream.

use super::{Context, Frame};
use crate::script::Stop;
use crate::value::At;
use serde_json::{Value, json};

pub(super) fn event(data: &Value) -> String {
    line(&data.to_string())
}

fn line(data: &str) -> String {
    format!("data: {data}\r\n\r\n")
}

/// A chunk of one part. The part is JSON text, so that arguments stay as scripted.
fn chunk(context: &Context<'_>, part: &str, finish: Option<&str>) -> String {
    let finish = finish.map_or(String::new(), |word| {
        format!(",\"finishReason\":{}", json!(word))
    });
    let rest = json!({
        "promptTokenCount": 25, "candidatesTokenCount": 38, "totalTokenCount": 67,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25}], "thoughtsTokenCount": 4,
    });
    line(&format!(
        "{{\"candidates\":[{{\"content\":{{\"parts\":[{part}],\"role\":\"model\"}}{finish},\"index\":0}}],\"usageMetadata\":{rest},\"modelVersion\":{},\"responseId\":\"resp-{:04}\"}}",
        json!(context.model),
        context.number
    ))
}

pub(super) fn frames(context: &Context<'_>) -> Vec<Frame> {
    let reply = context.reply;
    let mut frames = Vec::new();
    for piece in context.pieces(reply.reasoning.as_deref().unwrap_or_default()) {
        let part = json!({"text": piece, "thought": true});
        frames.push(Frame::new(chunk(context, &part.to_string(), None)));
    }
    for piece in context.pieces(reply.text.as_deref().unwrap_or_default()) {
        frames.push(Frame::new(chunk(
            context,
            &json!({"text": piece}).to_string(),
            None,
        )));
    }
    for (i, call) in reply.calls.iter().enumerate() {
        // One line, and an object: calls come whole here.
        let parsed: Value = serde_json::from_str(&call.args).unwrap_or_else(|_| json!({}));
        let args = if parsed.is_object() && !call.args.contains(['\n', '\r']) {
            call.args.clone()
        } else {
            parsed.to_string()
        };
        let id = if call.id.is_empty() {
            String::new()
        } else {
            format!(",\"id\":{}", json!(call.id))
        };
        // Only the first of parallel calls has a signature.
        let signature = context.blob("CiQB", 0).filter(|_| i == 0);
        let signed = signature.as_ref().map_or(String::new(), |text| {
            format!(",\"thoughtSignature\":{}", json!(text))
        });
        let part = format!(
            "{{\"functionCall\":{{\"name\":{},\"args\":{args}{id}}}{signed}}}",
            json!(call.name)
        );
        let whole = signature.and_then(|_| serde_json::from_str(&part).ok());
        frames.push(Frame {
            text: chunk(context, &part, None),
            gives: whole,
        });
    }
    let finish = match reply.stop_in_force() {
        Stop::EndTurn | Stop::ToolUse => "STOP".to_owned(),
        Stop::MaxOutput | Stop::ContextFull => "MAX_TOKENS".to_owned(),
        Stop::Refusal => "SAFETY".to_owned(),
        Stop::Paused => "CONTINUATION".to_owned(),
        Stop::Raw(raw) => raw,
    };
    let mut last = json!({"text": ""});
    let mut gives = None;
    if reply.calls.is_empty()
        && reply.reasoning.is_some()
        && let Some(signature) = context.blob("CiQB", 1)
    {
        last.put("thoughtSignature", json!(signature));
        gives = Some(last.clone());
    }
    frames.push(Frame {
        text: chunk(context, &last.to_string(), Some(&finish)),
        gives,
    });
    frames
}
