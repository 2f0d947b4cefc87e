//! Scripts: what the model says, what the tools do, and what a person wants, made from a seed.

use std::time::Duration;

use rethread_core::{
    Assistant, Budget, Content, Json, Message, ModelErrorKind, ModelEvent, Origin, Repeat, Stop,
    StopReason, ToolCall, ToolResult, Usage, Wait,
};

use super::random::Random;

/// A whole story, played with the same words whatever interrupts it.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) limits: Budget,
    pub(super) retries: u32,
    /// What the session is made from; nothing for a session of its own.
    pub(super) import: Vec<Message>,
    pub(super) turns: Vec<Turn>,
    pub(super) replies: Vec<Reply>,
    /// Whether the events of runs are taken one by one, or runs just awaited.
    pub(super) streams: bool,
}

/// What a person wants, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    /// Says something and lets the agent work.
    Say(Vec<Message>),
    /// Appends a message without a run.
    Append(Box<Message>),
    /// Forks the session after so many thousandths of its records.
    Fork(u64),
}

/// One response of the model, and what goes wrong before it comes.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) deltas: Vec<ModelEvent>,
    /// Between two deltas.
    pub(super) delay: Duration,
    pub(super) response: Assistant,
    pub(super) failures: Vec<Broken>,
}

/// How a model call fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Broken {
    /// Before the first output.
    Refused(ModelErrorKind, Option<Duration>),
    /// The stream ends, or breaks with an error, after so many deltas.
    Cut {
        after: usize,
        error: Option<ModelErrorKind>,
    },
}

/// What a tool of the simulator does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) parallel: bool,
    pub(super) repeat: Repeat,
    /// Whether a person is asked before it starts.
    pub(super) asks: bool,
    pub(super) delay: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) ends: Ends,
}

/// How a tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Result,
    Error,
    Panic,
    Deferred(Wait),
}

const fn kind(name: &'static str, parallel: bool, delay: u64, ends: Ends) -> Kind {
    Kind {
        name,
        parallel,
        repeat: Repeat::Never,
        asks: false,
        delay: Duration::from_millis(delay),
        timeout: None,
        ends,
    }
}

/// The tools there are.
pub(super) const KINDS: [Kind; 15] = [
    kind("read", true, 0, Ends::Result),
    kind("fetch", true, 30, Ends::Result),
    kind("write", false, 5, Ends::Result),
    kind("refuse", true, 10, Ends::Error),
    kind("break", false, 0, Ends::Panic),
    kind("delegate", true, 0, Ends::Deferred(Wait::External)),
    kind("question", false, 0, Ends::Deferred(Wait::Question)),
    kind("inside", true, 0, Ends::Deferred(Wait::Approval)),
    Kind {
        asks: true,
        ..kind("guarded", true, 0, Ends::Result)
    },
    Kind {
        asks: true,
        ..kind("guarded_alone", false, 5, Ends::Result)
    },
    Kind {
        repeat: Repeat::IfNotStarted,
        ..kind("once", false, 5, Ends::Result)
    },
    Kind {
        repeat: Repeat::Always,
        ..kind("again", true, 5, Ends::Result)
    },
    Kind {
        repeat: Repeat::Always,
        asks: true,
        ..kind("again_guarded", false, 0, Ends::Result)
    },
    Kind {
        timeout: Some(Duration::from_millis(20)),
        ..kind("late", true, 50, Ends::Result)
    },
    kind("stubborn", true, 400, Ends::Result),
];

/// What the tool says for these arguments.
pub(super) fn said(name: &str, arguments: &Json) -> String {
    format!("{name} ran with {}", arguments.get())
}

