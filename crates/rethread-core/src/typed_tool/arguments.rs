//! The arguments of a call, read into a type.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Json, ToolError};

/// What a tool can take as its arguments or as one of them: an owned type that can be deserialized
/// and has a schema. There is nothing to implement: derive `serde::Deserialize` and
/// `schemars::JsonSchema`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken by a tool",
    label = "a model cannot fill this in",
    note = "derive what it takes: `#[derive(serde::Deserialize, schemars::JsonSchema)]`",
    note = "a tool owns its arguments: write `String`, not `&str`"
)]
pub trait ToolArgument: DeserializeOwned + JsonSchema + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> ToolArgument for T {}

/// The schema of a type as tools are described with: an object, with nothing that only repeats
/// Rust's types.
pub(super) fn parameters<A: JsonSchema>() -> Json {
    let mut settings =
        SchemaSettings::draft2020_12().with_transform(RecursiveTransform(remove_number_format));
    settings.meta_schema = None;
    // Not every provider follows references.
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    let object = schema.ensure_object();
    object.remove("title");
    object.insert("type".to_owned(), Value::from("object"));
    object
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    Json::encode(&schema).unwrap_or_else(|_| Json::empty_object())
}

/// `uint32` and its like are no formats of JSON Schema, and some providers refuse them.
fn remove_number_format(schema: &mut schemars::Schema) {
    let is_number = |name: &Value| name == "integer" || name == "number";
    let numeric = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(is_number),
        Some(name) => is_number(name),
        None => false,
    };
    if numeric {
        schema.remove("format");
    }
}

/// Reads the arguments of a call.
pub(super) fn decode<A: DeserializeOwned>(arguments: &Json) -> Result<A, ToolError> {
    let text = arguments.get();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).or_else(|error| {
        // A type without fields may read nothing rather than an empty object.
        let is_nothing = text.bytes().filter(|b| !b.is_ascii_whitespace()).eq(*b"{}");
        if is_nothing && let Ok(nothing) = serde_json::from_str("null") {
            return Ok(nothing);
        }
        let reason = error.inner().to_string();
        let place = format!(
            " at line {} column {}",
            error.inner().line(),
            error.inner().column()
        );
        // Where it stands in the text means nothing to who wrote an object; the path does.
        let reason = reason.strip_suffix(&place).unwrap_or(&reason);
        Err(ToolError::new(match error.path().iter().next() {
            Some(_) => format!("the arguments do not fit: `{}`: {reason}", error.path()),
            None => format!("the arguments do not fit: {reason}"),
        }))
    })
}
