//! Recorded exchanges that continue one another: what a response holds goes through the store and
//! into the next request, which a server must accept. The folder is named from outside.

#![allow(clippy::indexing_slicing, clippy::print_stdout)] // a JSON value has no index that panics

use std::collections::BTreeMap;
use std::path::Path;

use rethread_core::{
    Assistant, Body, Entry, Json, Mark, Message, Origin, PromptOptions, Record, Timestamp,
};
use rethread_testserver::{
    ChatServer, Rules, Violation, check_anthropic, check_chat, check_gemini, check_responses,
};
use rethread_wire::formats::{Format, read};
use rethread_wire::{Api, Encoder, Target, decode_body};
use serde_json::Value;

/// One recorded exchange.
struct Exchange {
    id: String,
    provider: String,
    api: Api,
    request: Value,
    answer: String,
}

impl Exchange {
    fn read(line: &str) -> Option<Self> {
        let record: Value = serde_json::from_str(line).ok()?;
        let api = match record["api"].as_str()? {
            "anthropic-messages" => Api::AnthropicMessages,
            "openai-chat" => Api::OpenAiChat,
            "openai-responses" => Api::OpenAiResponses,
            "gemini-generate" | "gemini-stream" => Api::GeminiContents,
            _ => return None,
        };
        let path = record["request"]["path"].as_str().unwrap_or("");
        let mut request = record["request"]["body"].clone();
        if api == Api::GeminiContents {
            // The model is in the address.
            let model = path
                .rsplit('/')
                .next()
                .and_then(|last| last.split(':').next());
            request["model"] = model.into();
        }
        (record["response"]["status"] == 200 && request.is_object()).then(|| Self {
            id: record["id"].as_str().unwrap_or("").to_owned(),
            provider: record["provider"].as_str().unwrap_or("").to_owned(),
            api,
            request,
            answer: record["response"]["body"].as_str().unwrap_or("").to_owned(),
        })
    }

    fn list(&self) -> &[Value] {
        let lists = ["messages", "input", "contents"];
        let mut lists = lists
            .iter()
            .filter_map(|name| self.request[name].as_array());
        lists.next().map_or(&[], Vec::as_slice)
    }

    fn goes_on_from(&self, before: &Self) -> bool {
        let (all, old) = (self.list(), before.list());
        !old.is_empty() && all.len() > old.len() && all.starts_with(old)
    }

    fn origin(&self) -> Origin {
        let model = self.request["model"].as_str().unwrap_or("");
        Origin::new(self.api.as_str(), &self.provider, model)
    }

    fn base_url(&self) -> &str {
        match self.provider.as_str() {
            "anthropic" => "https://api.anthropic.com",
            "chatgpt" | "openai" => "https://api.openai.com/v1",
            "deepseek" => "https://api.deepseek.com",
            "gemini" => "https://generativelanguage.googleapis.com",
            "groq" => "https://api.groq.com/openai/v1",
            "mistral" => "https://api.mistral.ai/v1",
            "openrouter" => "https://openrouter.ai/api/v1",
            "xai" => "https://api.x.ai/v1",
            _ => "http://127.0.0.1:8080/v1",
        }
    }

    /// The strings in the answer that the service wants back as they are.
    fn opaque(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Ok(whole) = serde_json::from_str::<Value>(&self.answer) {
            opaque(&whole, &mut found);
            return found;
        }
        let lines = self.answer.lines();
        let events = lines.filter_map(|line| line.strip_prefix("data:"));
        let events = events.filter_map(|json| serde_json::from_str::<Value>(json).ok());
        for event in events {
            // An item of Responses is told up to three times, each time encrypted anew: the last counts.
            match (self.api, event["type"].as_str().unwrap_or("")) {
                (Api::OpenAiResponses, "response.output_item.done") => opaque(&event, &mut found),
                (Api::OpenAiResponses, "response.completed" | "response.incomplete") => {
                    let output = &event["response"]["output"];
                    if output.as_array().is_some_and(|items| !items.is_empty()) {
                        found.clear();
                        opaque(output, &mut found);
                    }
                }
                (Api::OpenAiResponses, _) => {}
                _ => opaque(&event, &mut found),
            }
        }
        found
    }

    fn violations(&self, body: &Value) -> Vec<Violation> {
        let rules = Rules {
            chat: match self.provider.as_str() {
                "deepseek" => ChatServer::DeepSeek,
                "mistral" => ChatServer::Mistral,
                "openai" => ChatServer::OpenAi,
                "openrouter" => ChatServer::OpenRouter,
                "llamacpp" => ChatServer::LlamaCpp,
                _ => ChatServer::Compatible,
            },
            gemini_signatures: self.request["model"]
                .as_str()
                .is_some_and(|model| model.contains("gemini-3")),
            ..Rules::lenient()
        };
        match self.api {
            Api::AnthropicMessages => check_anthropic(body, &rules),
            Api::OpenAiResponses => check_responses(body, &rules),
            Api::GeminiContents => check_gemini(body, &rules),
            _ => check_chat(body, &rules),
        }
    }
}

