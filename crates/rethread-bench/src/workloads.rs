//! The workloads.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use rethread_core::{
    Agent, BoxFuture, Content, Entry, Event, Json, Message, Tool, ToolContext, ToolError,
    ToolOutput, ToolSpec,
};
use rethread_stores::SqliteStore;
use serde_json::{Map, Value, json};

use crate::data;
use crate::measure::{Timer, report, since_spawn};
use crate::model::{Scripted, responses};

type Result<T> = std::result::Result<T, String>;

pub(crate) fn run(workload: &str, arguments: &Value) -> Result<String> {
    let result = match workload {
        "data" => make_data(arguments),
        "fixture" => fixture(arguments),
        "w1" => w1(arguments),
        "w2" => w2(arguments),
        "w3" => w3(arguments),
        "w4" => w4(arguments),
        "w6" => w6(arguments),
        other => Err(format!("unknown workload `{other}`")),
    }?;
    Ok(report(result))
}

fn text<'a>(arguments: &'a Value, name: &str) -> Result<&'a str> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("`{name}` is missing"))
}

fn number(arguments: &Value, name: &str) -> Result<usize> {
    let number = arguments
        .get(name)
        .and_then(Value::as_u64)
        .ok_or_else(|| format!("`{name}` is missing"))?;
    usize::try_from(number).map_err(|error| error.to_string())
}

fn words(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(words)?;
    runtime.block_on(future)
}

/// Runs a future that never has to wait, without a runtime.
fn at_once<T>(future: impl Future<Output = T>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err("the store had to wait".to_owned()),
    }
}

fn agent(store: SqliteStore, model: Scripted) -> Result<Agent> {
    Agent::builder()
        .model(model)
        .instructions("You are a helpful assistant.")
        .tool(Canned::new("read_file"))
        .tool(Canned::new("grep"))
        .store(store)
        .build()
        .map_err(words)
}

/// A tool that gives the same text of two KiB each time.
struct Canned {
    spec: ToolSpec,
    text: Content,
}

impl Canned {
    fn new(name: &str) -> Self {
        let schema = Json::parse(r#"{"type":"object"}"#).unwrap_or_else(|_| Json::empty_object());
        Self {
            spec: ToolSpec::new(name, "A tool.", schema),
            text: Content::from("x".repeat(2048)),
        }
    }
}

impl Tool for Canned {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        _context: ToolContext,
        _arguments: Json,
    ) -> BoxFuture<'a, std::result::Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::Content(self.text.clone())) })
    }
}

