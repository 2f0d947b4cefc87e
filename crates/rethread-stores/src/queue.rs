//! Writes of many tasks, done together by whichever of them comes first.
//!
//! A durable write costs mostly the wait for the disk, so tasks that write at the same time should
//! share one. There is no writer thread: a task that finds nobody writing becomes the leader, does
//! its own job, and then, together, the jobs that came meanwhile. A store used by one task thus
//! writes within the first poll, and needs no runtime.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// At most so many jobs are done together.
const BATCH: usize = 256;

/// After so many batches a leader lets another task lead, so that its own goes on.
const ROUNDS: usize = 8;

/// What does the jobs.
pub(crate) trait Engine {
    type Job;
    type Output;

    /// Does jobs together; one output for each, in order. Called by one leader at a time.
    fn run(&self, jobs: Vec<Self::Job>) -> Vec<Self::Output>;

    /// What has to be done when nobody is there any more to take an output.
    fn undelivered(&self, output: Self::Output) -> Option<Self::Job>;

    /// The output of a job whose leader panicked.
    fn lost(&self) -> Self::Output;
}

pub(crate) struct Queue<E: Engine> {
    engine: E,
    waiting: Mutex<Waiting<E>>,
}

struct Waiting<E: Engine> {
    /// Whether a task leads. Whoever sets this must see to it that the queue is emptied, or that
    /// another task leads.
    led: bool,
    jobs: VecDeque<(E::Job, Option<Reply<E>>)>,
}

type Reply<E> = oneshot::Sender<Turn<E>>;

enum Turn<E: Engine> {
    Done(E::Output),
    /// The task has to lead now; here is its job back.
    Lead(E::Job),
}

impl<E: Engine> Queue<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self {
            engine,
            waiting: Mutex::new(Waiting {
                led: false,
                jobs: VecDeque::new(),
            }),
        }
    }

    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    /// Does a job, at the latest when the future is awaited. A future that is dropped before it
    /// is done leaves its job done or not done.
    ///
    /// With `linger` a leader first lets other tasks that are ready hand in their jobs.
    pub(crate) fn submit(&self, job: E::Job, linger: bool) -> Submission<'_, E> {
        Submission {
            queue: self,
            linger,
            state: State::New(job),
        }
    }

    /// Does a job that nobody waits for.
    fn submit_detached(&self, job: E::Job) {
        let mut waiting = self.lock();
        waiting.jobs.push_back((job, None));
        if !std::mem::replace(&mut waiting.led, true) {
            drop(waiting);
            self.hand_over();
        }
    }

    /// Does a job and those that wait. The caller leads; afterwards it does not.
    fn lead(&self, own: E::Job) -> E::Output {
        let abandon = Abandon(self);
        let (mut jobs, mut replies) = (vec![own], Vec::new());
        self.take(&mut jobs, &mut replies);
        let mut outputs = self.engine.run(jobs).into_iter();
        let own = outputs.next();
        self.deliver(outputs, replies);
        for _ in 1..ROUNDS {
            let (mut jobs, mut replies) = (Vec::new(), Vec::new());
            self.take(&mut jobs, &mut replies);
            if jobs.is_empty() {
                break;
            }
            self.deliver(self.engine.run(jobs).into_iter(), replies);
        }
        self.hand_over();
        std::mem::forget(abandon);
        own.unwrap_or_else(|| self.engine.lost())
    }

    /// Takes jobs that wait, without those that were given up.
    fn take(&self, jobs: &mut Vec<E::Job>, replies: &mut Vec<Option<Reply<E>>>) {
        let mut waiting = self.lock();
        while jobs.len() < BATCH
            && let Some((job, reply)) = waiting.jobs.pop_front()
        {
            if reply.as_ref().is_none_or(|reply| !reply.is_closed()) {
                jobs.push(job);
                replies.push(reply);
            }
        }
    }

    fn deliver(&self, outputs: impl Iterator<Item = E::Output>, replies: Vec<Option<Reply<E>>>) {
        for (output, reply) in outputs.zip(replies) {
            if let Some(reply) = reply
                && let Err(Turn::Done(output)) = reply.send(Turn::Done(output))
                && let Some(job) = self.engine.undelivered(output)
            {
                self.lock().jobs.push_back((job, None));
            }
        }
    }

    /// Stops leading: another task leads, or nothing waits.
    fn hand_over(&self) {
        loop {
            let mut waiting = self.lock();
            let next = waiting.jobs.iter().position(|(_, reply)| reply.is_some());
            let next = match next.and_then(|at| waiting.jobs.remove(at)) {
                Some((job, Some(reply))) => Ok((job, reply)),
                _ if waiting.jobs.is_empty() => {
                    waiting.led = false;
                    return;
                }
                _ => Err(waiting.jobs.drain(..).map(|(job, _)| job).collect()),
            };
            drop(waiting);
            match next {
                Ok((job, reply)) => {
                    // A task that is gone cannot lead, and its job is given up.
                    if reply.send(Turn::Lead(job)).is_ok() {
                        return;
                    }
                }
                Err(detached) => drop(self.engine.run(detached)),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<E>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the queue go on after a leader that panicked.
struct Abandon<'a, E: Engine>(&'a Queue<E>);

impl<E: Engine> Drop for Abandon<'_, E> {
    fn drop(&mut self) {
        let jobs = {
            let mut waiting = self.0.lock();
            waiting.led = false;
            std::mem::take(&mut waiting.jobs)
        };
        // Dropping the replies tells the tasks.
        drop(jobs);
    }
}

/// A job on its way.
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Submission<'a, E: Engine> {
    queue: &'a Queue<E>,
    linger: bool,
    state: State<E>,
}

