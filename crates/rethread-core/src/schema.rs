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
pub struct Schema(Value);

impl Schema {
    /// Reads a schema. What is no schema allows everything.
    #[must_use]
    pub fn compile(schema: &Json) -> Self {
        Self(schema.decode().unwrap_or(Value::Bool(true)))
    }

    /// Checks the arguments of a call.
    ///
    /// Work and memory are bounded: what lies beyond counts as fitting.
    ///
    /// # Errors
    /// When they do not fit: at most eight sentences, each with the path of a value, what was found
    /// there and what is wanted, such as `` `path`: missing; it must be a string ``.
    pub fn validate(&self, arguments: &Json) -> Result<(), Vec<String>> {
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