/// Writes a session of whole turns, each two calls; an open one ends with a call unanswered.
fn make_data(arguments: &Value) -> Result<Map<String, Value>> {
    let (path, messages) = (text(arguments, "path")?, number(arguments, "messages")?);
    let open = arguments
        .get("open")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let mut lines = String::new();
    for turn in 0..messages / 5 {
        let last = open && (turn + 1) * 5 >= messages;
        for line in data::turn(turn).into_iter().take(if last { 3 } else { 5 }) {
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
    }
    std::fs::write(path, lines).map_err(words)?;
    Ok(map(json!({ "ok": true })))
}

fn fixture(arguments: &Value) -> Result<Map<String, Value>> {
    let (path, file) = (text(arguments, "store")?, text(arguments, "data")?);
    block_on(async {
        let store = SqliteStore::open(path).await.map_err(words)?;
        let agent = agent(store, Scripted::new(Vec::new()))?;
        if let Some(others) = arguments.get("others").and_then(Value::as_str) {
            let mut lines = data::lines(others)?;
            for session in 0.. {
                let messages: Vec<_> = lines.by_ref().take(10).collect::<Result<_>>()?;
                if messages.is_empty() {
                    break;
                }
                let entries: Result<Vec<_>> = messages
                    .iter()
                    .map(|line| Ok(Entry::message(data::message(line)?)))
                    .collect();
                agent
                    .session(format!("other-{session}"))
                    .create(entries?)
                    .await
                    .map_err(words)?;
            }
        }
        let entries = data::messages(file)?
            .into_iter()
            .map(Entry::message)
            .collect();
        agent.session("main").create(entries).await.map_err(words)
    })?;
    Ok(map(json!({ "ok": true })))
}

fn w1(arguments: &Value) -> Result<Map<String, Value>> {
    let k = number(arguments, "k")?;
    let messages = data::messages(text(arguments, "append")?)?;
    let path = text(arguments, "store")?.to_owned();
    block_on(async move {
        let agent = agent(
            SqliteStore::open(path).await.map_err(words)?,
            Scripted::new(Vec::new()),
        )?;
        let mut writer = agent.session("main").writer().await.map_err(words)?;
        let first = messages.first().cloned().ok_or("nothing to append")?;
        writer.append(first).await.map_err(words)?; // connection warm
        let batch: Vec<Message> = messages.iter().cycle().take(k).cloned().collect();
        let timer = Timer::start();
        for message in batch {
            writer.append(message).await.map_err(words)?;
        }
        let (wall, cpu) = timer.stop();
        Ok(map(json!({ "ops": k, "wall_s": wall, "cpu_s": cpu })))
    })
}

fn w2(arguments: &Value) -> Result<Map<String, Value>> {
    let timer = Timer::start();
    let store = SqliteStore::open_read_only(text(arguments, "store")?).map_err(words)?;
    let point = at_once(rethread_core::read_status(&store, "main"))?
        .map_err(words)?
        .point;
    let (kind, missing) = match &point {
        Ok(point) => (point.kind.as_str(), point.unanswered.len()),
        Err(reason) => (reason.as_str(), 0),
    };
    let (wall, cpu) = timer.stop();
    let cold = since_spawn();
    let mut result = map(json!({ "wall_s": wall, "cpu_s": cpu, "kind": kind, "missing": missing }));
    if let Some(cold) = cold {
        result.insert("cold_s".to_owned(), json!(cold));
    }
    Ok(result)
}

fn w3(arguments: &Value) -> Result<Map<String, Value>> {
    let path = text(arguments, "store")?.to_owned();
    let timer = Timer::start();
    let model = Scripted::new(Vec::new());
    let bytes = Arc::clone(&model.body_bytes);
    let agent = agent(SqliteStore::open_read_only(path).map_err(words)?, model)?;
    let session = agent.session("main");
    let mut run = at_once(session.dry_run())?.map_err(words)?;
    drop(run.prompt.send());
    let (wall, cpu) = timer.stop();
    Ok(map(
        json!({ "wall_s": wall, "cpu_s": cpu, "body_bytes": bytes.load(Ordering::Relaxed) }),
    ))
}

fn w4(arguments: &Value) -> Result<Map<String, Value>> {
    let turns = number(arguments, "turns")?;
    let messages = data::messages(text(arguments, "append")?)?;
    let path = text(arguments, "store")?.to_owned();
    let asked: Vec<String> = messages
        .iter()
        .filter(|message| matches!(message.body, rethread_core::Body::User(_)))
        .map(|message| message.content().to_text())
        .collect();
    block_on(async move {
        let agent = agent(
            SqliteStore::open(path).await.map_err(words)?,
            Scripted::new(responses(&messages)),
        )?;
        let session = agent.session("main");
        // The session is at hand before the clock starts, as in a process that has it open.
        let first = asked.first().ok_or("nothing to ask")?;
        let mut reply = session.run(first.as_str()).await.map_err(words)?;
        let mut took = Vec::with_capacity(turns);
        let timer = Timer::start();
        for turn in 0..turns {
            let start = std::time::Instant::now();
            let ask = asked
                .get((turn + 1) % asked.len())
                .map(String::as_str)
                .unwrap_or_default();
            reply = reply.ask(ask).await.map_err(words)?;
            took.push(start.elapsed().as_secs_f64());
        }
        let (wall, cpu) = timer.stop();
        took.sort_by(f64::total_cmp);
        let p99 = took
            .get((took.len().saturating_sub(1)) * 99 / 100)
            .copied()
            .unwrap_or(0.0);
        Ok(map(json!({
            "ops": turns, "steps": turns * 2, "wall_s": wall, "cpu_s": cpu, "p99_ms": p99 * 1e3
        })))
    })
}

fn w6(arguments: &Value) -> Result<Map<String, Value>> {
    let deltas = number(arguments, "deltas")?;
    block_on(async move {
        let agent = Agent::builder()
            .model(Scripted::streaming(deltas))
            .build()
            .map_err(words)?;
        let mut run = agent.session("main").stream("go");
        let mut bytes = 0;
        let timer = Timer::start();
        while let Some(event) = run.next().await {
            if let Event::TextDelta { text } = event {
                bytes += text.len();
            }
        }
        run.await.map_err(words)?;
        let (wall, cpu) = timer.stop();
        Ok(map(
            json!({ "ops": deltas, "bytes": bytes, "wall_s": wall, "cpu_s": cpu }),
        ))
    })
}
