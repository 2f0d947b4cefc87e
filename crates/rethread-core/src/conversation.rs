//! A session as a run holds it: its end, and the conversation the model is sent.

use std::sync::Arc;

use crate::tail::{Tail, reaches_response};
use crate::{
    Emit, Entry, Head, History, Model, Origin, Page, Problem, Projection, Prompt, PromptOptions,
    Record, Store, StoreError, Timestamp,
};

/// A session as a run holds it. Kept between the runs of a handle, so that nothing is loaded or
/// encoded twice.
pub(crate) struct Conversation {
    store: Arc<dyn Store>,
    session: Arc<str>,
    last: u64,
    load_from: u64,
    titled: bool,
    /// The records since the last response, that included.
    end: Vec<Record>,
    prompt: Option<Loaded>,
    /// Rows that are no records, not told yet.
    unreadable: Vec<Problem>,
}

struct Loaded {
    prompt: Box<dyn Prompt>,
    projection: Projection,
    origin: Origin,
    setup: String,
}

/// How many rows are read from the end at first, and how many when loading.
const TAIL: usize = 8;
const PAGE: usize = 64;

impl Conversation {
    /// A session that does not exist yet.
    pub(crate) fn new(store: Arc<dyn Store>, session: Arc<str>) -> Self {
        Self {
            store,
            session,
            last: 0,
            load_from: 0,
            titled: false,
            end: Vec::new(),
            prompt: None,
            unreadable: Vec::new(),
        }
    }

    /// Reads the end of a session; `None` when there is no such session.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        session: Arc<str>,
    ) -> Result<Option<(Self, Head)>, StoreError> {
        let Some(head) = store.head(&session).await? else {
            return Ok(None);
        };
        let end = read_end(&*store, &session).await?;
        let conversation = Self {
            last: head.last,
            load_from: head.load_from,
            titled: head.title.is_some(),
            end: end.records().to_vec(),
            ..Self::new(store, session)
        };
        Ok(Some((conversation, head)))
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn is_titled(&self) -> bool {
        self.titled
    }

    /// The rows that could not be read since this was last asked.
    pub(crate) fn take_unreadable(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.unreadable)
    }

    pub(crate) fn tail(&self) -> Tail {
        Tail::of(&self.end)
    }

    /// Takes records that were committed.
    pub(crate) fn appended(&mut self, at: Timestamp, entries: Vec<Entry>) {
        for entry in entries {
            self.last += 1;
            let record = Record {
                seq: self.last,
                at,
                entry,
            };
            if let Some(Loaded {
                prompt, projection, ..
            }) = &mut self.prompt
            {
                let mut reset = false;
                projection.push(&record, &mut |emit| match emit {
                    Emit::Reset => reset = true,
                    Emit::Message(message) if !reset => prompt.push(message),
                    Emit::Message(_) => {}
                });
                if reset {
                    self.prompt = None; // begun anew from the summary when it is next needed
                    self.load_from = record.seq;
                }
            }
            if reaches_response(&record) {
                self.end.clear();
            }
            self.end.push(record);
        }
        self.titled = true;
    }

    /// Loads the conversation for a model and adds entries that are not committed: what a request
    /// would be.
    pub(crate) async fn preview(
        mut self,
        model: &dyn Model,
        options: &PromptOptions,
        setup: &str,
        entries: Vec<Entry>,
    ) -> Result<Box<dyn Prompt>, StoreError> {
        self.prompt = Some(self.load(model, options, setup).await?);
        self.appended(Timestamp::now(), entries);
        self.prompt(model, options, setup).await?;
        match self.prompt {
            Some(loaded) => Ok(loaded.prompt),
            None => Ok(model.prompt(options)),
        }
    }

    /// The conversation for a model, loaded if it is not at hand, and closed so that it can be sent.
    pub(crate) async fn prompt(
        &mut self,
        model: &dyn Model,
        options: &PromptOptions,
        setup: &str,
    ) -> Result<&mut dyn Prompt, StoreError> {
        let fits = |loaded: &Loaded| loaded.origin == *model.origin() && loaded.setup == setup;
        let loaded = match self.prompt.take().filter(fits) {
            Some(loaded) => loaded,
            None => self.load(model, options, setup).await?,
        };
        let Loaded {
            prompt, projection, ..
        } = self.prompt.insert(loaded);
        projection.flush(&mut |emit| {
            if let Emit::Message(message) = emit {
                prompt.push(message);
            }
        });
        Ok(&mut **prompt)
    }

    async fn load(
        &mut self,
        model: &dyn Model,
        options: &PromptOptions,
        setup: &str,
    ) -> Result<Loaded, StoreError> {
        let mut prompt = model.prompt(options);
        let mut projection = Projection::default();
        let mut after = self.load_from.saturating_sub(1);
        loop {
            let rows = self
                .store
                .read(
                    &self.session,
                    Page::After {
                        seq: after,
                        limit: PAGE,
                    },
                )
                .await?;
            let Some(end) = rows.last().map(|row| row.seq) else {
                break;
            };
            for row in rows {
                let record = match Record::decode(row.seq, &row.body) {
                    Ok(record) => record,
                    Err(error) => {
                        self.unreadable.push(Problem::unreadable(row.seq, &error));
                        continue;
                    }
                };
                projection.push(&record, &mut |emit| match emit {
                    Emit::Reset => prompt = model.prompt(options),
                    Emit::Message(message) => prompt.push(message),
                });
            }
            after = end;
            if after >= self.last {
                break;
            }
        }
        Ok(Loaded {
            prompt,
            projection,
            origin: model.origin().clone(),
            setup: setup.to_owned(),
        })
    }
}

/// Reads a session from its end back to the last response.
pub(crate) async fn read_end(store: &dyn Store, session: &str) -> Result<History, StoreError> {
    let mut history = History::default();
    let (mut limit, mut before) = (TAIL, u64::MAX);
    loop {
        let page = store
            .read(session, Page::Before { seq: before, limit })
            .await?;
        let Some(first) = page.last().map(|row| row.seq) else {
            break;
        };
        // Newest first, so nothing before the last response is decoded.
        let reached = page
            .iter()
            .any(|row| history.push_row(row).is_some_and(reaches_response));
        if reached || first <= 1 {
            break;
        }
        before = first;
        limit = limit.saturating_mul(4).min(4096);
    }
    history.reverse();
    Ok(history)
}
