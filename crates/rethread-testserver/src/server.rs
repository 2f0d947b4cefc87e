//! The server: sockets, threads, and the order in which a request is judged.

use crate::api::{Api, gemini_model};
use crate::http::{self, Request};
use crate::memory::Memory;
use crate::rules::{self, Found, Rules, Violation};
use crate::script::{AfterEnd, Fault, Pick, Reply, Script};
use crate::stream::{self, Context, Frame};
use crate::value::At;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A running mock server; it stops when dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The path with its query.
    pub path: String,
    /// The headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The exact bytes of the body (chunks joined).
    pub body: Vec<u8>,
    /// What was decided.
    pub verdict: Verdict,
}

impl Recorded {
    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What was decided about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The reply of that number was served whole.
    Served(usize),
    /// The reply of that number was due, with this fault.
    Failed(usize, Fault),
    /// The request broke rules; the first one was answered.
    Refused(Vec<Violation>),
    /// The script had no reply left.
    NoReply,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    script: Script,
    /// The next reply of [`Pick::Counter`].
    next: usize,
    /// How many faults of each reply were played.
    played: HashMap<usize, usize>,
    responses: usize,
    memory: Memory,
    requests: Vec<Recorded>,
    problems: Vec<String>,
    connections: HashMap<u64, TcpStream>,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("requests", &self.requests.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait for the end of the server, at most `limit`; true when it ends.
    fn wait(&self, limit: Option<Duration>) -> bool {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        while !state.stopping {
            state = match end {
                None => self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.wake
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        true
    }
}

impl Server {
    /// Start a server for a script on a free port of the loopback interface.
    ///
    /// # Errors
    /// When the port cannot be bound or the thread not started.
    pub fn start(script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = State {
            script,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        let inside = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("testserver".into())
            .spawn(move || accept(&inside, &listener))?;
        Ok(Self {
            shared,
            address,
            acceptor: Some(acceptor),
        })
    }

    /// The base URL, without a slash at the end and without `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, in the order they were judged.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().requests.clone()
    }

    /// Every rule violated so far, and every request the script had no answer for.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.shared.lock().problems.clone()
    }

    /// Add a reply to the end of the script.
    pub fn push(&self, reply: Reply) {
        self.shared.lock().script.replies.push(reply);
    }

    /// Change the rules from now on.
    pub fn set_rules(&self, rules: Rules) {
        self.shared.lock().script.rules = rules;
    }

    /// Close every open connection now (the server goes on).
    pub fn disconnect(&self) {
        for connection in self.shared.lock().connections.values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.stopping = true;
            for connection in state.connections.values() {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        self.shared.wake.notify_all();
        // Wake the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let threads = std::mem::take(&mut self.shared.lock().threads);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for (id, connection) in (0_u64..).zip(listener.incoming()) {
        let mut state = shared.lock();
        if state.stopping {
            return;
        }
        let Ok(connection) = connection else { continue };
        let Ok(copy) = connection.try_clone() else {
            continue;
        };
        state.connections.insert(id, copy);
        let inside = Arc::clone(shared);
        let thread = thread::Builder::new()
            .name("testserver-connection".into())
            .spawn(move || {
                // A peer that goes away is its own affair.
                let _ = serve(&inside, &connection);
                let _ = connection.shutdown(Shutdown::Both);
                inside.lock().connections.remove(&id);
            });
        match thread {
            Ok(thread) => {
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
            }
            Err(_) => drop(state.connections.remove(&id)),
        }
    }
}

/// All requests of one connection.
fn serve(shared: &Shared, connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut input = BufReader::new(connection);
    let mut output = connection;
    while let Some(request) = http::read_request(&mut input, &mut output)? {
        let keep = request.keep_alive;
        let plan = judge(shared, &request);
        if !play(shared, &mut output, plan, keep)? || !keep {
            break;
        }
    }
    Ok(())
}

/// What is going to be written.
enum Plan {
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    Stream {
        frames: Vec<String>,
        delay: Duration,
        write_size: usize,
        end: End,
    },
    Drop,
    Hang,
}

enum End {
    Clean,
    /// Close after so many bytes of body.
    Bytes(usize),
    Close,
    Stall,
}

/// Judge a request, note it, and plan the answer.
fn judge(shared: &Shared, request: &Request) -> Plan {
    let mut state = shared.lock();
    let api = Api::of_path(request.path()).filter(|_| request.method == "POST");
    let (verdict, plan) = match api {
        None => {
            let mut found = Found::default();
            let message = format!("no such route: {} {}", request.method, request.target);
            found.add_as("route", "", message, 404, None);
            refuse(Api::Chat, found.0)
        }
        Some(api) => state.decide(api, request),
    };
    let number = state.requests.len();
    let line = format!("request {number}: {} {}", request.method, request.target);
    match &verdict {
        Verdict::Refused(found) => {
            let new: Vec<String> = found.iter().map(|v| format!("{line}: {v}")).collect();
            state.problems.extend(new);
        }
        Verdict::NoReply => state
            .problems
            .push(format!("{line}: the script has no reply left")),
        Verdict::Served(_) | Verdict::Failed(..) => {}
    }
    state.requests.push(Recorded {
        path: request.target.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        verdict,
    });
    plan
}

fn json_answer(status: u16, body: String) -> Plan {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Plan::Answer {
        status,
        headers,
        body,
    }
}

fn refuse(api: Api, found: Vec<Violation>) -> (Verdict, Plan) {
    let plan = match found.first() {
        Some(first) => json_answer(first.status, api.refusal(first)),
        None => Plan::Drop,
    };
    (Verdict::Refused(found), plan)
}

impl State {
    fn decide(&mut self, api: Api, request: &Request) -> (Verdict, Plan) {
        let mut rules = self.script.rules.clone();
        let model = gemini_model(request.path()).unwrap_or_default();
        if ["gemini-1", "gemini-2"]
            .iter()
            .any(|old| model.starts_with(old))
        {
            rules.gemini_signatures = false;
        }
        let mut found = Found::default();
        envelope(&mut found, api, request, &rules);
        let Some(body) = parse(&mut found, api, &request.body) else {
            return refuse(api, found.0);
        };
        streaming(&mut found, api, request, &body);
        found.0.extend(rules::check(api, &body, &rules));
        let may_drop = may_drop(&mut found, api, request, &body);
        found
            .0
            .extend(self.memory.check(api, &body, &rules, may_drop));
        if !found.0.is_empty() {
            return refuse(api, found.0);
        }
        let Some((index, fault)) = self.pick(api, &body) else {
            let message = "The test script has no reply left for this request";
            return (
                Verdict::NoReply,
                json_answer(400, api.error_body(400, None, message, None)),
            );
        };
        let Some(reply) = self.script.replies.get(index).cloned() else {
            return (Verdict::NoReply, Plan::Drop);
        };
        let model = if api == Api::Gemini {
            model
        } else {
            body.at("model").as_str().unwrap_or_default()
        };
        let plan = self.plan(api, &body, model, &reply, fault.as_ref(), rules.chat);
        let verdict = match fault {
            None => Verdict::Served(index),
            Some(fault) => Verdict::Failed(index, fault),
        };
        (verdict, plan)
    }

    /// The reply that is due and the fault it comes with.
    fn pick(&mut self, api: Api, body: &Value) -> Option<(usize, Option<Fault>)> {
        let by_turns = self.script.pick == Pick::AssistantTurns;
        let wanted = if by_turns {
            rules::turns(api, body)
        } else {
            self.next
        };
        let last = self.script.replies.len().checked_sub(1)?;
        let index = match self.script.after_end {
            AfterEnd::RepeatLast => wanted.min(last),
            AfterEnd::Refuse if wanted > last => return None,
            AfterEnd::Refuse => wanted,
        };
        let reply = self.script.replies.get(index)?;
        let played = self.played.entry(index).or_default();
        let mut fault = reply.faults.get(*played).cloned();
        if fault.is_some() {
            *played += 1;
        } else if reply.only_faults {
            // Asked for again: the last fault stays.
            fault = reply.faults.last().cloned();
        }
        let used_up = fault.is_none() || (reply.only_faults && *played >= reply.faults.len());
        if used_up {
            self.next = index + 1;
        }
        Some((index, fault))
    }

    fn plan(
        &mut self,
        api: Api,
        body: &Value,
        model: &str,
        reply: &Reply,
        fault: Option<&Fault>,
        chat: rules::ChatServer,
    ) -> Plan {
        if let Some((status, headers, body)) = fault.and_then(|fault| fault.answer(api)) {
            return Plan::Answer {
                status,
                headers,
                body,
            };
        }
        let number = self.responses;
        let context = Context {
            reply,
            number,
            model,
            chat,
            body,
        };
        let mut frames = match fault {
            Some(Fault::Drop) => return Plan::Drop,
            Some(Fault::Hang) => return Plan::Hang,
            Some(Fault::Empty200) => Vec::new(),
            _ => stream::frames(api, &context),
        };
        self.responses += 1;
        let mut end = End::Clean;
        // How many whole frames arrive.
        let mut whole = frames.len();
        match fault {
            Some(Fault::CutAfterBytes(bytes)) => {
                end = End::Bytes(*bytes);
                let mut left = *bytes;
                whole = frames
                    .iter()
                    .take_while(|frame| {
                        let fits = frame.text.len() <= left;
                        left = left.saturating_sub(frame.text.len());
                        fits
                    })
                    .count();
            }
            Some(Fault::CutAfterEvents(n)) => {
                end = End::Close;
                whole = *n;
                frames.truncate(*n);
            }
            Some(Fault::EndAfterEvents(n)) => {
                whole = *n;
                frames.truncate(*n);
            }
            Some(Fault::StallAfterEvents(n)) => {
                end = End::Stall;
                whole = *n;
                frames.truncate(*n);
            }
            Some(Fault::TruncatedJsonAfterEvents(n)) => {
                whole = *n;
                if let Some(frame) = frames.get_mut(*n) {
                    frame.text = stream::cut(&frame.text);
                }
            }
            Some(Fault::ErrorAfterEvents(n)) => {
                whole = *n;
                frames.truncate(*n);
                frames.push(Frame {
                    text: stream::error_frame(api),
                    gives: None,
                });
            }
            _ => {}
        }
        let given = frames
            .iter()
            .take(whole)
            .filter_map(|frame| frame.gives.clone())
            .collect();
        self.memory.learn(api, number, body, given);
        Plan::Stream {
            frames: frames.into_iter().map(|frame| frame.text).collect(),
            delay: reply.delay,
            write_size: reply.write_size,
            end,
        }
    }
}

/// Headers and size.
fn envelope(found: &mut Found, api: Api, request: &Request, rules: &Rules) {
    if request.body.len() > rules.max_body {
        let code = (api == Api::Anthropic).then_some("request_too_large");
        found.add_as(
            "body.size",
            "",
            "Request exceeds the maximum size",
            413,
            code,
        );
    }
    if !rules.headers {
        return;
    }
    let bearer = request.header("authorization").is_some_and(|value| {
        value
            .strip_prefix("Bearer ")
            .is_some_and(|key| !key.trim().is_empty())
    });
    let key = |name: &str| request.header(name).is_some_and(|value| !value.is_empty());
    match api {
        Api::Anthropic => {
            if !key("x-api-key") && !bearer {
                found.add_as(
                    "header.auth",
                    "",
                    "x-api-key header is required",
                    401,
                    Some("authentication_error"),
                );
            }
            if !key("anthropic-version") {
                found.add(
                    "header.version",
                    "",
                    "anthropic-version: header is required",
                );
            }
        }
        Api::Chat | Api::Responses => {
            if !bearer {
                found.add_as(
                    "header.auth",
                    "",
                    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
                    401,
                    Some("invalid_api_key"),
                );
            }
        }
        Api::Gemini => {
            let in_query = request
                .query()
                .split('&')
                .any(|pair| pair.starts_with("key="));
            if !key("x-goog-api-key") && !bearer && !in_query {
                found.add_as(
                    "header.auth",
                    "",
                    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
                    403,
                    Some("PERMISSION_DENIED"),
                );
            }
        }
    }
    let json = request
        .header("content-type")
        .is_some_and(|value| value.to_ascii_lowercase().starts_with("application/json"));
    if !json {
        found.add(
            "header.content_type",
            "",
            "content-type: must be application/json",
        );
    }
}

fn parse(found: &mut Found, api: Api, bytes: &[u8]) -> Option<Value> {
    let why = match std::str::from_utf8(bytes) {
        Err(error) => error.to_string(),
        // Lone surrogates in escapes are errors here too.
        Ok(text) => match serde_json::from_str(text) {
            Ok(body) => return Some(body),
            Err(error) => error.to_string(),
        },
    };
    let message = match api {
        Api::Anthropic => format!("The request body is not valid JSON: {why}"),
        Api::Chat | Api::Responses => format!(
            "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON: {why})"
        ),
        Api::Gemini => format!("Invalid JSON payload received. {why}"),
    };
    found.add("body.json", "", message);
    None
}

/// This server only streams.
fn streaming(found: &mut Found, api: Api, request: &Request, body: &Value) {
    let streams = match api {
        Api::Gemini => request.query().split('&').any(|pair| pair == "alt=sse"),
        _ => body.at("stream") == true,
    };
    if !streams {
        found.add(
            "not_streaming",
            "",
            "this mock server only streams: `stream: true` (Gemini: `alt=sse`) is required",
        );
    }
}

/// Did the request ask, soundly, for stale thinking blocks to be dropped?
fn may_drop(found: &mut Found, api: Api, request: &Request, body: &Value) -> bool {
    let binding = body.at("thinking").at("block_binding");
    if api != Api::Anthropic || binding.is_null() {
        return false;
    }
    let beta = request
        .headers
        .iter()
        .filter(|(name, _)| name == "anthropic-beta")
        .flat_map(|(_, value)| value.split(','))
        .any(|word| word.trim() == "thinking-binding-controls-2026-08-01");
    if !beta {
        found.add(
            "thinking.binding",
            "thinking",
            "thinking.block_binding: Extra inputs are not permitted",
        );
    }
    beta && binding.at("prefix_mismatch_behavior") == "drop_block"
}

/// Write the answer. False when the connection is to be closed.
fn play(shared: &Shared, output: &mut &TcpStream, plan: Plan, keep: bool) -> io::Result<bool> {
    let mut extra = vec![
        (
            "request-id".to_owned(),
            "req_011CSHoEeqs5C35K2UUqR7Fy".to_owned(),
        ),
        (
            "x-request-id".to_owned(),
            "req_011CSHoEeqs5C35K2UUqR7Fy".to_owned(),
        ),
    ];
    if !keep {
        extra.push(("connection".to_owned(), "close".to_owned()));
    }
    match plan {
        Plan::Drop => Ok(false),
        Plan::Hang => {
            shared.wait(None);
            Ok(false)
        }
        Plan::Answer {
            status,
            mut headers,
            body,
        } => {
            headers.extend(extra);
            http::write_answer(output, status, &headers, body.as_bytes())?;
            Ok(true)
        }
        Plan::Stream {
            frames,
            delay,
            write_size,
            end,
        } => {
            http::write_stream_head(output, &extra)?;
            let mut left = if let End::Bytes(bytes) = end {
                bytes
            } else {
                usize::MAX
            };
            for frame in frames {
                if !delay.is_zero() && shared.wait(Some(delay)) {
                    return Ok(false);
                }
                let bytes = frame.as_bytes();
                let bytes = bytes.get(..bytes.len().min(left)).unwrap_or(bytes);
                left -= bytes.len();
                let size = if write_size == 0 {
                    bytes.len().max(1)
                } else {
                    write_size
                };
                for piece in bytes.chunks(size) {
                    http::write_chunk(output, piece)?;
                }
                if left == 0 {
                    break;
                }
            }
            match end {
                End::Clean => {
                    http::write_end(output)?;
                    Ok(true)
                }
                End::Bytes(_) | End::Close => Ok(false),
                End::Stall => {
                    shared.wait(None);
                    Ok(false)
                }
            }
        }
    }
}
