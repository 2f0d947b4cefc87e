//! Functions as tools.

use std::path::PathBuf;
use std::time::Duration;

use rethread::{AsJson, Json, Permission, Repeat, Tool, ToolContext, ToolError, ToolOutput, tool};
use serde_json::{Value, json};

fn json(value: Value) -> Json {
    Json::encode(&value).unwrap()
}

async fn call(tool: &dyn Tool, arguments: Value) -> Result<String, String> {
    let context = ToolContext::detached("call-1");
    match tool.call(context, json(arguments)).await {
        Ok(ToolOutput::Content(content)) => Ok(content.to_text()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn parameters(tool: &dyn Tool) -> Value {
    tool.spec().parameters.decode().unwrap()
}

/// Writes a text file.
///
/// What is there is replaced.
#[tool(
    serial,
    repeat = "always",
    timeout_secs = 30,
    ask = "Write {{{kind}}} to {path} ({times}{missing})?"
)]
async fn write_file(
    context: ToolContext,
    /// Where, from the
    /// working directory.
    path: PathBuf,
    content: String,
    #[serde(default = "once")]
    #[schemars(range(min = 1))]
    mut times: u32,
    #[serde(rename = "type")] kind: Option<String>,
    #[allow(unused_variables)] missing: Option<u8>,
) -> Result<String, ToolError> {
    if context.call_id != "call-1" {
        return Err(ToolError::new("another call"));
    }
    times *= 10;
    Ok(format!("{} {content} {times} {kind:?}", path.display()))
}

fn once() -> u32 {
    1
}

#[test]
fn the_model_is_told_what_the_source_says() {
    let spec = write_file.spec();
    assert_eq!(spec.name, "write_file");
    assert_eq!(
        spec.description,
        "Writes a text file.\n\nWhat is there is replaced."
    );
    assert_eq!((spec.parallel, spec.repeat), (false, Repeat::Always));
    assert_eq!(spec.timeout, Some(Duration::from_secs(30)));
    assert_eq!(
        parameters(&write_file),
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where, from the\nworking directory."},
                "content": {"type": "string"},
                "times": {"type": "integer", "minimum": 1, "default": 1},
                "type": {"type": ["string", "null"]},
                "missing": {"type": ["integer", "null"], "minimum": 0, "maximum": 255},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        })
    );
}

#[tokio::test]
async fn a_call_reads_its_arguments_and_may_leave_out_what_is_optional() {
    let arguments = json!({"path": "a/b", "content": "x", "type": "text", "times": 2});
    assert_eq!(
        call(&write_file, arguments).await.unwrap(),
        "a/b x 20 Some(\"text\")"
    );
    let arguments = json!({"path": "a/b", "content": "x"});
    assert_eq!(call(&write_file, arguments).await.unwrap(), "a/b x 10 None");
}

#[tokio::test]
async fn a_call_that_does_not_fit_says_where() {
    for (arguments, error) in [
        (json!({"path": "a"}), "missing field `content`"),
        (
            json!({"path": "a", "content": 5}),
            "`content`: invalid type: integer `5`, expected a string",
        ),
        (
            json!({"path": "a", "content": "", "contents": ""}),
            "`contents`: unknown field `contents`, expected one of `path`, `content`, `times`, \
             `type`, `missing`",
        ),
    ] {
        let found = call(&write_file, arguments).await.unwrap_err();
        assert_eq!(found, format!("the arguments do not fit: {error}"));
    }
}

#[test]
fn the_prompt_shows_the_arguments() {
    let ask = |arguments| match write_file.permission(&json(arguments)) {
        Permission::Ask { prompt } => prompt,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        ask(json!({"path": "a\nb", "times": 3, "type": "text"})),
        "Write {text} to a\nb (3)?"
    );
    assert_eq!(ask(json!({})), "Write {} to  ()?");
    assert_eq!(sum.permission(&json(json!({}))), Permission::Start);
}

#[tokio::test]
async fn the_function_can_still_be_called() {
    let context = ToolContext::detached("call-1");
    let text = write_file(context, "p".into(), "c".into(), 1, None, None).await;
    assert_eq!(text.unwrap(), "p c 10 None");
    assert_eq!(sum(vec![1, 2]), 3);
    assert_eq!(factorial(5).await, 120);
}

/// Adds numbers.
#[tool(name = "add-up", repeat = "if_not_started")]
fn sum(numbers: Vec<i64>) -> i64 {
    numbers.iter().sum()
}

/// Calls itself.
#[tool]
async fn factorial(n: u64) -> u64 {
    match n {
        0 => 1,
        n => n * Box::pin(factorial(n - 1)).await,
    }
}

#[tokio::test]
async fn a_plain_function_runs_on_a_thread_where_it_may_block() {
    #[tool(description = "Tells the thread.")]
    fn thread() -> AsJson<bool> {
        let me = std::thread::current().id();
        AsJson(me == *TEST.get().unwrap())
    }
    static TEST: std::sync::OnceLock<std::thread::ThreadId> = std::sync::OnceLock::new();
    TEST.set(std::thread::current().id()).unwrap();
    assert_eq!(call(&thread, json!({})).await.unwrap(), "false");
    assert_eq!(call(&sum, json!({"numbers": [1, 2]})).await.unwrap(), "3");
    assert_eq!(sum.spec().name, "add-up");
    assert_eq!(sum.spec().repeat, Repeat::IfNotStarted);
    assert!(sum.spec().parallel);
}

#[test]
fn a_plain_function_needs_no_runtime() {
    let mut call = std::pin::pin!(call(&sum, json!({"numbers": [1]})));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(done) = call.as_mut().poll(&mut context) else {
        panic!("it waits");
    };
    assert_eq!(done.unwrap(), "1");
}

#[tokio::test]
#[should_panic(expected = "on fire")]
async fn a_panic_in_a_plain_function_is_a_panic_of_the_call() {
    /// Burns.
    #[tool]
    fn burn() {
        panic!("on fire");
    }
    let _ = call(&burn, json!({})).await;
}

mod elsewhere {
    use rethread::tool;

    /// A type of the host's own.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum Side {
        /// The one where the heart is.
        Left,
        Right,
    }

    /// Turns.
    #[tool(crate = ::rethread)]
    pub(crate) async fn turn(r#type: Side, _unused: Option<std::collections::BTreeSet<u8>>) {
        match r#type {
            Side::Left | Side::Right => {}
        }
    }
}

#[tokio::test]
async fn own_types_raw_names_and_nothing_given_back() {
    use elsewhere::turn;
    assert_eq!(call(&turn, json!({"type": "left"})).await.unwrap(), "done");
    let side = &parameters(&turn)["properties"]["type"];
    assert_eq!(side["oneOf"][1]["const"], "left", "{side}");
}

#[test]
fn a_tool_is_a_plain_value() {
    fn takes(_: impl Tool + Copy + std::fmt::Debug + 'static) {}
    takes(write_file);
    takes(sum);
    let boxed: Box<dyn Tool> = Box::new(elsewhere::turn);
    assert_eq!(boxed.spec().name, "turn");
    assert_eq!(format!("{sum:?}"), "sum");
}
