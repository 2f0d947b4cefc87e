//! What the server handed out, and whether a request brings it back unharmed.

use crate::api::Api;
use crate::rules::{Found, Rules, Violation, strip_cache_control};
use crate::value::At;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Everything opaque that was given to clients.
#[derive(Default)]
pub(crate) struct Memory {
    thinking: HashMap<String, Thinking>,
    /// Per Anthropic response: its opaque blocks in order.
    groups: Vec<Vec<String>>,
    /// encrypted_content → item
    reasoning: HashMap<String, Value>,
    /// reasoning item id → the item that followed
    followers: HashMap<String, Value>,
    /// id of a following item → id of the reasoning item before it
    leaders: HashMap<String, String>,
    responses: HashSet<String>,
    /// signature → part
    parts: HashMap<String, Value>,
    /// Gemini call id → its signature
    signed_calls: HashMap<String, String>,
    /// signature → detail, or call with its extra content
    chat: HashMap<String, Value>,
}

struct Thinking {
    block: Value,
    model: Value,
    prefix: Prefix,
    group: usize,
}

/// What a thinking block is bound to.
struct Prefix {
    head: Value,
    blocks: Vec<Value>,
}

/// The opaque value of a thinking or redacted_thinking block.
fn blob(block: &Value) -> Option<&str> {
    match block.at("type").as_str() {
        Some("thinking") => block.at("signature").as_str(),
        Some("redacted_thinking") => block.at("data").as_str(),
        _ => None,
    }
}

fn head(body: &Value) -> Value {
    let mut head = json!({"system": body.at("system"), "tools": body.at("tools")});
    if let Some(text) = head.at("system").as_str() {
        head.put("system", json!([{"type": "text", "text": text}]));
    }
    if let Some(map) = head.as_object_mut() {
        map.values_mut().for_each(strip_cache_control);
    }
    head
}

/// A message's blocks with their role, in a form in which equal things are equal.
struct Flat {
    at: String,
    message: usize,
    value: Value,
}

fn flatten(body: &Value) -> Vec<Flat> {
    let mut flat = Vec::new();
    for (i, message) in body
        .at("messages")
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let blocks = match message.at("content") {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            Value::Array(list) => list.clone(),
            _ => Vec::new(),
        };
        for (j, mut block) in blocks.into_iter().enumerate() {
            strip_cache_control(&mut block);
            flat.push(Flat {
                at: format!("messages.{i}.content.{j}"),
                message: i,
                value: normal(message.at("role"), block),
            });
        }
    }
    flat
}

/// The role beside the block, without nulls, a result's text as a list.
fn normal(role: &Value, mut block: Value) -> Value {
    if let Some(map) = block.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    if block.at("type") == "tool_result"
        && let Some(text) = block.at("content").as_str()
    {
        block.put("content", json!([{"type": "text", "text": text}]));
    }
    json!({"role": role, "block": block})
}

/// Is `now` equal to `then`, apart from a leading run of thinking blocks left out?
fn same_prefix(then: &[Value], now: &[Value]) -> bool {
    let thinks = |value: &&Value| blob(value.at("block")).is_some();
    let mut skip = then
        .iter()
        .filter(thinks)
        .count()
        .saturating_sub(now.iter().filter(thinks).count());
    let mut kept = then.iter().filter(|value| {
        let leave = skip > 0 && thinks(value);
        if leave {
            skip -= 1;
        }
        !leave
    });
    now.iter().all(|value| kept.next() == Some(value)) && kept.next().is_none()
}

impl Memory {
    /// Remember what a response gave. `given` is in the order of the stream.
    pub(crate) fn learn(&mut self, api: Api, number: usize, body: &Value, given: Vec<Value>) {
        match api {
            Api::Anthropic => self.learn_anthropic(body, given),
            Api::Responses => {
                self.responses.insert(format!("resp_{number:04}"));
                self.learn_responses(given);
            }
            Api::Gemini => {
                for part in given {
                    let Some(signature) = part.at("thoughtSignature").as_str() else {
                        continue;
                    };
                    if let Some(id) = part.at("functionCall").at("id").as_str() {
                        self.signed_calls
                            .insert(id.to_owned(), signature.to_owned());
                    }
                    self.parts.insert(signature.to_owned(), part);
                }
            }
            Api::Chat => {
                for value in given {
                    let key = value.at("signature").as_str().or_else(|| {
                        value
                            .at("extra_content")
                            .at("google")
                            .at("thought_signature")
                            .as_str()
                    });
                    if let Some(key) = key {
                        self.chat.insert(key.to_owned(), value);
                    }
                }
            }
        }
    }

