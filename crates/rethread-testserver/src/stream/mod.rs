//! Replies as event streams.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use crate::api::Api;
use crate::rules::ChatServer;
use crate::script::Reply;
use serde_json::Value;

/// One event: its bytes, and what is whole on the client's side once it came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) text: String,
    /// A completed block, item or part, as it has to come back.
    pub(crate) gives: Option<Value>,
}

impl Frame {
    fn new(text: String) -> Self {
        Self { text, gives: None }
    }

    fn gives(text: String, value: Value) -> Self {
        Self {
            text,
            gives: Some(value),
        }
    }
}

/// What a stream is built from.
pub(crate) struct Context<'a> {
    pub(crate) reply: &'a Reply,
    /// The number of this response on the server; makes ids and blobs unique.
    pub(crate) number: usize,
    pub(crate) model: &'a str,
    pub(crate) chat: ChatServer,
    /// The request body.
    pub(crate) body: &'a Value,
}

impl Context<'_> {
    /// An opaque value, the same for the same place in the same response.
    fn blob(&self, prefix: &str, place: usize) -> Option<String> {
        (!self.reply.unsigned).then(|| {
            format!(
                "{prefix}{}",
                opaque(&format!("{prefix} {} {place}", self.number))
            )
        })
    }

    fn pieces(&self, text: &str) -> Vec<String> {
        let size = if self.reply.piece == 0 {
            7
        } else {
            self.reply.piece
        };
        let chars: Vec<char> = text.chars().collect();
        chars
            .chunks(size)
            .map(|chunk| chunk.iter().collect())
            .collect()
    }

    /// The id of a call, made up where the script gives none.
    fn call_id(&self, given: &str, prefix: &str, index: usize) -> String {
        if given.is_empty() {
            format!("{prefix}{}x{index}", self.number)
        } else {
            given.to_owned()
        }
    }
}

/// The whole stream of a reply.
pub(crate) fn frames(api: Api, context: &Context<'_>) -> Vec<Frame> {
    match api {
        Api::Anthropic => anthropic::frames(context),
        Api::Chat => chat::frames(context),
        Api::Responses => responses::frames(context),
        Api::Gemini => gemini::frames(context),
    }
}

/// The API's error event inside a stream.
pub(crate) fn error_frame(api: Api) -> String {
    match api {
        Api::Anthropic => anthropic::event(
            "error",
            &serde_json::json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ),
        Api::Chat => chat::event(&serde_json::json!({"error": {
            "message": "The server had an error while processing your request. Sorry about that!",
            "type": "server_error", "param": null, "code": null,
        }})),
        Api::Responses => responses::event(&serde_json::json!({
            "type": "error", "code": "server_error", "param": null, "sequence_number": 99,
            "message": "The server had an error while processing your request. Sorry about that!",
        })),
        Api::Gemini => gemini::event(&serde_json::json!({"error": {
            "code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE",
        }})),
    }
}

/// The frame with its data cut in half; the line and the event are still closed.
pub(crate) fn cut(frame: &str) -> String {
    let end = if frame.ends_with("\r\n\r\n") {
        "\r\n\r\n"
    } else {
        "\n\n"
    };
    let whole = frame.trim_end();
    let start = whole.find("data: ").map_or(0, |at| at + "data: ".len());
    let mut half = start + (whole.len() - start) / 2;
    while !whole.is_char_boundary(half) {
        half += 1;
    }
    format!("{}{end}", whole.get(..half).unwrap_or(whole))
}

/// Base64 text made from `seed`, always with `+`, `/` and `=` in it.
fn opaque(seed: &str) -> String {
    // FNV-1a, then xorshift: not secret, only the same each time and different for each seed.
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in seed.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut bytes = Vec::new();
    for round in 0..5 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes().into_iter().take(6));
        if round == 2 {
            // "++++////"
            bytes.extend([0xfb, 0xef, 0xbe, 0xff, 0xff, 0xff]);
        }
    }
    bytes.push(0x7e);
    base64(&bytes)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| chunk.get(i).copied().map_or(0, u32::from);
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i > chunk.len() {
                text.push('=');
            } else {
                let at = usize::try_from(word >> (18 - 6 * i) & 63).unwrap_or(0);
                text.push(LETTERS.get(at).copied().map_or('A', char::from));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_stable_and_nasty() {
        let one = opaque("a");
        assert_eq!(one, opaque("a"));
        assert_ne!(one, opaque("b"));
        for c in ["++++", "////", "=="] {
            assert!(one.contains(c), "{one}");
        }
        assert_eq!(one.len() % 4, 0);
        assert_eq!(
            (base64(b"Ma"), base64(b"Man"), base64(b"M")),
            ("TWE=".into(), "TWFu".into(), "TQ==".into())
        );
    }

    #[test]
    fn cut_frames_are_not_json() {
        let frame = "event: x\ndata: {\"type\":\"x\",\"text\":\"üüüüüü\"}\n\n";
        let half = cut(frame);
        assert!(half.starts_with("event: x\ndata: {") && half.ends_with("\n\n"));
        let data = half.trim_end().split("data: ").nth(1).unwrap();
        assert!(serde_json::from_str::<Value>(data).is_err());
    }
}
