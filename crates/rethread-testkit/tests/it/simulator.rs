//! The crash simulator finds nothing, and finds every kind of fault it is given.

use rethread_core::{Message, Origin, PromptOptions};
use rethread_testkit::{Fault, Invariant, Report, Simulator, simulate};
use rethread_testserver::{Rules, check_anthropic, check_chat, check_gemini, check_responses};
use rethread_wire::{Api, Encoder, Target};

#[test]
fn nothing_is_lost_wherever_a_run_stops() {
    let report = simulate(0..4);
    let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(report.crash_points > 1_000, "{report:?}");
    assert!(report.interruptions > 1_000, "{report:?}");
}

#[test]
fn every_fault_is_noticed_for_what_it_is() {
    for (fault, invariant) in [
        (Fault::SkipsResults, Invariant::RequestRules),
        (Fault::LosesResults, Invariant::ResultKept),
        (Fault::StartsTwice, Invariant::StartsOnce),
        (Fault::LosesStarts, Invariant::StartsOnce),
        (Fault::CallsItDone, Invariant::TrueEnd),
        (Fault::SaysItOtherwise, Invariant::SameRequest),
        (Fault::GrantsEveryClaim, Invariant::OneWriter),
        (Fault::EncodesAgain, Invariant::Opaque),
        (Fault::NeverEnds, Invariant::Ends),
        (Fault::SaysCompleted, Invariant::Summary),
        (Fault::TearsRows, Invariant::Decodes),
        (Fault::ForgetsTheBudget, Invariant::Budget),
        (Fault::SaysItDidNotRun, Invariant::TrueState),
        (Fault::KeepsTheLease, Invariant::Free),
        (Fault::TellsTooEarly, Invariant::Events),
        (Fault::ForgetsTheOrder, Invariant::Deterministic),
    ] {
        let found = (0..60).find_map(|seed| {
            let report = Simulator::new(seed).with_fault(fault).run();
            report
                .violations
                .into_iter()
                .find(|violation| violation.invariant == invariant)
        });
        let found = found.unwrap_or_else(|| panic!("{fault:?} was not noticed as {invariant:?}"));
        let trace = found.trace();
        assert!(
            trace.contains(&format!("VIOLATION of {invariant}")),
            "{found} does not happen again:\n{trace}"
        );
    }
}

/// What a service refuses of a request, encoded for it.
fn refused(api: Api, messages: &[Message]) -> Option<String> {
    // The rules for Gemini are those of its third generation.
    let origin = Origin::new(api.as_str(), "provider", "gemini-3-pro");
    let target = Target::new(api, "https://example.com", "gemini-3-pro");
    let options = PromptOptions::new(Some("be brief".into()), std::iter::empty().collect());
    let mut encoder = Encoder::new(api, origin, &options, target);
    for message in messages {
        encoder.push(message);
    }
    let body = encoder.body().to_vec();
    let value = match serde_json::from_slice(&body) {
        Ok(value) => value,
        Err(error) => return Some(format!("the request is no JSON: {error}")),
    };
    let rules = Rules::default();
    let found = match api {
        Api::AnthropicMessages => check_anthropic(&value, &rules),
        Api::OpenAiChat => check_chat(&value, &rules),
        Api::OpenAiResponses => check_responses(&value, &rules),
        _ => check_gemini(&value, &rules),
    };
    let first = found.first()?;
    Some(format!("{first:?} in {}", String::from_utf8_lossy(&body)))
}

#[test]
fn no_request_after_an_interruption_breaks_the_rules_of_a_provider() {
    let mut report = Report::default();
    for seed in 100..103 {
        let judge = |messages: &[Message]| {
            [
                Api::AnthropicMessages,
                Api::OpenAiChat,
                Api::OpenAiResponses,
                Api::GeminiContents,
            ]
            .into_iter()
            .find_map(|api| refused(api, messages))
        };
        report.add(Simulator::new(seed).with_judge(judge).run());
    }
    let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
