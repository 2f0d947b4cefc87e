//! A run under way: a future of the reply and a stream of events.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio_util::sync::CancellationToken;

use crate::agent::Inner;
use crate::driver;
use crate::machine::Start;
use crate::{Error, Event, Model, Reply, Session};

/// A run. Await it for the reply, or take its events with [`next`](Run::next) first and await it
/// then. Nothing happens before it is polled.
///
/// Dropping a run that has begun cancels it: what finished is stored, what did not is marked, and
/// the session is free.
#[must_use = "a run does nothing until it is awaited or its events are taken"]
pub struct Run {
    stage: Stage,
    shared: Arc<Shared>,
}

enum Stage {
    Planned(Box<Plan>),
    Going(Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>),
    Done(Option<Box<Result<Reply, Error>>>),
}

/// What a run is to do.
pub(crate) struct Plan {
    pub(crate) session: Session,
    pub(crate) agent: Arc<Inner>,
    pub(crate) start: Start,
    pub(crate) grant: bool,
    pub(crate) override_stop: bool,
    pub(crate) take_over: bool,
    pub(crate) watchers: Vec<Watcher>,
}

pub(crate) type Watcher = Box<dyn Fn(&Event) + Send + Sync>;

/// What a run and its driver share.
pub(crate) struct Shared {
    pub(crate) cancel: CancellationToken,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// Whether someone takes the events; otherwise they are dropped.
    taken: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an event to whoever takes them, and waits until it has it: a run never gets ahead of
    /// what its reader has seen.
    pub(crate) async fn tell(&self, event: Event) {
        {
            let mut queue = self.queue();
            if !queue.taken {
                return;
            }
            queue.events.push_back(event);
        }
        poll_fn(|_| {
            let queue = self.queue();
            if queue.taken && !queue.events.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

impl Run {
    pub(crate) fn new(session: Session, start: Start) -> Self {
        let agent = Arc::clone(&session.agent.inner);
        Self {
            stage: Stage::Planned(Box::new(Plan {
                session,
                agent,
                start,
                grant: true,
                override_stop: false,
                take_over: false,
                watchers: Vec::new(),
            })),
            shared: Arc::new(Shared {
                cancel: CancellationToken::new(),
                queue: Mutex::default(),
            }),
        }
    }

    fn plan(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        if let Stage::Planned(plan) = &mut self.stage {
            change(plan);
        }
        self
    }

    /// Calls another model in this run.
    pub fn model(self, model: Arc<dyn Model>) -> Self {
        self.plan(|plan| Arc::make_mut(&mut plan.agent).model = model)
    }

    /// Cancels the run when the token is.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        if let Stage::Planned(_) = self.stage {
            self.shared = Arc::new(Shared {
                cancel: token.child_token(),
                queue: Mutex::default(),
            });
        }
        self
    }

    /// Uses what the last allowance left instead of granting a new one. For workers: only a person's
    /// or a host's explicit resume should grant more.
    pub fn without_grant(self) -> Self {
        self.plan(|plan| plan.grant = false)
    }

    /// Resumes although the last response was refused, ran into a full context or stopped for an
    /// unknown reason: another model may do better.
    pub fn override_stop(self) -> Self {
        self.plan(|plan| plan.override_stop = true)
    }

    /// Takes the session over from a live writer, which is fenced out.
    pub fn take_over(self) -> Self {
        self.plan(|plan| plan.take_over = true)
    }

    /// Calls `watch` for every event, in order. It should return quickly: the run waits.
    pub fn watch(self, watch: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.plan(|plan| plan.watchers.push(Box::new(watch)))
    }

    /// The next event; `None` when the run is over. Then await the run for its reply.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Ends the run when it can be ended well: what finished is stored, what did not is marked.
    pub fn cancel(&self) {
        self.shared.cancel.cancel();
    }

    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Stage::Planned(_) = self.stage
            && let Stage::Planned(plan) = std::mem::replace(&mut self.stage, Stage::Done(None))
        {
            self.stage = Stage::Going(Box::pin(driver::drive(*plan, Arc::clone(&self.shared))));
        }
        if let Stage::Going(future) = &mut self.stage {
            let Poll::Ready(result) = future.as_mut().poll(cx) else {
                return Poll::Pending;
            };
            self.stage = Stage::Done(Some(Box::new(result)));
        }
        Poll::Ready(())
    }
}

impl Future for Run {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut queue = self.shared.queue();
            queue.taken = false;
            queue.events.clear();
        }
        if self.drive(cx).is_pending() {
            return Poll::Pending;
        }
        match &mut self.stage {
            Stage::Done(result) => Poll::Ready(match result.take() {
                Some(result) => *result,
                None => Err(Error::Setup("the run's reply was taken before".to_owned())),
            }),
            _ => Poll::Pending,
        }
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            {
                let mut queue = self.shared.queue();
                queue.taken = true;
                if let Some(event) = queue.events.pop_front() {
                    return Poll::Ready(Some(event));
                }
            }
            if let Stage::Done(_) = self.stage {
                return Poll::Ready(None);
            }
            let going = self.drive(cx).is_pending();
            if going && self.shared.queue().events.is_empty() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Stage::Going(future) = std::mem::replace(&mut self.stage, Stage::Done(None)) else {
            return;
        };
        self.shared.cancel.cancel();
        {
            let mut queue = self.shared.queue();
            queue.taken = false;
            queue.events.clear();
        }
        // The driver sees the cancellation, stores what there is and frees the session. Without a
        // runtime to do it in, the session is free as soon as the lease's owner is gone.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(future);
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Planned(_) => "planned",
            Stage::Going(_) => "going",
            Stage::Done(_) => "done",
        };
        f.debug_struct("Run")
            .field("stage", &stage)
            .finish_non_exhaustive()
    }
}
