//! The crash simulator: stops a session at every point where it can be stopped, drops everything but
//! what is stored, carries on, and checks what must hold whatever happened.
//!
//! A seed makes a script: what the model answers and how its calls fail, what the tools do, what a
//! person says, approves and answers, which limits there are. The script is played once undisturbed,
//! over the public interface, with a store, a model and tools that count the points they pass. Then
//! it is played again for every point, twice: once the process dies there, once something else goes
//! wrong (a cancellation, a dropped run, a failing store, a second writer). What follows is resumed,
//! with more interruptions at random, until nothing is left to do. Time does not pass, and one seed
//! is the same story on every machine.

mod check;
mod model;
mod oracle;
mod person;
mod process;
mod random;
mod script;
mod store;
mod tools;
mod world;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use process::{Played, play};
use random::Random;
use rethread_core::Message;
use script::Script;
use world::{Stop, Undisturbed, World};

/// What must hold whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Invariant {
    /// No request breaks the rules every provider shares: each call is answered once, directly
    /// after its response, and there is something to answer.
    RequestRules,
    /// A result that arrived is never lost, changed or given twice.
    ResultKept,
    /// No tool starts twice for a call unless it is declared repeatable, none before its record is
    /// durable, none without the leave it needs.
    StartsOnce,
    /// What was interrupted is never taken for completed, nor what was completed for interrupted.
    TrueEnd,
    /// The request after an interruption is, byte for byte, the one that would have been sent.
    SameRequest,
    /// Of two writers, the one that lost the session writes nothing.
    OneWriter,
    /// What the provider sent is stored and comes back byte for byte.
    Opaque,
    /// Resuming ends.
    Ends,
    /// The summary row says what the records say.
    Summary,
    /// Records can be read, and are written as they were read.
    Decodes,
    /// What was used of an allowance stays used, and no request exceeds it.
    Budget,
    /// A call that had an effect is never said not to have run, nor one that never started to have
    /// an unknown outcome.
    TrueState,
    /// Watchers are told of things that are durable.
    Events,
    /// A session is free when its run is over.
    Free,
    /// The same script does the same again.
    Deterministic,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A way to break what is simulated, to show that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Requests are sent without the results of tools.
    SkipsResults,
    /// The store acknowledges results and keeps something else.
    LosesResults,
    /// Every tool does its work twice.
    StartsTwice,
    /// The store acknowledges that calls start and keeps something else.
    LosesStarts,
    /// The store keeps interrupted responses as complete ones.
    CallsItDone,
    /// After a crash the person's words are sent otherwise.
    SaysItOtherwise,
    /// The store gives the session to whoever asks.
    GrantsEveryClaim,
    /// The store decodes records and encodes them again.
    EncodesAgain,
    /// No response is ever complete.
    NeverEnds,
    /// The summary row says completed.
    SaysCompleted,
    /// The store keeps a part of a record.
    TearsRows,
    /// The store forgets what was used.
    ForgetsTheBudget,
    /// Calls whose outcome is unknown are said not to have run.
    SaysItDidNotRun,
    /// The store keeps a lease that was given back.
    KeepsTheLease,
    /// The store acknowledges that a run ended and keeps something else, so that watchers are told
    /// of what is not stored.
    TellsTooEarly,
    /// The model passes a point that it did not pass when nothing was interrupted.
    ForgetsTheOrder,
}

/// Plays the script of one seed.
#[derive(Clone)]
pub struct Simulator {
    seed: u64,
    fault: Option<Fault>,
    judge: Option<Judge>,
}

/// Says what is wrong with a request.
type Judge = Arc<dyn Fn(&[Message]) -> Option<String> + Send + Sync>;

/// What was simulated and what was found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Scripts that were played.
    pub scripts: u64,
    /// How often a process died: at every point of every script, and again while it was resumed.
    pub crash_points: u64,
    /// How often something else went wrong: a cancellation, a dropped run, a failing store, a
    /// second writer.
    pub interruptions: u64,
    /// What did not hold.
    pub violations: Vec<Violation>,
}

/// Something that did not hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The seed of the script.
    pub seed: u64,
    /// The point at which it was first interrupted; 0 when it was not.
    pub point: u64,
    /// Whether it was interrupted by a crash, or by what else goes wrong at that point.
    pub crash: bool,
    /// What did not hold.
    pub invariant: Invariant,
    /// What happened instead.
    pub detail: String,
    simulator: Simulator,
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator")
            .field("seed", &self.seed)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.crash { "crash" } else { "other" };
        write!(
            f,
            "{} (--trace {}:{}:{how}): {}",
            self.invariant, self.seed, self.point, self.detail
        )
    }
}

impl Violation {
    /// All that happened, one line each: the script, every point passed, every record written.
    #[must_use]
    pub fn trace(&self) -> String {
        self.simulator.trace(self.point, self.crash)
    }
}

/// Plays the scripts of these seeds, interrupted at every point.
#[must_use]
pub fn simulate(seeds: Range<u64>) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        report.add(Simulator::new(seed).run());
    }
    report
}

impl Report {
    /// Adds what another one found.
    pub fn add(&mut self, other: Self) {
        self.scripts += other.scripts;
        self.crash_points += other.crash_points;
        self.interruptions += other.interruptions;
        self.violations.extend(other.violations);
    }
}