/// The origin of the simulated model.
pub(super) fn origin() -> Origin {
    Origin::new("simulated", "simulator", "simulated-1")
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::of(&[seed]);
        let random = &mut random;
        let limits = Budget {
            steps: if random.percent(60) {
                100
            } else {
                random.between(1, 4) as u32
            },
            pauses: random.below(3) as u32,
            tokens: if random.percent(80) {
                u64::MAX
            } else {
                random.between(20, 150)
            },
        };
        let import = if random.percent(20) {
            history(random)
        } else {
            Vec::new()
        };
        let turns = (0..random.between(1, 3))
            .map(|index| turn(random, index))
            .collect();
        let replies = (0..random.between(1, 5))
            .map(|index| reply(random, index))
            .collect();
        Self {
            seed,
            limits,
            retries: random.below(3) as u32,
            import,
            turns,
            replies,
            streams: random.percent(50),
        }
    }

    /// The tools that are asked for.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        let older = self.import.iter().filter_map(Message::as_assistant);
        let responses = self.replies.iter().map(|reply| &reply.response);
        let calls: Vec<&str> = older
            .chain(responses)
            .flat_map(|response| &response.tool_calls)
            .map(|call| call.name.as_str())
            .collect();
        KINDS.iter().filter(move |kind| calls.contains(&kind.name))
    }

    /// The reply to a session that holds so many responses already.
    pub(super) fn reply(&self, index: usize) -> Reply {
        self.replies.get(index).cloned().unwrap_or_else(|| {
            let text = format!("done {index}");
            let mut response = Assistant::new(text.as_str());
            response.origin = Some(origin());
            Reply {
                deltas: vec![ModelEvent::Text(text)],
                delay: Duration::ZERO,
                response,
                failures: Vec::new(),
            }
        })
    }
}

/// How a turn's own message begins, by which it is found again.
pub(super) fn mark(turn: usize) -> String {
    format!("turn {turn}:")
}

fn turn(random: &mut Random, index: u64) -> Turn {
    let mark = mark(index as usize);
    match random.below(100) {
        0..70 => {
            let mut messages = Vec::new();
            if random.percent(10) {
                messages.push(Message::system("a note"));
            }
            if random.percent(10) {
                let mut hidden = Message::user("not for the model");
                hidden.in_context = false;
                messages.push(hidden);
            }
            messages.push(Message::user(format!(
                "{mark} go on, \u{1f600} \u{0} \"quoted\""
            )));
            Turn::Say(messages)
        }
        70..85 => {
            let text = format!("{mark} in between");
            Turn::Append(Box::new(match random.below(4) {
                0 => Message::user(text),
                1 => Message::agent(text),
                2 => {
                    let mut message = Message::user(text);
                    message.in_context = false;
                    message
                }
                _ => Message::summary(text),
            }))
        }
        _ => Turn::Fork(random.below(1001)),
    }
}