enum State<E: Engine> {
    New(E::Job),
    /// This task leads and has not begun.
    Leading(E::Job),
    Waiting(oneshot::Receiver<Turn<E>>),
    Over,
}

impl<E: Engine> Unpin for Submission<'_, E> {}

impl<E: Engine> Future for Submission<'_, E> {
    type Output = E::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<E::Output> {
        let this = self.get_mut();
        loop {
            match std::mem::replace(&mut this.state, State::Over) {
                State::New(job) => {
                    let mut waiting = this.queue.lock();
                    if std::mem::replace(&mut waiting.led, true) {
                        let (reply, turn) = oneshot::channel();
                        waiting.jobs.push_back((job, Some(reply)));
                        this.state = State::Waiting(turn);
                    } else {
                        this.state = State::Leading(job);
                        if this.linger {
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
                State::Leading(job) => return Poll::Ready(this.queue.lead(job)),
                State::Waiting(mut turn) => match Pin::new(&mut turn).poll(cx) {
                    Poll::Pending => {
                        this.state = State::Waiting(turn);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(Turn::Done(output))) => return Poll::Ready(output),
                    Poll::Ready(Ok(Turn::Lead(job))) => this.state = State::Leading(job),
                    Poll::Ready(Err(_)) => return Poll::Ready(this.queue.engine.lost()),
                },
                State::Over => return Poll::Pending,
            }
        }
    }
}

impl<E: Engine> Drop for Submission<'_, E> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New(_) | State::Over => {}
            State::Leading(_) => self.queue.hand_over(),
            State::Waiting(mut turn) => {
                turn.close();
                match turn.try_recv() {
                    Ok(Turn::Lead(_)) => self.queue.hand_over(),
                    Ok(Turn::Done(output)) => {
                        if let Some(job) = self.queue.engine.undelivered(output) {
                            self.queue.submit_detached(job);
                        }
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use proptest::prelude::*;

    use super::*;

    /// Notes what was done. A job of zero panics.
    #[derive(Default)]
    struct Notes {
        done: Mutex<Vec<u32>>,
        undone: Mutex<Vec<u32>>,
        batches: AtomicUsize,
        running: AtomicBool,
    }

    enum Note {
        Do(u32),
        Undo(u32),
    }

    impl Engine for Notes {
        type Job = Note;
        type Output = Option<u32>;

        fn run(&self, jobs: Vec<Note>) -> Vec<Option<u32>> {
            assert!(!self.running.swap(true, Ordering::SeqCst), "two leaders");
            assert!(!jobs.is_empty() && jobs.len() <= BATCH);
            self.batches.fetch_add(1, Ordering::SeqCst);
            let outputs = jobs.into_iter().map(|job| match job {
                Note::Do(number) => {
                    self.done.lock().unwrap().push(number);
                    self.running.store(number != 0, Ordering::SeqCst);
                    assert_ne!(number, 0, "as the test wants it");
                    Some(number)
                }
                Note::Undo(number) => {
                    self.undone.lock().unwrap().push(number);
                    None
                }
            });
            let outputs = outputs.collect();
            self.running.store(false, Ordering::SeqCst);
            outputs
        }

        fn undelivered(&self, output: Option<u32>) -> Option<Note> {
            output.map(Note::Undo)
        }

        fn lost(&self) -> Option<u32> {
            None
        }
    }

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// A task that is polled only when it was woken.
    struct Task<'a> {
        number: u32,
        woken: Arc<Flag>,
        future: Option<Submission<'a, Notes>>,
    }

    impl<'a> Task<'a> {
        fn new(queue: &'a Queue<Notes>, number: u32, linger: bool) -> Self {
            Self {
                number,
                woken: Arc::new(Flag(AtomicBool::new(true))),
                future: Some(queue.submit(Note::Do(number), linger)),
            }
        }

        /// Whether there was anything to do.
        fn poll(&mut self) -> bool {
            if !self.woken.0.swap(false, Ordering::SeqCst) {
                return false;
            }
            let waker = Waker::from(self.woken.clone());
            let Some(future) = &mut self.future else {
                return false;
            };
            if let Poll::Ready(output) = Pin::new(future).poll(&mut Context::from_waker(&waker)) {
                assert_eq!(output, Some(self.number));
                self.future = None;
            }
            true
        }
    }

    #[test]
    fn an_uncontended_job_is_done_when_it_is_first_polled() {
        let queue = Queue::new(Notes::default());
        for number in 1..=3 {
            let mut task = Task::new(&queue, number, false);
            task.poll();
            assert!(task.future.is_none());
        }
        assert_eq!(*queue.engine().done.lock().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn jobs_of_lingering_tasks_are_done_together() {
        let queue = Queue::new(Notes::default());
        let mut tasks: Vec<_> = (1..=BATCH as u32)
            .map(|n| Task::new(&queue, n, true))
            .collect();
        while tasks
            .iter_mut()
            .filter_map(|task| task.poll().then_some(()))
            .count()
            > 0
        {}
        assert!(tasks.iter().all(|task| task.future.is_none()));
        assert_eq!(queue.engine().batches.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_leader_that_panics_takes_nobody_with_it() {
        let queue = Queue::new(Notes::default());
        let mut leader = Task::new(&queue, 0, true);
        let mut other = queue.submit(Note::Do(1), false);
        leader.poll();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut other).poll(&mut context).is_pending());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| leader.poll()));
        assert!(panicked.is_err());
        assert_eq!(Pin::new(&mut other).poll(&mut context), Poll::Ready(None));
        let mut next = Task::new(&queue, 2, false);
        next.poll();
        assert!(next.future.is_none());
    }

    proptest! {
        /// Tasks come, are polled and are dropped in any order; whoever stays is served, and every
        /// job is done once, or not at all if its task was dropped.
        #[test]
        fn nobody_who_waits_is_forgotten(
            steps in proptest::collection::vec((0..10_u8, any::<prop::sample::Index>(), any::<bool>()), 1..200)
        ) {
            let queue = Queue::new(Notes::default());
            let mut tasks: Vec<Task<'_>> = Vec::new();
            let mut kept = Vec::new();
            let mut count = 0;
            for (what, which, linger) in steps {
                match what {
                    0..=3 => {
                        count += 1;
                        kept.push(count);
                        tasks.push(Task::new(&queue, count, linger));
                    }
                    4..=7 if !tasks.is_empty() => {
                        let at = which.index(tasks.len());
                        tasks[at].poll();
                    }
                    8..=9 if !tasks.is_empty() => {
                        let task = tasks.swap_remove(which.index(tasks.len()));
                        if task.future.is_some() {
                            kept.retain(|number| *number != task.number);
                        }
                    }
                    _ => {}
                }
            }
            while tasks.iter_mut().filter_map(|task| task.poll().then_some(())).count() > 0 {}
            prop_assert!(tasks.iter().all(|task| task.future.is_none()), "a task waits for ever");
            let mut done = queue.engine().done.lock().unwrap().clone();
            let undone = queue.engine().undone.lock().unwrap().clone();
            done.retain(|number| !undone.contains(number));
            done.sort_unstable();
            kept.sort_unstable();
            let dropped: Vec<_> = done.iter().filter(|number| !kept.contains(number)).collect();
            prop_assert!(dropped.is_empty(), "done for nobody and not undone: {dropped:?}");
            prop_assert_eq!(done, kept);
            prop_assert!(!queue.lock().led);
        }
    }

    #[test]
    fn tasks_on_many_threads_are_all_served() {
        let queue = Arc::new(Queue::new(Notes::default()));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .build()
            .unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (1..=64)
                .map(|task| {
                    let queue = queue.clone();
                    tokio::spawn(async move {
                        for n in 0..200 {
                            let number = task * 1000 + n;
                            let job = queue.submit(Note::Do(number), n % 3 == 0);
                            if n % 7 == 0 {
                                // Given up after a moment, or not.
                                tokio::select! { biased; _ = job => {}, () = tokio::task::yield_now() => {} }
                            } else {
                                assert_eq!(job.await, Some(number));
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let mut done = queue.engine().done.lock().unwrap().clone();
        let count = done.len();
        done.sort_unstable();
        done.dedup();
        assert_eq!(done.len(), count, "a job was done twice");
        assert!(!queue.lock().led);
    }
}
