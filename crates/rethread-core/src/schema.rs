//! Checks the arguments of a call against its tool's schema, with errors a model can act on.
//!
//! This is the part of [JSON Schema 2020-12](https://json-schema.org/draft/2020-12) that tool
//! schemas use: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`,
//! `items`, `prefixItems`, the bounds of numbers, strings and arrays, `anyOf`, `oneOf`, `allOf`,
//! `not`, local `$ref`, and `nullable` from OpenAPI. What it does not know it accepts: the tool
//! itself has the last word.

use std::cmp::{Ordering, Reverse};
use std::fmt;

use serde_json::{Map, Number, Value};

use crate::Json;

/// Errors told at once; more would not help a model.
const MAX_ERRORS: usize = 8;
/// Schemas entered inside each other. References may form a circle, so there must be an end.
const MAX_DEPTH: u32 = 256;
/// Pairs of schema and value looked at. Alternatives inside alternatives multiply.
const MAX_STEPS: u32 = 500_000;
/// Names or alternatives listed in one error.
const MAX_LISTED: usize = 16;
/// Characters of a value or a name shown in an error.
const MAX_SHOWN: usize = 60;

/// A JSON schema, ready to check arguments.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Value);

impl Schema {
    /// Reads a schema. What is no schema allows everything.
    #[must_use]
    pub(crate) fn compile(schema: &Json) -> Self {
        Self(schema.decode().unwrap_or(Value::Bool(true)))
    }

    /// Checks the arguments of a call.
    ///
    /// Work and memory are bounded: what lies beyond counts as fitting.
    ///
    /// # Errors
    /// When they do not fit: at most eight sentences, each with the path of a value, what was found
    /// there and what is wanted, such as `` `path`: missing; it must be a string ``.
    pub(crate) fn validate(&self, arguments: &Json) -> Result<(), Vec<String>> {
        let value: Value = arguments.decode().map_err(|error| {
            // Text that is JSON but cannot be decoded holds half of a surrogate pair.
            vec![format!("the arguments cannot be decoded: {error}")]
        })?;
        let mut check = Check {
            root: &self.0,
            steps: 0,
            exhausted: false,
        };
        let mut findings = Findings::default();
        check.value(&self.0, &value, &Path::ROOT, 0, &mut findings);
        if findings.0.is_empty() {
            return Ok(());
        }
        Err(findings.0.into_iter().map(|f| f.text).collect())
    }
}

/// Where a value stands inside the arguments.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathStep<'a>,
    length: u32,
}

enum PathStep<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    const ROOT: Path<'static> = Path {
        parent: None,
        step: PathStep::Root,
        length: 0,
    };

    fn then(&'a self, step: PathStep<'a>) -> Path<'a> {
        Path {
            parent: Some(self),
            step,
            length: self.length + 1,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.write(f)?;
        }
        match self.step {
            PathStep::Root => Ok(()),
            PathStep::Index(index) => write!(f, "[{index}]"),
            PathStep::Key(key) if is_plain(key) => {
                let dot = if self.length > 1 { "." } else { "" };
                write!(f, "{dot}{key}")
            }
            PathStep::Key(key) => write!(f, "[{}]", show_text(key)),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == 0 {
            return f.write_str("the arguments");
        }
        f.write_str("`")?;
        self.write(f)?;
        f.write_str("`")
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= MAX_SHOWN
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

/// One thing that does not fit.
struct Finding {
    text: String,
    /// How near the value came. Of several alternatives the nearest is the one that was meant.
    near: u32,
}

/// What does not fit about a value.
#[derive(Clone, Copy)]
enum Misfit {
    /// A constant: one step below an alternative it is the tag that names another one.
    Constant,
    /// The type, or whether it may be there at all.
    Kind,
    /// A detail of a value of the right type.
    Detail,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, at: &Path<'_>, misfit: Misfit, what: impl fmt::Display) {
        if self.is_full() {
            return;
        }
        let near = match misfit {
            Misfit::Constant => 2 * at.length.saturating_sub(1),
            Misfit::Kind => 2 * at.length,
            Misfit::Detail => 2 * at.length + 1,
        };
        let text = format!("{at}: {what}");
        self.0.push(Finding { text, near });
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MAX_ERRORS
    }

    /// How near the value came, greater is nearer: first the worst finding, then how few.
    fn near(&self) -> (u32, Reverse<usize>) {
        let worst = self.0.iter().map(|finding| finding.near).min();
        (worst.unwrap_or(u32::MAX), Reverse(self.0.len()))
    }
}

