//! Which rule a server says a history breaks.

/// Parts of what servers say, without quotes and in lower case, and the rule each stands for. The
/// first that fits counts, so a part that is inside another comes after it.
const SAID: &[(&str, &str)] = &[
    // Anthropic Messages
    (
        "tool_use ids were found without tool_result blocks immediately after",
        "unanswered_tool_call",
    ),
    (
        "unexpected tool_use_id found in tool_result blocks",
        "orphan_tool_result",
    ),
    (
        "each tool_use must have a single result",
        "duplicate_tool_result",
    ),
    ("tool_use ids must be unique", "duplicate_id"),
    ("id: string should match pattern", "id_format"),
    (
        "tool_result blocks can only be in user messages",
        "wrong_role",
    ),
    ("text content blocks must be non-empty", "empty_content"),
    (
        "text content blocks must contain non-whitespace text",
        "empty_content",
    ),
    ("must have non-empty content except for", "empty_content"),
    ("does not support assistant message prefill", "prefill"),
    ("cannot end with trailing whitespace", "prefill"),
    (
        "expected thinking or redacted_thinking, but found",
        "thinking_missing",
    ),
    (
        "in the latest assistant message cannot be modified",
        "thinking_modified",
    ),
    (
        "bound to a different conversation",
        "thinking_bound_elsewhere",
    ),
    ("invalid signature in thinking block", "signature_invalid"),
    (
        "was found without a corresponding",
        "server_tool_unanswered",
    ),
    (
        "not permitted within assistant turns",
        "block_not_replayable",
    ),
    // Chat Completions and the servers that copy it
    ("must be followed by tool messages", "unanswered_tool_call"),
    ("insufficient tool messages", "unanswered_tool_call"),
    (
        "not the same number of function calls and responses",
        "unanswered_tool_call",
    ),
    (
        "must be a response to a preceeding message",
        "orphan_tool_result",
    ),
    (
        "must be a response to a preceding message",
        "orphan_tool_result",
    ),
    ("id: string too long", "id_format"),
    ("must be a-z, a-z, 0-9, with a length of 9", "id_format"),
    ("[] is too short", "empty_content"),
    ("expected a string, got null", "empty_content"),
    ("must have either content or tool_calls", "empty_content"),
    (
        "in the thinking mode must be passed back",
        "reasoning_missing",
    ),
    ("reasoning_content is missing", "reasoning_missing"),
    ("roles must alternate", "turn_order"),
    ("unexpected role", "turn_order"),
    ("2 or more assistant messages at the end", "turn_order"),
    ("expected last role user or tool", "prefill"),
    // Responses
    ("no tool output found for", "unanswered_tool_call"),
    ("no tool call found for", "orphan_tool_result"),
    (
        "was provided without its required following item",
        "reasoning_without_follower",
    ),
    (
        "was provided without its required reasoning item",
        "follower_without_reasoning",
    ),
    ("missing required parameter: input[", "missing_field"),
    ("cannot determine type of item", "missing_field"),
    ("invalid_encrypted_content", "encrypted_content"),
    ("items are not persisted when", "item_not_found"),
    ("previous_response_not_found", "item_not_found"),
    ("duplicate item found with id", "duplicate_id"),
    ("expected an id that begins with", "id_format"),
    ("unknown parameter: input[", "output_only_field"),
    // Gemini
    (
        "function call turn comes immediately after a user turn",
        "turn_order",
    ),
    (
        "function response turn comes immediately after a function call turn",
        "orphan_tool_result",
    ),
    (
        "number of function response parts is equal to the number of function call parts",
        "unanswered_tool_call",
    ),
    ("please use a valid role", "wrong_role"),
    ("parts must not be empty", "empty_content"),
    ("contents are required", "empty_content"),
    ("missing a thought_signature", "missing_signature"),
    ("missing_thought_signature", "missing_signature"),
    ("signature is not valid", "signature_invalid"),
    ("corrupted thought signature", "signature_invalid"),
    ("base64 decoding failed", "signature_invalid"),
    // Last, since others say it of other things.
    ("could not be verified", "encrypted_content"),
];

/// The rule that an error's words, in lower case and without quotes, stand for.
pub(super) fn rule(text: &str) -> Option<&'static str> {
    // A text that is too long is another matter than an id that is.
    if text.contains("string_above_max_length") && text.contains("tool_call") {
        return Some("id_format");
    }
    SAID.iter()
        .find(|(part, _)| text.contains(part))
        .map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_written_as_it_is_compared() {
        for (part, expected) in SAID {
            assert_eq!(*part, super::super::plain(part));
            assert_eq!(
                rule(part),
                Some(*expected),
                "{part} is hidden by one before it"
            );
        }
    }
}