fn opaque(tree: &Value, found: &mut Vec<String>) {
    const NAMES: &[&str] = &[
        "signature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
        "encrypted_index",
    ];
    match tree {
        Value::Object(members) => {
            for (name, value) in members {
                let is_redacted = name == "data" && members.get("type").is_some_and(redacted);
                if (NAMES.contains(&name.as_str()) || is_redacted)
                    && value.as_str().is_some_and(|text| !text.is_empty())
                {
                    found.push(value.to_string());
                }
                opaque(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| opaque(value, found)),
        _ => {}
    }
}

fn redacted(kind: &Value) -> bool {
    kind == "redacted_thinking" || kind == "reasoning.encrypted"
}

/// What another process reads of a message that was stored.
fn stored(message: Message) -> Message {
    let entry = Entry::Message(Box::new(message), Mark::default());
    let bytes = Record::encode(Timestamp(0), &entry).unwrap();
    let record = Record::decode(1, &bytes).unwrap();
    record.entry.as_message().unwrap().clone()
}

/// The next request's messages, with the response as it was decoded and stored instead of how the
/// recording client wrote it down. `None` when that client sent something else.
fn messages(next: &Exchange, first: &Exchange, response: &Assistant) -> Option<Vec<Message>> {
    let loaded = read(next.request.to_string().as_bytes(), Format::from(next.api));
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut put = false;
    let mut messages = Vec::new();
    for (at, mut message) in loaded.messages {
        match &mut message.body {
            Body::Assistant(sent) if at >= first.list().len() && !put => {
                let calls = |of: &Assistant| -> Vec<String> {
                    of.tool_calls.iter().map(|call| call.name.clone()).collect()
                };
                if calls(sent) != calls(response)
                    || sent.content.to_text().trim() != response.content.to_text().trim()
                {
                    return None;
                }
                let pairs = sent.tool_calls.iter().zip(&response.tool_calls);
                ids = pairs.map(|(a, b)| (a.id.clone(), b.id.clone())).collect();
                *sent = response.clone();
                put = true;
            }
            Body::Assistant(sent) => sent.origin = Some(next.origin()),
            Body::Tool(result) => {
                if let Some(id) = ids.get(&result.call_id) {
                    result.call_id.clone_from(id);
                }
            }
            _ => {}
        }
        messages.push(stored(message));
    }
    put.then_some(messages)
}

fn request(next: &Exchange, messages: &[Message]) -> String {
    let origin = next.origin();
    let mut target = Target::new(next.api, next.base_url(), &origin.model);
    for name in ["tools", "thinking"] {
        if let Some(given) = next.request.get(name) {
            let json = Json::parse(&given.to_string()).unwrap();
            target.fields.push((name.to_owned(), json));
        }
    }
    let mut encoder = Encoder::new(next.api, origin, &PromptOptions::default(), target);
    for message in messages {
        encoder.push(message);
    }
    String::from_utf8(encoder.body().to_vec()).unwrap()
}

#[test]
#[ignore = "needs RETHREAD_SHARED"]
fn what_a_response_holds_comes_back_in_the_next_request() {
    let Some(folder) = std::env::var_os("RETHREAD_SHARED") else {
        return;
    };
    let (mut went, mut strings, mut others) = (0, 0, 0);
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(Path::new(&folder).join("recordings")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "jsonl") {
            continue;
        }
        let mut sessions: BTreeMap<String, Vec<Exchange>> = BTreeMap::new();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(exchange) = Exchange::read(line) {
                let session = exchange.id.split('#').next().unwrap_or("").to_owned();
                sessions.entry(session).or_default().push(exchange);
            }
        }
        for session in sessions.values() {
            for (at, next) in session.iter().enumerate() {
                for first in session.iter().take(at) {
                    if !next.goes_on_from(first) {
                        continue;
                    }
                    let Ok(response) =
                        decode_body(first.api, next.origin(), first.answer.as_bytes())
                    else {
                        continue;
                    };
                    let Some(messages) = messages(next, first, &response) else {
                        others += 1;
                        continue;
                    };
                    let body = request(next, &messages);
                    went += 1;
                    for item in first.opaque() {
                        strings += 1;
                        if !body.contains(&item) {
                            wrong.push(format!("{} -> {}: lost {item}", first.id, next.id));
                        }
                    }
                    let value: Value = serde_json::from_str(&body).unwrap();
                    for violation in next.violations(&value) {
                        wrong.push(format!("{} -> {}: {violation}", first.id, next.id));
                    }
                }
            }
        }
    }
    let count = wrong.len();
    assert!(count == 0, "{count} of {went}:\n{}", wrong.join("\n"));
    assert!(went > 0 && strings > 0);
    println!("{went} went on with {strings} opaque strings; {others} told another story");
}