struct Check<'s> {
    root: &'s Value,
    steps: u32,
    /// A limit was met, so that "nothing found" no longer means "fits".
    exhausted: bool,
}

impl<'s> Check<'s> {
    fn value(
        &mut self,
        schema: &'s Value,
        value: &Value,
        at: &Path<'_>,
        depth: u32,
        findings: &mut Findings,
    ) {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            self.exhausted = true;
        }
        if self.exhausted || findings.is_full() {
            return;
        }
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => {
                findings.add(at, Misfit::Kind, "nothing is allowed here");
                return;
            }
            _ => return,
        };
        if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
            return;
        }
        if let Some(target) = reference(self.root, schema) {
            self.value(target, value, at, depth + 1, findings);
        }
        if let Some(types) = types(schema)
            && !types.iter().any(|name| is_type(name, value))
        {
            let wanted = alternatives(types.iter().map(|name| type_phrase(name).to_owned()));
            let text = format_args!("{} is not {wanted}", show(value));
            findings.add(at, Misfit::Kind, text);
            // Everything else the schema says is about values of its type.
            return;
        }
        self.constants(schema, value, at, findings);
        match value {
            Value::Number(number) => bounds(schema, number, at, findings),
            Value::String(text) => size(
                schema,
                ("minLength", "maxLength", "character"),
                || text.chars().count(),
                at,
                findings,
            ),
            Value::Array(items) => self.array(schema, items, at, depth, findings),
            Value::Object(object) => self.object(schema, object, at, depth, findings),
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(schema, value, at, depth, findings);
    }

    fn constants(
        &self,
        schema: &Map<String, Value>,
        value: &Value,
        at: &Path<'_>,
        findings: &mut Findings,
    ) {
        if let Some(wanted) = schema.get("const")
            && !equal(wanted, value)
        {
            let (found, wanted) = (show(value), show_constant(wanted));
            let text = format_args!("{found} is not {wanted}");
            findings.add(at, Misfit::Constant, text);
        }
        if let Some(Value::Array(allowed)) = schema.get("enum")
            && !allowed.iter().any(|wanted| equal(wanted, value))
        {
            // One allowed value is a constant by another name.
            let misfit = match allowed.len() {
                1 => Misfit::Constant,
                _ => Misfit::Detail,
            };
            let (found, allowed) = (show(value), listed(allowed.iter().map(show_constant)));
            let text = format_args!("{found} is not one of {allowed}");
            findings.add(at, misfit, text);
        }
    }

    fn array(
        &mut self,
        schema: &'s Map<String, Value>,
        items: &[Value],
        at: &Path<'_>,
        depth: u32,
        findings: &mut Findings,
    ) {
        size(
            schema,
            ("minItems", "maxItems", "item"),
            || items.len(),
            at,
            findings,
        );
        // Before 2020-12 a list in `items` was what `prefixItems` is now.
        let (first, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Value::Array(first)), rest) => (first.as_slice(), rest),
            (_, Some(Value::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
            (_, rest) => ([].as_slice(), rest),
        };
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = first.get(index).or(rest) else {
                break;
            };
            let at = at.then(PathStep::Index(index));
            self.value(schema, item, &at, depth + 1, findings);
            if findings.is_full() || self.exhausted {
                break;
            }
        }
    }

    fn object(
        &mut self,
        schema: &'s Map<String, Value>,
        object: &Map<String, Value>,
        at: &Path<'_>,
        depth: u32,
        findings: &mut Findings,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let property = |name: &str| properties.and_then(|all| all.get(name));
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if object.contains_key(name) {
                continue;
            }
            let wanted = property(name);
            let misfit = match wanted.and_then(|schema| schema.get("const")) {
                Some(_) => Misfit::Constant,
                None => Misfit::Kind,
            };
            let at = at.then(PathStep::Key(name));
            match wanted.and_then(|schema| self.describe(schema, 0)) {
                Some(wanted) => {
                    findings.add(&at, misfit, format_args!("missing; it must be {wanted}"));
                }
                None => findings.add(&at, misfit, "missing"),
            }
        }
        // Patterns are not evaluated, so with them any name may be known.
        let additional = schema
            .get("additionalProperties")
            .filter(|_| !schema.contains_key("patternProperties"));
        for (name, value) in object {
            let at = at.then(PathStep::Key(name));
            match (property(name), additional) {
                (Some(schema), _) => self.value(schema, value, &at, depth + 1, findings),
                (None, Some(Value::Bool(false))) => match properties {
                    Some(known) if !known.is_empty() => {
                        let known = listed(known.keys().map(|name| format!("`{}`", clip(name))));
                        let text = format_args!("unknown; there is only {known}");
                        findings.add(&at, Misfit::Kind, text);
                    }
                    _ => findings.add(&at, Misfit::Kind, "unknown; nothing is taken here"),
                },
                (None, Some(schema)) => self.value(schema, value, &at, depth + 1, findings),
                (None, None) => {}
            }
            if findings.is_full() || self.exhausted {
                break;
            }
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`.
    fn combined(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &Path<'_>,
        depth: u32,
        findings: &mut Findings,
    ) {
        let branches = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        for branch in branches("allOf").into_iter().flatten() {
            self.value(branch, value, at, depth + 1, findings);
        }
        for (keyword, one) in [("anyOf", false), ("oneOf", true)] {
            let Some(branches) = branches(keyword).filter(|branches| !branches.is_empty()) else {
                continue;
            };
            let mut fitting = 0;
            let mut failed = Vec::new();
            for branch in branches {
                let mut found = Findings::default();
                self.value(branch, value, at, depth + 1, &mut found);
                if found.0.is_empty() {
                    fitting += 1;
                    if !one {
                        break;
                    }
                } else {
                    failed.push(found);
                }
            }
            if self.exhausted {
                return;
            }
            match fitting {
                0 => self.explain(branches, failed, value, at, findings),
                2.. if one => findings.add(
                    at,
                    Misfit::Detail,
                    format_args!("fits {fitting} of the forms of which it must fit exactly one"),
                ),
                _ => {}
            }
        }
        if let Some(not) = schema.get("not") {
            let mut found = Findings::default();
            self.value(not, value, at, depth + 1, &mut found);
            if found.0.is_empty() && !self.exhausted {
                let text = format_args!("{} is not allowed", show(value));
                findings.add(at, Misfit::Detail, text);
            }
        }
    }

    /// Says why none of several alternatives fits: the errors of the one that was meant, if it can
    /// be told, otherwise the list.
    fn explain(
        &self,
        branches: &[Value],
        failed: Vec<Findings>,
        value: &Value,
        at: &Path<'_>,
        findings: &mut Findings,
    ) {
        let nearest = failed.iter().map(Findings::near).max();
        let is_other_kind = nearest.is_none_or(|(near, _)| near <= 2 * at.length);
        let mut meant = failed
            .into_iter()
            .filter(|found| !is_other_kind && Some(found.near()) == nearest);
        if let (Some(found), None) = (meant.next(), meant.next()) {
            findings.0.extend(found.0);
            findings.0.truncate(MAX_ERRORS);
            return;
        }
        let phrases: Option<Vec<String>> = branches
            .iter()
            .take(MAX_LISTED)
            .map(|branch| self.describe(branch, 0))
            .collect();
        match phrases.map(|phrases| alternatives(phrases.into_iter())) {
            None => {
                let text = format_args!("{} fits none of the allowed forms", show(value));
                findings.add(at, Misfit::Kind, text);
            }
            Some(wanted) if value.is_object() || value.is_array() => {
                findings.add(at, Misfit::Kind, format_args!("it must be {wanted}"));
            }
            Some(wanted) => {
                let text = format_args!("{} is not {wanted}", show(value));
                findings.add(at, Misfit::Kind, text);
            }
        }
    }

    /// What a value must be, in a few words; `None` if anything goes.
    fn describe(&self, schema: &Value, depth: u32) -> Option<String> {
        let schema = schema.as_object()?;
        if let Some(wanted) = schema.get("const") {
            return Some(show_constant(wanted));
        }
        if let Some(Value::Array(allowed)) = schema.get("enum") {
            let allowed = listed(allowed.iter().map(show_constant));
            return Some(format!("one of {allowed}"));
        }
        if depth > 3 {
            return None;
        }
        if let Some(types) = types(schema) {
            let is_object = |name: &str| name == "object";
            let phrase = |name: &&str| match self.members(schema) {
                Some(members) if is_object(name) => format!("an object with {members}"),
                _ => type_phrase(name).to_owned(),
            };
            return Some(alternatives(types.iter().map(phrase)));
        }
        if let Some(target) = reference(self.root, schema) {
            return self.describe(target, depth + 1);
        }
        let branches = schema.get("anyOf").or_else(|| schema.get("oneOf"));
        let branches = branches.and_then(Value::as_array)?;
        let phrases: Option<Vec<String>> = branches
            .iter()
            .take(MAX_LISTED)
            .map(|branch| self.describe(branch, depth + 1))
            .collect();
        phrases.map(|phrases| alternatives(phrases.into_iter()))
    }

    /// The members an object must have, a tag with its value.
    fn members(&self, schema: &Map<String, Value>) -> Option<String> {
        let required = schema.get("required")?.as_array()?;
        let names = required.iter().filter_map(Value::as_str);
        let members = names.map(|name| {
            let property = schema.get("properties").and_then(|all| all.get(name));
            match property.and_then(|schema| schema.get("const")) {
                Some(tag) => format!("`{}` {}", clip(name), show_constant(tag)),
                None => format!("`{}`", clip(name)),
            }
        });
        let members = listed(members);
        (!members.is_empty()).then_some(members)
    }
}

/// The schema a local `$ref` points to. Any other reference is unknown, and so accepts.
fn reference<'s>(root: &'s Value, schema: &Map<String, Value>) -> Option<&'s Value> {
    let target = schema.get("$ref")?.as_str()?;
    root.pointer(target.strip_prefix('#')?)
}

/// The types a schema names; `None` if it allows any.
fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(name) => is_known(name).then(|| vec![name.as_str()]),
        Value::Array(names) => {
            let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
            names.filter(|names| !names.is_empty() && names.iter().all(|name| is_known(name)))
        }
        _ => None,
    }
}

fn is_known(name: &str) -> bool {
    type_phrase(name) != "anything"
}

fn is_type(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => name == "number" || name == "integer" && is_integer(number),
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// `1.0` is an integer: JSON has one kind of number.
fn is_integer(number: &Number) -> bool {
    number.as_i128().is_some() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn type_phrase(name: &str) -> &'static str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        _ => "anything",
    }
}

fn equal(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Some(Ordering::Equal),
        _ => wanted == found,
    }
}

fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn bounds(schema: &Map<String, Value>, found: &Number, at: &Path<'_>, findings: &mut Findings) {
    let number = |keyword: &str| match schema.get(keyword) {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    };
    // Before 2019-09 the exclusive bound was a flag beside the other.
    let is_flagged = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    let sides = [
        ("minimum", "exclusiveMinimum", Ordering::Less),
        ("maximum", "exclusiveMaximum", Ordering::Greater),
    ];
    for (inclusive, exclusive, outside) in sides {
        let (size, least, beyond) = match outside {
            Ordering::Less => ("small", "least", "greater"),
            _ => ("big", "most", "less"),
        };
        let flagged = is_flagged(exclusive);
        if let Some(bound) = number(inclusive).filter(|_| !flagged)
            && compare(found, bound) == Some(outside)
        {
            let text = format_args!("{found} is too {size}; the {least} is {bound}");
            findings.add(at, Misfit::Detail, text);
        }
        let bound = if flagged {
            number(inclusive)
        } else {
            number(exclusive)
        };
        if let Some(bound) = bound
            && compare(found, bound).is_some_and(|o| o == outside || o == Ordering::Equal)
        {
            let text = format_args!("{found} is too {size}; it must be {beyond} than {bound}");
            findings.add(at, Misfit::Detail, text);
        }
    }
}

/// The bounds of a length.
fn size(
    schema: &Map<String, Value>,
    (min, max, unit): (&str, &str, &str),
    count: impl FnOnce() -> usize,
    at: &Path<'_>,
    findings: &mut Findings,
) {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    let (min, max) = (bound(min), bound(max));
    if min.is_none() && max.is_none() {
        return;
    }
    let count = u64::try_from(count()).unwrap_or(u64::MAX);
    let plural = if count == 1 { "" } else { "s" };
    if let Some(min) = min.filter(|min| count < *min) {
        let text = format_args!("has {count} {unit}{plural}; the least is {min}");
        findings.add(at, Misfit::Detail, text);
    }
    if let Some(max) = max.filter(|max| count > *max) {
        let text = format_args!("has {count} {unit}{plural}; the most is {max}");
        findings.add(at, Misfit::Detail, text);
    }
}

/// A value as an error shows it.
fn show(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => show_text(text),
        scalar => scalar.to_string(),
    }
}

fn show_text(text: &str) -> String {
    Value::from(clip(text)).to_string()
}

/// A value of the schema as an error shows it.
fn show_constant(value: &Value) -> String {
    match value {
        Value::String(text) => show_text(text),
        other => clip(&other.to_string()),
    }
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or("")),
    }
}

/// `a, b, c`
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut items = items;
    let mut all: Vec<String> = items.by_ref().take(MAX_LISTED).collect();
    let more = items.count();
    if more > 0 {
        all.push(format!("… ({more} more)"));
    }
    all.join(", ")
}

/// `a, b or c`, each once
fn alternatives(items: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for item in items.take(MAX_LISTED) {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    match (all.pop(), all.join(", ")) {
        (None, _) => String::new(),
        (Some(last), first) if first.is_empty() => last,
        (Some(last), first) => format!("{first} or {last}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, value: &Value) -> Result<(), Vec<String>> {
        let schema = Schema::compile(&Json::encode(schema).unwrap());
        schema.validate(&Json::encode(value).unwrap())
    }

    fn fits(schema: &Value, value: &Value) -> bool {
        check(schema, value).is_ok()
    }

    #[test]
    fn an_error_says_where_what_was_found_and_what_is_wanted() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 2, "maxLength": 4},
                "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
                "mode": {"enum": ["read", "write", null]},
                "kind": {"const": "file"},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
                "pair": {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": false},
                "old": {"items": [{"type": "string"}], "additionalItems": {"type": "null"}},
                "maybe": {"type": ["string", "null"]},
                "soft": {"type": "string", "nullable": true},
                "at": {"$ref": "#/$defs/point"},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "odd key": {"type": "boolean"},
                "not_one": {"not": {"const": 1}},
                "exactly": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
                "both": {"allOf": [{"minimum": 3}, {"maximum": 5}]},
                "draft4": {"minimum": 3, "exclusiveMinimum": true},
                "map": {"additionalProperties": {"type": "integer"}},
            },
            "required": ["path"],
            "additionalProperties": false,
            "$defs": {"point": {
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                "required": ["x", "y"],
            }},
        });
        let with = |name: &str, value: Value| {
            let mut object = json!({"path": "abc"});
            object[name] = value;
            check(&schema, &object)
        };
        for (name, value) in [
            ("path", json!("äöüß")),
            ("count", json!(1)),
            ("count", json!(2.0)),
            ("mode", json!(null)),
            ("tags", json!(["a", "b"])),
            ("pair", json!(["a", 1.5])),
            ("pair", json!(["a"])),
            ("pair", json!("nothing is said of strings")),
            ("old", json!(["a", null])),
            ("maybe", json!(null)),
            ("soft", json!(null)),
            ("at", json!({"x": 1, "y": 2, "z": "free"})),
            ("either", json!(5)),
            ("odd key", json!(true)),
            ("not_one", json!(2)),
            ("exactly", json!(1.5)),
            ("both", json!(4)),
            ("draft4", json!(3.1)),
            ("map", json!({"a": 1})),
        ] {
            assert_eq!(with(name, value), Ok(()), "{name}");
        }
        for (name, value, error) in [
            ("path", json!(5), "`path`: 5 is not a string"),
            (
                "path",
                json!("a"),
                "`path`: has 1 character; the least is 2",
            ),
            (
                "path",
                json!("abcde"),
                "`path`: has 5 characters; the most is 4",
            ),
            ("count", json!(1.5), "`count`: 1.5 is not an integer"),
            ("count", json!("3"), "`count`: \"3\" is not an integer"),
            ("count", json!(0), "`count`: 0 is too small; the least is 1"),
            (
                "count",
                json!(10),
                "`count`: 10 is too big; it must be less than 10",
            ),
            (
                "mode",
                json!("x"),
                "`mode`: \"x\" is not one of \"read\", \"write\", null",
            ),
            ("kind", json!("dir"), "`kind`: \"dir\" is not \"file\""),
            ("tags", json!({}), "`tags`: an object is not an array"),
            ("tags", json!([]), "`tags`: has 0 items; the least is 1"),
            (
                "tags",
                json!(["a", null]),
                "`tags[1]`: null is not a string",
            ),
            (
                "pair",
                json!(["a", "b"]),
                "`pair[1]`: \"b\" is not a number",
            ),
            (
                "pair",
                json!(["a", 1, 2]),
                "`pair[2]`: nothing is allowed here",
            ),
            ("old", json!(["a", 1]), "`old[1]`: 1 is not null"),
            (
                "maybe",
                json!([]),
                "`maybe`: an array is not a string or null",
            ),
            ("soft", json!(false), "`soft`: false is not a string"),
            (
                "at",
                json!({"x": 1}),
                "`at.y`: missing; it must be a number",
            ),
            (
                "at",
                json!({"x": 1, "y": ""}),
                "`at.y`: \"\" is not a number",
            ),
            (
                "either",
                json!(1.5),
                "`either`: 1.5 is not a string or an integer",
            ),
            (
                "odd key",
                json!(0),
                "`[\"odd key\"]`: 0 is not true or false",
            ),
            ("not_one", json!(1.0), "`not_one`: 1.0 is not allowed"),
            (
                "exactly",
                json!(1),
                "`exactly`: fits 2 of the forms of which it must fit exactly one",
            ),
            ("both", json!(6), "`both`: 6 is too big; the most is 5"),
            (
                "draft4",
                json!(3),
                "`draft4`: 3 is too small; it must be greater than 3",
            ),
            ("map", json!({"a": "b"}), "`map.a`: \"b\" is not an integer"),
        ] {
            assert_eq!(with(name, value), Err(vec![error.to_owned()]));
        }
        assert_eq!(
            check(&schema, &json!({})),
            Err(vec!["`path`: missing; it must be a string".to_owned()])
        );
        let unknown = with("paht", json!("x")).unwrap_err();
        assert!(unknown[0].starts_with("`paht`: unknown; there is only `at`, `both`, `count`"));
        assert_eq!(
            check(&schema, &json!([])),
            Err(vec!["the arguments: an array is not an object".to_owned()])
        );
    }

    #[test]
    fn of_several_forms_the_one_that_was_meant_explains() {
        let circle = json!({
            "type": "object",
            "properties": {"form": {"const": "circle"}, "radius": {"type": "number"}},
            "required": ["form", "radius"],
        });
        let square = json!({
            "type": "object",
            "properties": {"form": {"const": "square"}, "side": {"type": "number"}},
            "required": ["form", "side"],
        });
        let wrapped = |name: &str, inner: Value| {
            json!({
                "type": "object",
                "properties": {name: inner},
                "required": [name],
                "additionalProperties": false,
            })
        };
        for (schema, value, errors) in [
            (
                json!({"anyOf": [circle, {"type": "null"}]}),
                json!({"form": "circle"}),
                vec!["`radius`: missing; it must be a number"],
            ),
            (
                json!({"oneOf": [circle, square]}),
                json!({"form": "square", "side": "1"}),
                vec!["`side`: \"1\" is not a number"],
            ),
            (
                json!({"oneOf": [circle, square]}),
                json!({"form": "oval"}),
                vec![
                    "the arguments: it must be an object with `form` \"circle\", `radius` \
                     or an object with `form` \"square\", `side`",
                ],
            ),
            (
                json!({"anyOf": [wrapped("a", circle.clone()), wrapped("b", square.clone())]}),
                json!({"b": {"form": "square", "side": null}}),
                vec!["`b.side`: null is not a number"],
            ),
            (
                json!({"anyOf": [{"enum": ["a", "b"]}, {"type": "object"}]}),
                json!("c"),
                vec!["the arguments: \"c\" is not one of \"a\", \"b\""],
            ),
            (
                json!({"oneOf": [{"const": "a"}, {"const": "b"}]}),
                json!("c"),
                vec!["the arguments: \"c\" is not \"a\" or \"b\""],
            ),
        ] {
            assert_eq!(check(&schema, &value).unwrap_err(), errors);
        }
    }

    #[test]
    fn what_is_no_schema_allows_everything() {
        for schema in [
            json!(null),
            json!("string"),
            json!([1]),
            json!({"type": "strnig"}),
            json!({"type": ["string", 5]}),
            json!({"type": []}),
            json!({"required": "x", "properties": [], "minimum": "1", "enum": 5, "anyOf": []}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$ref": "https://example.org/schema"}),
            json!({"$ref": "#"}),
            json!({"additionalProperties": false, "patternProperties": {"^x": {}}}),
            json!({"frobnicate": true}),
        ] {
            for value in [json!({"x": 1}), json!(5), json!(null)] {
                assert_eq!(check(&schema, &value), Ok(()), "{schema} {value}");
            }
        }
    }

    #[test]
    fn errors_are_few_and_short_whatever_came() {
        let many: Vec<Value> = (0..100).map(Value::from).collect();
        let schema = json!({"items": {"type": "string"}});
        assert_eq!(check(&schema, &json!(many)).unwrap_err().len(), MAX_ERRORS);
        let long = "ü".repeat(100_000);
        let names: Map<String, Value> = (0..1000).map(|n| (format!("{n}"), json!({}))).collect();
        let schema = json!({
            "properties": names,
            "additionalProperties": false,
            "propertyNames": {"type": "string"},
        });
        for error in check(&schema, &json!({long.clone(): long})).unwrap_err() {
            assert!(error.len() < 1000, "{error}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_an_error_not_a_value() {
        let schema = Schema::compile(&Json::empty_object());
        let arguments = Json::parse(r#"{"a": "\ud83d"}"#).unwrap();
        let errors = schema.validate(&arguments).unwrap_err();
        assert!(errors[0].starts_with("the arguments cannot be decoded"));
    }

    #[test]
    fn work_ends_though_alternatives_multiply() {
        let schema = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]});
        assert_eq!(check(&schema, &json!(1)), Ok(()));
        let schema = json!({
            "$defs": {"a": {"oneOf": [
                {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]},
                {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]},
            ]}},
            "$ref": "#/$defs/a",
        });
        let mut value = json!(5);
        for _ in 0..100 {
            value = json!({ "x": value });
        }
        let _ = check(&schema, &value);
    }

    /// Any JSON, made of the words of schemas, so that it is often one.
    fn any_json() -> impl Strategy<Value = Value> {
        const WORDS: &[&str] = &[
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "prefixItems",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "enum",
            "const",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "nullable",
            "$ref",
            "#",
            "#/anyOf/0",
            "#/properties/type",
            "string",
            "integer",
            "number",
            "object",
            "array",
            "null",
            "boolean",
            "",
        ];
        let word = proptest::sample::select(WORDS).prop_map(str::to_owned);
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-3..4i64).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(word.clone(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// A schema, a value that fits it, and one that does not with the path where.
    fn case() -> impl Strategy<Value = (Value, Value, Value, String)> {
        let leaf = prop_oneof![
            (any::<i32>(), 0..50i64).prop_map(|(n, room)| {
                let (n, most) = (i64::from(n), i64::from(n) + room);
                let schema = json!({"type": "integer", "minimum": n - room, "maximum": most});
                (schema, json!(n), json!(most + 1), String::new())
            }),
            (any::<i32>(), any::<bool>()).prop_map(|(n, list)| {
                let kind = if list {
                    json!(["number", "null"])
                } else {
                    json!("number")
                };
                (json!({"type": kind}), json!(n), json!("x"), String::new())
            }),
            "[a-zü]{2,8}".prop_map(|text| {
                let length = text.chars().count();
                let schema = json!({"type": "string", "minLength": length, "maxLength": length});
                let longer = format!("{text}x");
                (schema, json!(text), json!(longer), String::new())
            }),
            any::<bool>().prop_map(|b| (json!({"const": b}), json!(b), json!(!b), String::new())),
            prop::collection::vec(0..9i32, 1..5).prop_map(|all| {
                (
                    json!({"enum": all}),
                    json!(all[0]),
                    json!(all[0] + 100),
                    String::new(),
                )
            }),
        ];
        leaf.prop_recursive(4, 20, 3, |inner| {
            prop_oneof![
                (
                    prop::collection::vec(inner.clone(), 1..4),
                    any::<prop::sample::Index>(),
                    0..3
                )
                    .prop_map(|(members, at, how)| {
                        let name = |index: usize| format!("m{index}");
                        let at = at.index(members.len());
                        let of = |f: fn(&(Value, Value, Value, String)) -> Value| {
                            let all = members.iter().enumerate();
                            all.map(|(i, m)| (name(i), f(m))).collect::<Map<_, _>>()
                        };
                        let schema = json!({
                            "type": "object",
                            "properties": of(|m| m.0.clone()),
                            "required": [name(at)],
                            "additionalProperties": false,
                        });
                        let good = of(|m| m.1.clone());
                        let mut bad = good.clone();
                        let path = match how {
                            0 => {
                                bad.remove(&name(at));
                                format!(".{}", name(at))
                            }
                            1 => {
                                bad.insert("other".to_owned(), json!(1));
                                ".other".to_owned()
                            }
                            _ => {
                                bad.insert(name(at), members[at].2.clone());
                                format!(".{}{}", name(at), members[at].3)
                            }
                        };
                        (schema, json!(good), json!(bad), path)
                    }),
                (inner.clone(), 0..3usize).prop_map(|((schema, good, bad, path), before)| {
                    let schema = json!({"type": "array", "items": schema, "maxItems": before + 1});
                    let mut items = vec![good.clone(); before];
                    let all_good = json!([items.clone(), vec![good]].concat());
                    items.push(bad);
                    (schema, all_good, json!(items), format!("[{before}]{path}"))
                }),
                // The same, said in a roundabout way.
                (inner, 0..5).prop_map(|((schema, good, bad, path), how)| {
                    let schema = match how {
                        0 => json!({"allOf": [true, schema]}),
                        1 => json!({"anyOf": [schema, {"type": "object", "required": ["never"]}]}),
                        2 => json!({"oneOf": [schema]}),
                        3 => json!({"not": {"not": schema}}),
                        _ => json!({"nullable": true, "anyOf": [false, schema]}),
                    };
                    // Alternatives may explain at their own place rather than at its depth.
                    let path = if how == 0 { path } else { String::new() };
                    (schema, good, bad, path)
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_panics_and_errors_stay_few(schema in any_json(), value in any_json()) {
            if let Err(errors) = check(&schema, &value) {
                prop_assert!((1..=MAX_ERRORS).contains(&errors.len()));
            }
        }

        #[test]
        fn what_fits_passes_and_what_does_not_is_named((schema, good, bad, path) in case()) {
            prop_assert_eq!(check(&schema, &good), Ok(()));
            let errors = check(&schema, &bad).unwrap_err();
            let path = path.strip_prefix('.').unwrap_or(&path);
            let named = errors.iter().any(|error| match path {
                "" => true,
                path => error.starts_with(&format!("`{path}")),
            });
            prop_assert!(named, "{path}: {errors:?}");
        }

        #[test]
        fn combinations_agree_with_logic(a in any_json(), b in any_json(), value in any_json()) {
            // References count from the root, which is another one inside a combination.
            let holds_reference = |schema: &Value| schema.to_string().contains("$ref");
            prop_assume!(!holds_reference(&a) && !holds_reference(&b));
            let (fits_a, fits_b) = (fits(&a, &value), fits(&b, &value));
            prop_assert_eq!(fits(&json!({"allOf": [a, b]}), &value), fits_a && fits_b);
            prop_assert_eq!(fits(&json!({"anyOf": [a, b]}), &value), fits_a || fits_b);
            prop_assert_eq!(fits(&json!({"oneOf": [a, b]}), &value), fits_a != fits_b);
            prop_assert_eq!(fits(&json!({"not": a}), &value), !fits_a);
            let referring = json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": a}});
            prop_assert_eq!(fits(&referring, &value), fits_a);
        }
    }
}
