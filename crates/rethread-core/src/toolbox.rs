//! The tools of a run, by name.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::schema::Schema;
use crate::{Json, Tool, ToolCall, ToolSpec};

/// The tools of a run, by name. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Toolbox {
    specs: Arc<[ToolSpec]>,
    tools: Arc<HashMap<String, Entry>>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    schema: Schema,
}

impl Toolbox {
    /// Tools in the order they were added. The later of two with one name replaces the earlier.
    pub(crate) fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut order: Vec<Arc<dyn Tool>> = Vec::new();
        for tool in tools {
            order.retain(|other| other.spec().name != tool.spec().name);
            order.push(tool);
        }
        Self {
            specs: order.iter().map(|tool| tool.spec().clone()).collect(),
            tools: Arc::new(
                order
                    .into_iter()
                    .map(|tool| {
                        let schema = Schema::compile(&tool.spec().parameters);
                        (tool.spec().name.clone(), Entry { tool, schema })
                    })
                    .collect(),
            ),
        }
    }

    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| &entry.tool)
    }

    /// Whether a call may run at all; otherwise what to tell the model.
    pub(crate) fn check(
        &self,
        call: &ToolCall,
        arguments: &Json,
    ) -> Result<&Arc<dyn Tool>, String> {
        if let Some(undecoded) = &call.undecoded {
            let text = undecoded.text.as_ref().map(|text| text.to_str());
            return Err(crate::texts::undecoded_result(
                &undecoded.error,
                text.as_deref(),
            ));
        }
        let Some(entry) = self.tools.get(&call.name) else {
            let known: Vec<_> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            return Err(match known.is_empty() {
                true => format!("There is no tool `{}`; there are none.", call.name),
                false => format!(
                    "There is no tool `{}`; the tools are: {}.",
                    call.name,
                    known.join(", ")
                ),
            });
        };
        match entry.schema.validate(arguments) {
            Ok(()) => Ok(&entry.tool),
            Err(errors) => Err(format!(
                "`{}` did not run, its arguments do not fit: {}. Call it again with arguments that do.",
                call.name,
                errors.join("; ")
            )),
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.specs.iter().map(|spec| &spec.name))
            .finish()
    }
}