    fn learn_anthropic(&mut self, body: &Value, given: Vec<Value>) {
        let mut blocks: Vec<Value> = flatten(body).into_iter().map(|flat| flat.value).collect();
        let group = self.groups.len();
        let mut blobs = Vec::new();
        for block in given {
            if let Some(key) = blob(&block).filter(|key| !key.is_empty()) {
                blobs.push(key.to_owned());
                let prefix = Prefix {
                    head: head(body),
                    blocks: blocks.clone(),
                };
                let model = body.at("model").clone();
                let known = Thinking {
                    block: block.clone(),
                    model,
                    prefix,
                    group,
                };
                self.thinking.insert(key.to_owned(), known);
            }
            blocks.push(normal(&json!("assistant"), block));
        }
        self.groups.push(blobs);
    }

    fn learn_responses(&mut self, given: Vec<Value>) {
        let mut leader: Option<String> = None;
        let mut direct: Option<String> = None;
        for item in given {
            let id = item.at("id").as_str().unwrap_or_default().to_owned();
            if let Some(before) = direct.take() {
                self.followers.insert(before, item.clone());
            }
            if item.at("type") == "reasoning" {
                if let Some(key) = item.at("encrypted_content").as_str() {
                    self.reasoning.insert(key.to_owned(), item.clone());
                }
                leader = Some(id.clone());
                direct = Some(id);
            } else if let Some(leader) = &leader {
                self.leaders.insert(id, leader.clone());
            }
        }
    }

    /// Check what a request brings back.
    pub(crate) fn check(
        &self,
        api: Api,
        body: &Value,
        rules: &Rules,
        may_drop: bool,
    ) -> Vec<Violation> {
        let mut found = Found::default();
        match api {
            Api::Anthropic => self.check_anthropic(&mut found, body, rules, may_drop),
            Api::Responses => self.check_responses(&mut found, body, rules),
            Api::Gemini => self.check_gemini(&mut found, body, rules),
            Api::Chat => self.check_chat(&mut found, body, rules),
        }
        found.0
    }

    fn check_anthropic(&self, f: &mut Found, body: &Value, rules: &Rules, may_drop: bool) {
        let flat = flatten(body);
        let values: Vec<Value> = flat.iter().map(|flat| flat.value.clone()).collect();
        let latest = flat
            .iter()
            .rev()
            .find(|flat| flat.value.at("role") == "assistant")
            .map(|f| f.message);
        for (n, one) in flat.iter().enumerate() {
            let block = one.value.at("block");
            let Some(key) = blob(block) else { continue };
            let known = self.thinking.get(key);
            let kind = block.at("type").as_str().unwrap_or_default();
            let (at, forged) = (
                &one.at,
                format!("{}: Invalid `signature` in `{kind}` block", one.at),
            );
            let Some(known) = known else {
                if rules.known_blobs {
                    f.add("thinking.signature", at, forged);
                }
                continue;
            };
            if known.block != *block {
                if latest == Some(one.message) {
                    modified(f, at);
                } else {
                    f.add("thinking.signature", at, forged);
                }
                continue;
            }
            // Blocks of another model are dropped silently.
            let bound =
                rules.anthropic_bound_thinking && !may_drop && known.model == *body.at("model");
            let prefix = values.get(..n).unwrap_or_default();
            if bound
                && (known.prefix.head != head(body) || !same_prefix(&known.prefix.blocks, prefix))
            {
                f.add(
                    "thinking.bound",
                    at,
                    format!("{forged}. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\". That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."),
                );
            }
        }
        // The latest assistant message holds all blocks of its response, in order.
        let here: Vec<&str> = flat
            .iter()
            .filter(|flat| Some(flat.message) == latest)
            .filter_map(|flat| blob(flat.value.at("block")))
            .collect();
        let groups: HashSet<usize> = here
            .iter()
            .filter_map(|key| self.thinking.get(*key))
            .map(|known| known.group)
            .collect();
        for group in groups {
            let whole = self.groups.get(group).map_or(&[][..], Vec::as_slice);
            let sent: Vec<&str> = here
                .iter()
                .copied()
                .filter(|key| whole.iter().any(|one| one == key))
                .collect();
            if sent != whole {
                modified(
                    f,
                    &format!("messages.{}.content.0", latest.unwrap_or_default()),
                );
            }
        }
    }

