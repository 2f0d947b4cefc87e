//! Tools made of functions with typed arguments.

mod arguments;
pub mod generated;
mod output;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::arguments::ToolArgument;
use self::arguments::{decode, parameters};
pub use self::output::{AsJson, IntoToolOutput};
use crate::{
    BoxFuture, Json, Permission, Repeat, Tool, ToolContext, ToolError, ToolOutput, ToolSpec,
};

/// Makes a tool of a function or closure. The schema the model is told is made of the type of the
/// arguments `A`.
///
/// ```
/// use rethread_core::{ToolContext, ToolError, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Wait {
///     /// How long, in milliseconds.
///     millis: u64,
/// }
///
/// let wait = tool_fn("wait", "Waits.", async |context: ToolContext, arguments: Wait| {
///     context.progress("waiting");
///     if arguments.millis > 1000 {
///         return Err(ToolError::new("too long; wait at most 1000 ms"));
///     }
///     Ok("done")
/// })
/// .serial();
/// ```
pub fn tool_fn<A, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> FnTool<A>
where
    A: ToolArgument,
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoToolOutput> + Send + 'static,
{
    let call = move |context: ToolContext, arguments: &Json| -> Called {
        let called = decode(arguments).map(|arguments| function(context, arguments));
        Box::pin(async move { called?.await.into_tool_output() })
    };
    FnTool {
        spec: ToolSpec::new(name, description, parameters::<A>()),
        call: Arc::new(call),
        ask: None,
    }
}

impl dyn Tool {
    /// Makes a tool of a function or closure; the same as [`tool_fn`].
    pub fn from_fn<A, F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> FnTool<A>
    where
        A: ToolArgument,
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolOutput> + Send + 'static,
    {
        tool_fn(name, description, function)
    }
}

type Called = BoxFuture<'static, Result<ToolOutput, ToolError>>;
type Call = dyn Fn(ToolContext, &Json) -> Called + Send + Sync;
type Ask<A> = dyn Fn(&A) -> Option<String> + Send + Sync;

/// A tool made of a function, see [`tool_fn`]. It runs in parallel, starts at once and is never
/// repeated on its own unless told otherwise.
pub struct FnTool<A> {
    spec: ToolSpec,
    call: Arc<Call>,
    ask: Option<Arc<Ask<A>>>,
}

impl<A: ToolArgument> FnTool<A> {
    /// Runs alone: after the calls before it, before those after it.
    #[must_use]
    pub fn serial(mut self) -> Self {
        self.spec = self.spec.serial();
        self
    }

    /// May be run again on its own after an interruption.
    #[must_use]
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.spec = self.spec.repeat(repeat);
        self
    }

    /// Limits how long a call may take; after that it counts as possibly still running.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.spec = self.spec.timeout(timeout);
        self
    }

    /// Asks a person before a call starts: `prompt` makes the question of the arguments. It may
    /// give an `Option`; with `None` the call starts at once. It must depend on nothing else, as it
    /// is asked again after a crash.
    #[must_use]
    pub fn ask<P: Into<Option<String>>>(
        mut self,
        prompt: impl Fn(&A) -> P + Send + Sync + 'static,
    ) -> Self {
        self.ask = Some(Arc::new(move |arguments| prompt(arguments).into()));
        self
    }
}

impl<A: ToolArgument> Tool for FnTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn permission(&self, arguments: &Json) -> Permission {
        // Arguments that do not fit need no leave: the call fails before the function runs.
        let ask = self.ask.as_ref();
        match ask.and_then(|ask| ask(&decode(arguments).ok()?)) {
            Some(prompt) => Permission::Ask { prompt },
            None => Permission::Start,
        }
    }

    fn call<'a>(
        &'a self,
        context: ToolContext,
        arguments: Json,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        (self.call)(context, &arguments)
    }
}

impl<A> Clone for FnTool<A> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            call: Arc::clone(&self.call),
            ask: self.ask.clone(),
        }
    }
}