fn reply(random: &mut Random, index: u64) -> Reply {
    let calls: Vec<ToolCall> = if random.percent(60) {
        let few = random.between(1, 4);
        (0..few).map(|place| call(random, index, place)).collect()
    } else {
        Vec::new()
    };
    let stop = stop(random, !calls.is_empty());
    let text = match random.below(4) {
        0 => String::new(),
        1 => format!("reply {index}"),
        2 => format!("reply {index} with \u{1f600} and \u{0}"),
        _ => format!("reply {index} {}", "long ".repeat(20)),
    };
    let mut deltas: Vec<ModelEvent> = Vec::new();
    if random.percent(15) {
        let handle = format!(r#"{{"response":"r{index}"}}"#);
        deltas.extend(Json::parse(&handle).ok().map(ModelEvent::Handle));
    }
    let mut response = Assistant::new(text.as_str());
    if random.percent(25) {
        response.reasoning = Some("because \u{7}".into());
        deltas.push(ModelEvent::Reasoning("because \u{7}".to_owned()));
    }
    let half = text.len() / 2;
    if text.is_char_boundary(half) && half > 0 {
        let (first, second) = text.split_at(half);
        deltas.push(ModelEvent::Text(first.to_owned()));
        deltas.push(ModelEvent::Text(second.to_owned()));
    } else if !text.is_empty() {
        deltas.push(ModelEvent::Text(text.clone()));
    }
    for (place, call) in calls.iter().enumerate() {
        deltas.push(ModelEvent::ToolCall {
            index: place,
            id: call.id.clone(),
            name: call.name.clone(),
        });
        if random.percent(30) {
            deltas.push(ModelEvent::ToolCallDelta {
                index: place,
                text: call.arguments.get().to_owned(),
            });
        }
    }
    response.tool_calls = calls;
    response.stop = stop;
    response.origin = Some(origin());
    if random.percent(80) {
        let mut usage = Usage::default();
        usage.input = Some(random.between(1, 40));
        usage.output = random.percent(80).then(|| random.between(1, 40));
        response.usage = Some(usage);
    }
    if random.percent(40) {
        response.native = [
            r#"{"type":"thinking","n":1e2,"signature":"a+/=","text":"\ud83d \u0000"}"#,
            r#"{ "z" : 1.0, "a":[1 , 2],"big":123456789012345678901234567890 }"#,
        ]
        .iter()
        .filter_map(|json| Json::parse(json).ok())
        .collect();
        response.digest = Some(response.view_digest());
    }
    let failures = if random.percent(30) {
        (0..random.between(1, 2)).map(|_| broken(random)).collect()
    } else {
        Vec::new()
    };
    Reply {
        deltas,
        delay: Duration::from_millis(random.pick(0, &[0, 0, 100, 300, 25_000])),
        response,
        failures,
    }
}

fn broken(random: &mut Random) -> Broken {
    match random.below(6) {
        0 => Broken::Refused(ModelErrorKind::Overloaded, None),
        1 => Broken::Refused(ModelErrorKind::RateLimited, Some(Duration::from_secs(7))),
        2 => Broken::Refused(ModelErrorKind::RateLimited, Some(Duration::from_secs(700))),
        3 => Broken::Refused(ModelErrorKind::InvalidRequest, None),
        _ => Broken::Cut {
            after: random.below(4) as usize,
            error: random.pick(
                None,
                &[
                    None,
                    None,
                    Some(ModelErrorKind::Interrupted),
                    Some(ModelErrorKind::Interrupted),
                    Some(ModelErrorKind::ContextFull),
                    Some(ModelErrorKind::Refusal),
                ],
            ),
        },
    }
}

fn stop(random: &mut Random, calls: bool) -> Option<Stop> {
    use StopReason::{
        ContextFull, EndTurn, Interrupted, MaxOutput, Other, Paused, Refusal, ToolUse,
    };
    let usual = if calls { ToolUse } else { EndTurn };
    if random.percent(20) {
        return None;
    }
    let reason = if random.percent(60) {
        usual
    } else {
        random.pick(
            EndTurn,
            &[
                ToolUse,
                MaxOutput,
                Paused,
                Paused,
                Refusal,
                Interrupted,
                ContextFull,
                Other,
            ],
        )
    };
    let mut stop = Stop::new(reason);
    if random.percent(30) {
        stop.raw = Some("as it came".to_owned());
    }
    Some(stop)
}

fn call(random: &mut Random, reply: u64, place: u64) -> ToolCall {
    let id = match random.below(100) {
        0..80 => format!("call_{reply}_{place}"),
        80..95 => "same".to_owned(),
        _ => String::new(),
    };
    let name = if random.percent(5) {
        "ghost"
    } else {
        let index = random.below(KINDS.len() as u64) as usize;
        KINDS.get(index).map_or("ghost", |kind| kind.name)
    };
    if random.percent(7) {
        return ToolCall::from_text(id, name, "{\"cut\":");
    }
    let arguments = match random.below(4) {
        0 => "{}".to_owned(),
        1 => format!(r#"{{"n":{place}}}"#),
        2 => r#"{"n": 1e2, "s":"\ud83d"}"#.to_owned(),
        _ => format!(r#"{{ "path" : "file {reply}" }}"#),
    };
    ToolCall::new(
        id,
        name,
        Json::parse(&arguments).unwrap_or_else(|_| Json::empty_object()),
    )
}

/// A history from elsewhere, with what goes wrong in those.
fn history(random: &mut Random) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut open: Vec<ToolCall> = Vec::new();
    for place in 0..random.between(1, 7) {
        match random.below(10) {
            0 => messages.push(Message::system("an older note")),
            1 | 2 => messages.push(Message::user(format!("before {place}"))),
            3 => messages.push(Message::summary(format!("what was before {place}"))),
            4 | 5 => {
                let calls = random.below(4);
                open = (0..calls).map(|at| call(random, 90 + place, at)).collect();
                let mut response = Assistant::new(format!("older {place}"));
                response.stop = stop(random, !open.is_empty());
                response.tool_calls.clone_from(&open);
                messages.push(response.into());
            }
            6 => {
                let stranger = ToolCall::new("stranger", "read", Json::empty_object());
                messages.push(ToolResult::for_call(&stranger, "from nowhere").into());
            }
            _ => {
                let index = random.below(open.len() as u64) as usize;
                if let Some(call) = open.get(index) {
                    let content = Content::from(format!("older result {place}"));
                    let mut message: Message = ToolResult::for_call(call, content).into();
                    message.in_context = !random.percent(10);
                    messages.push(message);
                }
            }
        }
    }
    messages
}