    fn check_responses(&self, f: &mut Found, body: &Value, rules: &Rules) {
        if let Some(id) = body.at("previous_response_id").as_str()
            && rules.known_blobs
            && !self.responses.contains(id)
        {
            f.add_as(
                "previous_response",
                "previous_response_id",
                format!("Previous response with id '{id}' not found."),
                400,
                Some("previous_response_not_found"),
            );
        }
        let items = body.at("input").as_array().map_or(&[][..], Vec::as_slice);
        for (i, item) in items.iter().enumerate() {
            let at = format!("input[{i}]");
            let id = item.at("id").as_str().unwrap_or_default();
            let kind = item.at("type").as_str().unwrap_or("message");
            if let Some(key) = item
                .at("encrypted_content")
                .as_str()
                .filter(|_| kind == "reasoning")
            {
                let known = self.reasoning.get(key);
                let sound = match known {
                    None => !rules.known_blobs,
                    // The id is optional; the words of the summary are not sealed, but
                    // nobody has a reason to change them.
                    Some(known) => {
                        (id.is_empty() || known.at("id") == id)
                            && known.at("summary") == item.at("summary")
                    }
                };
                if !sound {
                    f.add_as(
                        "reasoning.encrypted",
                        &at,
                        format!("The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be decrypted or parsed."),
                        400,
                        Some("invalid_encrypted_content"),
                    );
                }
            }
            if let Some(leader) = self.leaders.get(id)
                && !items
                    .iter()
                    .take(i)
                    .any(|item| item.at("id") == leader.as_str())
            {
                f.add(
                    "reasoning.missing",
                    &at,
                    format!("Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{leader}'."),
                );
            }
            if let Some(follower) = self.followers.get(id) {
                let next = items.get(i + 1).unwrap_or(&Value::Null);
                let same = if next.at("id").is_string() {
                    next.at("id") == follower.at("id")
                } else {
                    next.at("type") == follower.at("type")
                        && next.at("call_id") == follower.at("call_id")
                        || next.at("role") == "assistant" && follower.at("role") == "assistant"
                };
                // Its absence altogether is found without a memory.
                if !same && !next.is_null() {
                    f.add(
                        "reasoning.follower",
                        &at,
                        format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
                    );
                }
            }
        }
    }

    fn check_gemini(&self, f: &mut Found, body: &Value, rules: &Rules) {
        for (i, content) in body
            .at("contents")
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            for (j, part) in content
                .at("parts")
                .as_array()
                .into_iter()
                .flatten()
                .enumerate()
            {
                let Some(signature) = part.at("thoughtSignature").as_str() else {
                    continue;
                };
                let at = format!("contents[{i}].parts[{j}]");
                if crate::rules::is_dummy(signature) {
                    let id = part
                        .at("functionCall")
                        .at("id")
                        .as_str()
                        .unwrap_or_default();
                    if rules.known_blobs && self.signed_calls.contains_key(id) {
                        f.add("signature.dummy", at, "Corrupted thought signature.");
                    }
                    continue;
                }
                let sound = match self.parts.get(signature) {
                    None => !rules.known_blobs,
                    Some(known) => known == part,
                };
                if !sound {
                    f.add(
                        "signature.unknown",
                        at,
                        "Unable to submit request because Thought signature is not valid",
                    );
                }
            }
        }
    }

    fn check_chat(&self, f: &mut Found, body: &Value, rules: &Rules) {
        for (i, message) in body
            .at("messages")
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            for detail in message
                .at("reasoning_details")
                .as_array()
                .into_iter()
                .flatten()
            {
                let Some(signature) = detail.at("signature").as_str() else {
                    continue;
                };
                let sound = match self.chat.get(signature) {
                    None => !rules.known_blobs,
                    Some(known) => known == detail,
                };
                if !sound {
                    f.add(
                        "reasoning.details",
                        format!("messages[{i}]"),
                        "Provider returned error: Thought signature is not valid",
                    );
                }
            }
            for call in message.at("tool_calls").as_array().into_iter().flatten() {
                let extra = call.at("extra_content");
                let Some(signature) = extra.at("google").at("thought_signature").as_str() else {
                    continue;
                };
                let sound = match self.chat.get(signature) {
                    None => !rules.known_blobs,
                    Some(known) => {
                        known.at("id") == call.at("id") && known.at("extra_content") == extra
                    }
                };
                if !sound {
                    f.add(
                        "signature.unknown",
                        format!("messages[{i}]"),
                        "Thought signature is not valid",
                    );
                }
            }
        }
        // A signed thing that was given and is gone is as bad as an altered one.
        let known = |message: &Value| {
            self.chat.values().find(|value| {
                value.at("extra_content").is_object()
                    && message
                        .at("tool_calls")
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|call| {
                            call.at("id") == value.at("id") && call.at("extra_content").is_null()
                        })
            })
        };
        for (i, message) in body
            .at("messages")
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            if rules.known_blobs && known(message).is_some() {
                f.add(
                    "signature.missing",
                    format!("messages[{i}]"),
                    "Function call is missing a thought_signature in functionCall parts.",
                );
            }
        }
    }
}