impl Simulator {
    /// The simulator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            fault: None,
            judge: None,
        }
    }

    /// Judges every request by more than the rules all providers share. The judge is given the
    /// messages of a request and says what is wrong with it.
    #[must_use]
    pub fn with_judge(
        self,
        judge: impl Fn(&[Message]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            judge: Some(Arc::new(judge)),
            ..self
        }
    }

    /// Breaks something.
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    /// Plays the script undisturbed, then interrupted at every point.
    #[must_use]
    pub fn run(&self) -> Report {
        let mut report = Report {
            scripts: 1,
            ..Report::default()
        };
        let script = Arc::new(Script::new(self.seed));
        let undisturbed = self.play(&script, VecDeque::new(), None, false);
        let points = undisturbed.points;
        let known = Arc::new(self.note(&mut report, undisturbed, 0, false));
        for point in 1..=points {
            for crash in [true, false] {
                if !report.violations.is_empty() {
                    return report; // one story is enough of a script that fails
                }
                let plan = self.plan(point, crash);
                let played = self.play(&script, plan, Some(Arc::clone(&known)), false);
                self.note(&mut report, played, point, crash);
            }
        }
        report
    }

    /// Plays the script interrupted at one point, 0 for nowhere, by a crash or by what else goes
    /// wrong there, and tells all that happened.
    #[must_use]
    pub fn trace(&self, point: u64, crash: bool) -> String {
        let script = Arc::new(Script::new(self.seed));
        let mut played = self.play(&script, VecDeque::new(), None, point == 0);
        if point > 0 {
            let known = Arc::new(std::mem::take(&mut played.undisturbed));
            let plan = self.plan(point, crash);
            played = self.play(&script, plan, Some(known), true);
        }
        format!("{script:#?}\n{}\n", played.trace.join("\n"))
    }

    fn play(
        &self,
        script: &Arc<Script>,
        plan: VecDeque<(u64, Stop)>,
        known: Option<Arc<Undisturbed>>,
        traced: bool,
    ) -> Played {
        let world = World::new(Arc::clone(script), plan, known, traced);
        {
            let mut state = world.lock();
            state.fault = self.fault;
            state.judge.clone_from(&self.judge);
        }
        play(&world)
    }

    fn note(&self, report: &mut Report, played: Played, point: u64, crash: bool) -> Undisturbed {
        report.crash_points += played.crashes;
        report.interruptions += played.interruptions;
        report
            .violations
            .extend(
                played
                    .found
                    .into_iter()
                    .map(|(_, invariant, detail)| Violation {
                        seed: self.seed,
                        point,
                        crash,
                        invariant,
                        detail,
                        simulator: self.clone(),
                    }),
            );
        played.undisturbed
    }

    /// What goes wrong: first at this point, then at random ones after it.
    fn plan(&self, point: u64, crash: bool) -> VecDeque<(u64, Stop)> {
        let mut random = Random::of(&[self.seed, point, u64::from(crash)]);
        let first = if crash {
            Stop::Crash
        } else {
            other(&mut random)
        };
        let mut plan = VecDeque::from([(point, first)]);
        let mut at = point;
        while plan.len() < 8 && random.percent(60) {
            at += random.between(1, 40);
            let stop = if random.percent(60) {
                Stop::Crash
            } else {
                other(&mut random)
            };
            plan.push_back((at, stop));
        }
        plan
    }
}

fn other(random: &mut Random) -> Stop {
    let how = random.below(7);
    random.pick(
        Stop::Cancel,
        &[Stop::Drop, Stop::StoreError, Stop::Rival(how)],
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rethread_core::{Assistant, Budget, Json, ToolCall};

    use super::script::{Reply, Turn, mark};
    use super::*;

    fn reply(calls: &[&str]) -> Reply {
        let mut response = Assistant::new("so");
        response.tool_calls = calls
            .iter()
            .map(|name| ToolCall::new(*name, *name, Json::empty_object()))
            .collect();
        Reply {
            deltas: Vec::new(),
            delay: Duration::ZERO,
            response,
            failures: Vec::new(),
        }
    }

    #[test]
    fn an_undisturbed_turn_of_two_tools_costs_five_commits() {
        for calls in [["read", "fetch"], ["write", "once"], ["read", "write"]] {
            let script = Script {
                seed: 0,
                limits: Budget {
                    steps: 9,
                    pauses: 0,
                    tokens: u64::MAX,
                },
                retries: 0,
                import: Vec::new(),
                turns: vec![Turn::Say(vec![Message::user(mark(0))])],
                replies: vec![reply(&calls), reply(&[])],
                streams: false,
            };
            let simulator = Simulator::new(0);
            let played = simulator.play(&Arc::new(script), VecDeque::new(), None, true);
            assert_eq!(played.found, []);
            let commits = played
                .trace
                .iter()
                .filter(|line| line.contains("after an append"));
            assert_eq!(commits.count(), 5, "{calls:?}\n{}", played.trace.join("\n"));
        }
    }

    #[test]
    fn the_request_after_a_crash_is_compared_with_the_one_that_would_have_been_sent() {
        let (mut points, mut compared) = (0, 0);
        for seed in 0..3 {
            let (simulator, script) = (Simulator::new(seed), Arc::new(Script::new(seed)));
            let known = simulator.play(&script, VecDeque::new(), None, false);
            let (last, known) = (known.points, Arc::new(known.undisturbed));
            for point in 1..=last {
                let plan = VecDeque::from([(point, Stop::Crash)]);
                let played = simulator.play(&script, plan, Some(Arc::clone(&known)), true);
                assert_eq!(played.found, []);
                let is = |line: &String| line.contains("it is compared with");
                compared += u64::from(played.trace.iter().any(is));
            }
            points += last;
        }
        assert!(compared > points / 10, "{compared} of {points}");
    }

    #[test]
    fn a_seed_tells_the_same_story_every_time() {
        let story = |seed| {
            let script = Arc::new(Script::new(seed));
            let played = Simulator::new(seed).play(&script, VecDeque::new(), None, false);
            (played.points, played.undisturbed.labels)
        };
        for seed in 0..20 {
            assert_eq!(story(seed), story(seed));
        }
    }
}
