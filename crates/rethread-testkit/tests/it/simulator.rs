//! The crash simulator finds nothing, and finds every kind of fault it is given.

use rethread_testkit::{Fault, Invariant, Simulator, simulate};

#[test]
fn nothing_is_lost_wherever_a_run_stops() {
    let report = simulate(0..5);
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