impl<A> fmt::Debug for FnTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    use super::*;
    use crate::schema::Schema;
    use crate::{Content, Wait};

    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    struct Move {
        /// What to move.
        piece: Piece,
        to: Vec<Point>,
        times: Option<u8>,
        #[serde(default)]
        fast: bool,
    }

    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Piece {
        King,
        Pawn,
    }

    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    struct Point {
        x: u32,
        y: Even,
    }

    /// Has a rule of its own, which no schema tells.
    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(try_from = "i64")]
    struct Even(i64);

    impl TryFrom<i64> for Even {
        type Error = String;

        fn try_from(n: i64) -> Result<Self, String> {
            match n % 2 {
                0 => Ok(Self(n)),
                _ => Err(format!("{n} is odd")),
            }
        }
    }

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

    fn mover() -> FnTool<Move> {
        tool_fn(
            "move",
            "Moves.",
            async |context: ToolContext, args: Move| {
                let key = context.idempotency_key();
                AsJson((key, args))
            },
        )
    }

    #[tokio::test]
    async fn arguments_are_read_and_the_value_is_written() {
        let arguments = json!({"piece": "pawn", "to": [{"x": 1, "y": 2}], "times": null});
        let written = call(&mover(), arguments).await.unwrap();
        let key = ToolContext::detached("").idempotency_key();
        let moved =
            json!([key, {"piece": "pawn", "to": [{"x": 1, "y": 2}], "times": null, "fast": false}]);
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), moved);
    }

    #[test]
    fn the_schema_says_what_the_type_takes_and_nothing_of_rust() {
        let parameters: Value = mover().spec().parameters.decode().unwrap();
        let even = json!({"type": "integer", "description": "Has a rule of its own, which no schema tells."});
        let point = json!({
            "type": "object",
            "properties": {"x": {"type": "integer", "minimum": 0}, "y": even},
            "required": ["x", "y"],
        });
        assert_eq!(
            parameters,
            json!({
                "type": "object",
                "properties": {
                    "piece": {"type": "string", "enum": ["king", "pawn"], "description": "What to move."},
                    "to": {"type": "array", "items": point},
                    "times": {"type": ["integer", "null"], "minimum": 0, "maximum": 255},
                    "fast": {"type": "boolean", "default": false},
                },
                "required": ["piece", "to"],
            })
        );
    }

    #[tokio::test]
    async fn arguments_that_do_not_fit_name_their_path() {
        for (arguments, error) in [
            (json!({"to": []}), "missing field `piece`"),
            (
                json!({"piece": "rook", "to": []}),
                "`piece`: unknown variant `rook`, expected `king` or `pawn`",
            ),
            (
                json!({"piece": "king", "to": [{"x": 1, "y": 2}, {"x": -1, "y": 2}]}),
                "`to[1].x`: invalid value: integer `-1`, expected u32",
            ),
            (
                json!({"piece": "king", "to": [{"x": 1, "y": 3}]}),
                "`to[0].y`: 3 is odd",
            ),
        ] {
            let found = call(&mover(), arguments).await.unwrap_err();
            assert_eq!(found, format!("the arguments do not fit: {error}"));
        }
    }

    #[test]
    fn what_the_schema_takes_the_type_takes() {
        let schema = Schema::compile(&mover().spec().parameters);
        let good = json!({"piece": "king", "to": [{"x": 1, "y": 2}], "times": 3, "fast": true});
        schema.validate(&json(good)).unwrap();
        let bad = json!({"piece": "rook", "to": [{"x": -1}], "times": 256});
        assert_eq!(
            schema.validate(&json(bad)).unwrap_err(),
            [
                "`piece`: \"rook\" is not one of \"king\", \"pawn\"",
                "`times`: 256 is too big; the most is 255",
                "`to[0].y`: missing; it must be an integer",
                "`to[0].x`: -1 is too small; the least is 0",
            ]
        );
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Tree {
        #[serde(default)]
        branches: Vec<Tree>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "do", rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema counts")]
    enum Action {
        Open { path: String },
        Close,
    }

    #[test]
    fn parameters_are_an_object_whatever_the_type() {
        fn of<A: ToolArgument>() -> Value {
            let tool = tool_fn("t", "", async |_, _: A| ());
            tool.spec().parameters.decode().unwrap()
        }
        for schema in [
            of::<()>(),
            of::<Tree>(),
            of::<Action>(),
            of::<Option<Move>>(),
            of::<BTreeMap<String, u8>>(),
            of::<Value>(),
        ] {
            assert_eq!(schema["type"], "object", "{schema}");
            assert!(schema["properties"].is_object(), "{schema}");
            assert_eq!(schema.get("title"), None);
            assert_eq!(schema.get("$schema"), None);
        }
        let schema = Schema::compile(&json(of::<Tree>()));
        let deep = json!({"branches": [{"branches": [{"branches": 7}]}]});
        assert_eq!(
            schema.validate(&json(deep)).unwrap_err(),
            ["`branches[0].branches[0].branches`: 7 is not an array"]
        );
        let schema = Schema::compile(&json(of::<Action>()));
        assert_eq!(
            schema.validate(&json(json!({"do": "open"}))).unwrap_err(),
            ["`path`: missing; it must be a string"]
        );
        assert_eq!(
            schema.validate(&json(json!({"do": "burn"}))).unwrap_err(),
            [
                "the arguments: it must be an object with `do` \"open\", `path` or an object with `do` \"close\""
            ]
        );
    }

    #[tokio::test]
    async fn a_tool_without_arguments_is_called_with_an_empty_object() {
        let tool = tool_fn("now", "Tells the time.", async |_, ()| "noon");
        assert_eq!(call(&tool, json!({})).await.unwrap(), "noon");
        assert!(call(&tool, json!({"zone": "utc"})).await.is_err());
    }

    #[tokio::test]
    async fn every_kind_of_output_becomes_content_or_an_error() {
        #[derive(Debug)]
        struct Full;
        impl fmt::Display for Full {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(if f.alternate() { "full: disk" } else { "full" })
            }
        }
        let text = |output: Result<ToolOutput, ToolError>| match output {
            Ok(ToolOutput::Content(content)) => content.to_text(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("a".into_tool_output()), "a");
        assert_eq!(text(String::from("a").into_tool_output()), "a");
        assert_eq!(text(().into_tool_output()), "done");
        assert_eq!(text(true.into_tool_output()), "true");
        assert_eq!(text(1.5.into_tool_output()), "1.5");
        assert_eq!(text(Content::from("a").into_tool_output()), "a");
        assert_eq!(text(json(json!([1])).into_tool_output()), "[1]");
        assert_eq!(text(AsJson("a").into_tool_output()), "\"a\"");
        assert_eq!(text(Ok::<_, Full>(7).into_tool_output()), "7");
        let failed = Err::<(), _>(Full).into_tool_output();
        assert_eq!(failed.unwrap_err().to_string(), "full: disk");
        let unwritable = AsJson(BTreeMap::from([(vec![1], 1)])).into_tool_output();
        assert!(
            unwritable
                .unwrap_err()
                .message
                .starts_with("the tool has run")
        );
        let deferred = ToolOutput::Deferred {
            wait: Wait::External,
            prompt: None,
        };
        assert_eq!(deferred.clone().into_tool_output().unwrap(), deferred);
    }

    #[test]
    fn options_reach_the_spec_and_the_prompt_its_asker() {
        let tool = <dyn Tool>::from_fn("move", "Moves.", async |_, _: Move| ())
            .serial()
            .repeat(Repeat::Always)
            .timeout(Duration::from_secs(3))
            .ask(|args| (!args.fast).then(|| format!("Move {} times?", args.to.len())));
        let spec = tool.spec();
        assert_eq!((spec.parallel, spec.repeat), (false, Repeat::Always));
        assert_eq!(spec.timeout, Some(Duration::from_secs(3)));
        let asked = |arguments| tool.clone().permission(&json(arguments));
        assert_eq!(
            asked(json!({"piece": "king", "to": []})),
            Permission::Ask {
                prompt: "Move 0 times?".to_owned()
            }
        );
        let fast = json!({"piece": "king", "to": [], "fast": true});
        assert_eq!(asked(fast), Permission::Start);
        assert_eq!(asked(json!({"piece": 1})), Permission::Start);
    }
}