fn modified(f: &mut Found, at: &str) {
    f.add(
        "thinking.modified",
        at,
        format!("{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response."),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(memory: &Memory, api: Api, body: &Value) -> Vec<&'static str> {
        memory
            .check(api, body, &Rules::default(), false)
            .iter()
            .map(|v| v.rule)
            .collect()
    }

    fn think(signature: &str) -> Value {
        json!({"type": "thinking", "thinking": "t", "signature": signature})
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "t", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]})
    }

    /// A session of two steps, and the memory after both.
    fn session() -> (Memory, Value) {
        let mut memory = Memory::default();
        let mut body =
            json!({"model": "m", "system": "s", "messages": [{"role": "user", "content": "q"}]});
        for (n, id) in ["a", "b"].into_iter().enumerate() {
            let given = vec![
                think(&format!("{id}1+/=")),
                think(&format!("{id}2+/=")),
                call(id),
            ];
            memory.learn(Api::Anthropic, n, &body, given.clone());
            let list = body["messages"].as_array_mut().unwrap();
            list.push(json!({"role": "assistant", "content": given}));
            list.push(result(id));
        }
        (memory, body)
    }

    #[test]
    fn thinking_comes_back_as_it_was() {
        let (memory, good) = session();
        assert!(rules_of(&memory, Api::Anthropic, &good).is_empty());
        // What does not count: cache_control, spelling of text, text at the end.
        let mut body = good.clone();
        body["system"] =
            json!([{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]);
        body["messages"][0]["content"] = json!([{"type": "text", "text": "q"}]);
        body["messages"]
            .as_array_mut()
            .unwrap()
            .push(json!({"role": "user", "content": "go on"}));
        assert!(rules_of(&memory, Api::Anthropic, &body).is_empty());
        // The oldest ones may go.
        let mut body = good.clone();
        body["messages"][1]["content"] = json!([think("a2+/="), call("a")]);
        assert!(rules_of(&memory, Api::Anthropic, &body).is_empty());
        body["messages"][1]["content"] = json!([call("a")]);
        assert!(rules_of(&memory, Api::Anthropic, &body).is_empty());
        // All may go.
        body["messages"][3]["content"] = json!([call("b")]);
        assert!(rules_of(&memory, Api::Anthropic, &body).is_empty());
    }

    #[test]
    fn altered_foreign_and_missing_thinking_is_refused() {
        let (memory, good) = session();
        let mut body = good.clone();
        body["messages"][1]["content"][0]["thinking"] = json!("other");
        assert!(rules_of(&memory, Api::Anthropic, &body).contains(&"thinking.signature"));
        let mut body = good.clone();
        body["messages"][3]["content"][0]["thinking"] = json!("other");
        assert!(rules_of(&memory, Api::Anthropic, &body).contains(&"thinking.modified"));
        let mut body = good.clone();
        body["messages"][3]["content"][0]["signature"] = json!("b1-_=");
        assert!(rules_of(&memory, Api::Anthropic, &body).contains(&"thinking.signature"));
        let mut body = good.clone();
        body["messages"][3]["content"]
            .as_array_mut()
            .unwrap()
            .remove(1);
        assert!(rules_of(&memory, Api::Anthropic, &body).contains(&"thinking.modified"));
        let mut body = good.clone();
        body["messages"][3]["content"]
            .as_array_mut()
            .unwrap()
            .swap(0, 1);
        assert!(rules_of(&memory, Api::Anthropic, &body).contains(&"thinking.modified"));
    }

    #[test]
    fn thinking_is_bound_to_its_prefix() {
        let (memory, good) = session();
        let changes: [fn(&mut Value); 5] = [
            |body| body["system"] = json!("other"),
            |body| body["tools"] = json!([{"name": "t"}]),
            |body| body["messages"][0]["content"] = json!("q!"),
            |body| body["messages"][2]["content"][0]["content"] = json!("another result"),
            // A block in the middle left out.
            |body| {
                drop(
                    body["messages"][1]["content"]
                        .as_array_mut()
                        .unwrap()
                        .remove(1),
                )
            },
        ];
        for change in changes {
            let mut body = good.clone();
            change(&mut body);
            let found = memory.check(Api::Anthropic, &body, &Rules::default(), false);
            assert!(
                found
                    .iter()
                    .any(|v| v.message.contains("bound to a different conversation")),
                "{body}"
            );
            let rules = Rules {
                anthropic_bound_thinking: false,
                ..Rules::default()
            };
            assert!(
                memory
                    .check(Api::Anthropic, &body, &rules, false)
                    .is_empty()
            );
            assert!(
                memory
                    .check(Api::Anthropic, &body, &Rules::default(), true)
                    .is_empty()
            );
            body["model"] = json!("another");
            assert!(rules_of(&memory, Api::Anthropic, &body).is_empty());
        }
    }

    #[test]
    fn responses_items_stay_together() {
        let mut memory = Memory::default();
        let rs =
            json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "g+/="});
        let fc = json!({"id": "fc_1", "type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"});
        let msg = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": []});
        memory.learn(
            Api::Responses,
            3,
            &json!({}),
            vec![rs.clone(), msg.clone(), fc.clone()],
        );
        let check = |input: Value| rules_of(&memory, Api::Responses, &json!({"input": input}));
        assert!(check(json!([rs, msg, fc])).is_empty());
        assert_eq!(
            check(json!([msg, fc])),
            ["reasoning.missing", "reasoning.missing"]
        );
        assert_eq!(check(json!([rs, fc])), ["reasoning.follower"]);
        let mut bare = fc.clone();
        bare.as_object_mut().unwrap().remove("id");
        assert!(check(json!([bare])).is_empty());
        let mut odd = rs.clone();
        odd["encrypted_content"] = json!("g-_=");
        assert_eq!(check(json!([odd, msg])), ["reasoning.encrypted"]);
        let mut odd = rs.clone();
        odd["summary"] = json!([{"type": "summary_text", "text": "x"}]);
        assert_eq!(check(json!([odd, msg])), ["reasoning.encrypted"]);
        let previous = |id: &str| {
            rules_of(
                &memory,
                Api::Responses,
                &json!({"previous_response_id": id}),
            )
        };
        assert!(previous("resp_0003").is_empty());
        assert_eq!(previous("resp_9"), ["previous_response"]);
    }

    #[test]
    fn gemini_and_chat_signatures_stay_where_they_were() {
        let mut memory = Memory::default();
        let part = json!({"functionCall": {"id": "a", "name": "t", "args": {"x": 1}}, "thoughtSignature": "AA+/"});
        memory.learn(Api::Gemini, 0, &json!({}), vec![part.clone()]);
        let check = |part: &Value| {
            rules_of(
                &memory,
                Api::Gemini,
                &json!({"contents": [{"role": "model", "parts": [part]}]}),
            )
        };
        assert!(check(&part).is_empty());
        let mut odd = part.clone();
        odd["thoughtSignature"] = json!("AA-_");
        assert_eq!(check(&odd), ["signature.unknown"]);
        let mut odd = part.clone();
        odd["functionCall"]["args"] = json!({"x": 2});
        assert_eq!(check(&odd), ["signature.unknown"]);
        let mut odd = part.clone();
        odd["thoughtSignature"] = json!("skip_thought_signature_validator");
        assert_eq!(check(&odd), ["signature.dummy"]);
        odd["functionCall"]["id"] = json!("other");
        assert!(check(&odd).is_empty());

        let detail =
            json!({"type": "reasoning.text", "text": "t", "signature": "E+/=", "index": 0});
        let extra = json!({"google": {"thought_signature": "C+/="}});
        memory.learn(
            Api::Chat,
            0,
            &json!({}),
            vec![detail.clone(), json!({"id": "a", "extra_content": extra})],
        );
        let check = |detail: &Value, extra: &Value| {
            rules_of(
                &memory,
                Api::Chat,
                &json!({"messages": [{"role": "assistant",
                "reasoning_details": [detail], "tool_calls": [{"id": "a", "extra_content": extra}]}]}),
            )
        };
        assert!(check(&detail, &extra).is_empty());
        assert_eq!(
            check(&detail, &json!({"google": {"thought_signature": "x"}})),
            ["signature.unknown"]
        );
        assert_eq!(check(&detail, &Value::Null), ["signature.missing"]);
        let mut odd = detail.clone();
        odd["text"] = json!("u");
        assert_eq!(check(&odd, &extra), ["reasoning.details"]);
    }
}
