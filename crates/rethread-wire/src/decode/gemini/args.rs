//! Arguments that stream: `partialArgs` entries, each with a JSON path and a value or a piece of one.

use crate::decode::raw::{Joined, Members, Object, literal};

/// The most elements an array may be filled up with, and the deepest a path may go. A path is the
/// server's to choose, the memory it takes is not.
const LONGEST: usize = 10_000;
const DEEPEST: usize = 100;

/// Arguments put together from their pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    root: Node,
    /// The string that goes on in the next piece.
    open: Option<String>,
    /// An entry could not be placed, so the arguments are not all there.
    lost: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(Joined),
    Raw(String),
}

impl Default for Node {
    fn default() -> Self {
        Self::Object(Vec::new())
    }
}

enum Step {
    Key(String),
    Index(usize),
}

impl Arguments {
    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &Members<'_>) {
        let path = entry.string("jsonPath").unwrap_or_default();
        let continues = self.open.take().is_some_and(|open| open == path);
        if entry
            .get("willContinue")
            .is_some_and(|raw| raw.get() == "true")
        {
            self.open = Some(path.clone());
        }
        let Some(node) = steps(&path).and_then(|steps| self.root.at(steps)) else {
            self.lost = true;
            return;
        };
        if let Some(piece) = entry.get("stringValue").and_then(literal) {
            match node {
                Node::Text(joined) if continues => {
                    joined.push(piece);
                }
                other => {
                    let mut joined = Joined::default();
                    joined.push(piece);
                    *other = Node::Text(joined);
                }
            }
            return;
        }
        let value = ["numberValue", "boolValue"]
            .iter()
            .find_map(|key| entry.get(key));
        if let Some(value) = value {
            *node = Node::Raw(value.get().to_owned());
        } else if entry.iter().any(|(key, _)| key == "nullValue") {
            *node = Node::Raw("null".to_owned());
        }
    }

    /// The JSON text; nothing that decodes when an entry could not be placed.
    pub(super) fn json(&self) -> String {
        let mut json = self.root.json();
        if self.lost {
            json.pop();
        }
        json
    }
}

impl Node {
    /// The node at a path, made if it is not there.
    fn at(&mut self, steps: Vec<Step>) -> Option<&mut Node> {
        let mut node = self;
        for step in steps {
            node = match step {
                Step::Key(key) => node.member(key)?,
                Step::Index(index) => node.element(index)?,
            };
        }
        Some(node)
    }

    fn member(&mut self, key: String) -> Option<&mut Node> {
        if !matches!(self, Self::Object(_)) {
            *self = Self::default();
        }
        let Self::Object(members) = self else {
            return None;
        };
        let at = match members.iter().position(|(name, _)| *name == key) {
            Some(at) => at,
            None => {
                members.push((key, Self::Raw("null".to_owned())));
                members.len() - 1
            }
        };
        members.get_mut(at).map(|(_, node)| node)
    }

    fn element(&mut self, index: usize) -> Option<&mut Node> {
        if index >= LONGEST {
            return None;
        }
        if !matches!(self, Self::Array(_)) {
            *self = Self::Array(Vec::new());
        }
        let Self::Array(elements) = self else {
            return None;
        };
        while elements.len() <= index {
            elements.push(Self::Raw("null".to_owned()));
        }
        elements.get_mut(index)
    }

    fn json(&self) -> String {
        match self {
            Self::Raw(raw) => raw.clone(),
            Self::Text(joined) => joined.literal(),
            Self::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(Self::json).collect();
                format!("[{}]", elements.join(","))
            }
            Self::Object(members) => {
                let mut object = Object::new();
                for (key, node) in members {
                    object.raw(key, &node.json());
                }
                object.end()
            }
        }
    }
}

/// Reads a path: `$.a.b[0]['c']`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == DEEPEST {
            return None;
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'));
            if let Some(quote) = quote {
                let end = inside.get(1..)?.find(&format!("{quote}]"))?;
                steps.push(Step::Key(inside.get(1..=end)?.to_owned()));
                rest = inside.get(end + 3..)?;
            } else {
                let (index, after) = inside.split_once(']')?;
                steps.push(Step::Index(index.parse().ok()?));
                rest = after;
            }
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (key, after) = rest.split_at_checked(end)?;
            if key.is_empty() {
                return None;
            }
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(entries: &[&str]) -> String {
        let mut arguments = Arguments::default();
        for entry in entries {
            arguments.add(&Members::read(entry));
        }
        arguments.json()
    }

    #[test]
    fn pieces_find_their_place() {
        let json = built(&[
            r#"{"jsonPath":"$.city","stringValue":"Par","willContinue":true}"#,
            r#"{"jsonPath":"$.city","stringValue":"is\n"}"#,
            r#"{"jsonPath":"$.at[1].n","numberValue":1e2}"#,
            r#"{"jsonPath":"$.at[0]","nullValue":null}"#,
            r#"{"jsonPath":"$['odd.key'][\"k\"]","boolValue":true}"#,
            r#"{"jsonPath":"$['odd.key'][\"k\"]","boolValue":false}"#,
            r#"{"jsonPath":"$['odd.key'].m","stringValue":""}"#,
        ]);
        assert_eq!(
            json,
            r#"{"city":"Paris\n","at":[null,{"n":1e2}],"odd.key":{"k":false,"m":""}}"#
        );
    }

    #[test]
    fn what_has_no_place_makes_the_arguments_undecodable() {
        for path in ["$..a", "$.a[x]", "$.a[99999999]", "$['a"] {
            let json = built(&[&format!(r#"{{"jsonPath":"{path}","boolValue":true}}"#)]);
            assert!(
                !rethread_core::ToolCall::from_text("", "", &json).is_decoded(),
                "{path}"
            );
        }
        assert_eq!(built(&[]), "{}");
    }
}
