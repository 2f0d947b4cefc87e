//! Agents: a model, instructions, tools and a store, put together once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::toolbox::Toolbox;
use crate::{
    Error, Extension, Json, Limits, ListQuery, MemoryStore, Model, PromptOptions, Session, Setup,
    Store, Tool, ToolSpec,
};

/// A model, instructions, tools and a store. Immutable and cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Toolbox,
    pub(crate) options: PromptOptions,
    pub(crate) setup: Setup,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) extensions: Vec<Arc<dyn Extension>>,
    pub(crate) limits: Limits,
    pub(crate) retries: u32,
    pub(crate) lease: Duration,
}

/// How many model calls one allowance grants by default.
const STEPS: u32 = 100;
/// How many paused responses are continued by default.
const PAUSES: u32 = 5;

impl Agent {
    /// Begins an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder {
            model: None,
            instructions: None,
            tools: Vec::new(),
            store: None,
            extensions: Vec::new(),
            limits: Limits {
                steps: STEPS,
                pauses: PAUSES,
                tokens: None,
            },
            retries: 5,
            lease: Duration::from_secs(60),
            max_output: None,
        }
    }

    /// A handle to a session. Nothing is read yet; a session that does not exist is made by its
    /// first run.
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> Session {
        Session::new(self.clone(), Arc::from(id.into()))
    }

    /// A handle to a session with a new id.
    #[must_use]
    pub fn new_session(&self) -> Session {
        self.session(uuid::Uuid::now_v7().to_string())
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Summary rows of the sessions in the store, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn sessions(&self) -> Result<Vec<crate::Head>, Error> {
        Ok(self.inner.store.list(&ListQuery::default()).await?)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("model", self.inner.model.origin())
            .field("tools", &self.inner.tools)
            .field("store", &self.inner.store)
            .finish_non_exhaustive()
    }
}

/// Puts an agent together.
#[must_use = "a builder does nothing until `build`"]
pub struct AgentBuilder {
    model: Option<Arc<dyn Model>>,
    instructions: Option<Arc<str>>,
    tools: Vec<Arc<dyn Tool>>,
    store: Option<Arc<dyn Store>>,
    extensions: Vec<Arc<dyn Extension>>,
    limits: Limits,
    retries: u32,
    lease: Duration,
    max_output: Option<u32>,
}

impl AgentBuilder {
    /// The model. Required.
    pub fn model(self, model: impl Model + 'static) -> Self {
        self.shared_model(Arc::new(model))
    }

    /// A model that is shared with others.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// The instructions, sent with every request.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(Arc::from(instructions.into()));
        self
    }

    /// Adds a tool. It replaces an earlier one of the same name.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tools([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Where sessions are kept. Without one they are kept in memory.
    pub fn store(self, store: impl Store + 'static) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// A store that is shared with others.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds an extension.
    pub fn extension(mut self, extension: impl Extension + 'static) -> Self {
        self.extensions.push(Arc::new(extension));
        self
    }

    /// How many model calls an allowance grants; 100 unless set.
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.limits.steps = steps;
        self
    }

    /// How many paused responses an allowance continues; 5 unless set.
    pub fn max_pauses(mut self, pauses: u32) -> Self {
        self.limits.pauses = pauses;
        self
    }

    /// How many tokens of requests and responses an allowance grants; unlimited unless set. A
    /// response under way is not cut.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.limits.tokens = Some(tokens);
        self
    }

    /// How many failed model calls a run retries, all in all; 5 unless set. Only a call that failed
    /// before its first output is retried.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The most tokens of one response; the model's default unless set.
    pub fn max_output(mut self, tokens: u32) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// How long a lease lasts when its holder is silent; a minute unless set. It is renewed while a
    /// run goes on.
    pub fn lease(mut self, ttl: Duration) -> Self {
        self.lease = ttl;
        self
    }

    /// Puts the agent together.
    ///
    /// # Errors
    /// When there is no model.
    pub fn build(self) -> Result<Agent, Error> {
        let model = self
            .model
            .ok_or_else(|| Error::Setup("an agent needs a model; call `.model(…)`".to_owned()))?;
        let brought = self
            .extensions
            .iter()
            .flat_map(|extension| extension.tools());
        let tools = Toolbox::new(self.tools.into_iter().chain(brought));
        let mut options = PromptOptions::new(self.instructions, tools.specs());
        options.max_output = self.max_output;
        let setup = setup(&options)?;
        Ok(Agent {
            inner: Arc::new(Inner {
                model,
                tools,
                options,
                setup,
                store: self.store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
                extensions: self.extensions,
                limits: self.limits,
                retries: self.retries,
                lease: self.lease,
            }),
        })
    }
}

/// The record of what requests carry besides messages.
fn setup(options: &PromptOptions) -> Result<Setup, Error> {
    #[derive(serde::Serialize)]
    struct Told<'a> {
        name: &'a str,
        description: &'a str,
        parameters: &'a Json,
    }
    let told = |tool: &ToolSpec| -> Result<Json, serde_json::Error> {
        Json::encode(&Told {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        })
    };
    let tools: Result<Vec<Json>, _> = options.tools.iter().map(told).collect();
    let tools = tools
        .and_then(|tools| Json::encode(&tools))
        .map_err(|error| Error::Setup(format!("the tools cannot be described: {error}")))?;
    let instructions = options.instructions.as_deref().map(Into::into);
    Ok(Setup::new(instructions, tools))
}
