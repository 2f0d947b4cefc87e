//! Tools whose effects are counted.

use std::panic::resume_unwind;
use std::sync::Arc;

use rethread_core::{
    BoxFuture, Content, Json, Permission, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, Wait,
};
use tokio::time::sleep;

use super::script::{Ends, Kind, Script, said};
use super::world::World;
use super::{Fault, check};

/// A tool as one process holds it.
struct SimTool {
    world: World,
    process: u32,
    kind: Kind,
    spec: ToolSpec,
}

/// The tools a script asks for, for one process.
pub(super) fn tools(world: &World, process: u32, script: &Script) -> Vec<Arc<dyn Tool>> {
    script
        .kinds()
        .map(|kind| {
            let mut spec = ToolSpec::new(kind.name, "", Json::empty_object()).repeat(kind.repeat);
            spec.parallel = kind.parallel;
            spec.timeout = kind.timeout;
            Arc::new(SimTool {
                world: world.clone(),
                process,
                kind: *kind,
                spec,
            }) as Arc<dyn Tool>
        })
        .collect()
}

impl Tool for SimTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn permission(&self, _: &Json) -> Permission {
        if self.kind.asks {
            Permission::Ask {
                prompt: format!("may {} start?", self.kind.name),
            }
        } else {
            Permission::Start
        }
    }

    fn call<'a>(
        &'a self,
        context: ToolContext,
        arguments: Json,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let (world, process) = (&self.world, self.process);
            world.point(process, "before a tool").await;
            let began =
                check::started(&mut world.lock(), process, &self.kind, &context, &arguments);
            if world.lock().fault == Some(Fault::StartsTwice) {
                check::started(&mut world.lock(), process, &self.kind, &context, &arguments);
            }
            world.point(process, "in a tool").await;
            context.progress("half-way");
            if !self.kind.delay.is_zero() {
                sleep(self.kind.delay).await;
            }
            world.alive().await;
            let output = match self.kind.ends {
                Ends::Result => Ok(said(self.kind.name, &arguments)),
                Ends::Error => Err(Some("refused as it should".to_owned())),
                Ends::Panic => Err(None),
                Ends::Deferred(Wait::Approval) if began.approved => {
                    Ok(said(self.kind.name, &arguments))
                }
                Ends::Deferred(wait) => {
                    check::ended(&mut world.lock(), began.effect, None);
                    world.point(process, "after a tool").await;
                    return Ok(ToolOutput::Deferred {
                        wait,
                        prompt: Some("what now?".to_owned()),
                    });
                }
            };
            let text = match &output {
                Ok(text) | Err(Some(text)) => Some(text.clone()),
                Err(None) => None,
            };
            check::ended(&mut world.lock(), began.effect, text);
            world.point(process, "after a tool").await;
            match output {
                Ok(text) => Ok(Content::from(text).into()),
                Err(Some(text)) => Err(ToolError::new(text)),
                // Unlike a panic of its own making, one that goes on prints nothing.
                Err(None) => resume_unwind(Box::new("the tool breaks down")),
            }
        })
    }
}
