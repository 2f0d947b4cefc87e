//! What must hold when runs are interrupted in unusual places. The crash simulator found each of
//! these.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    Agent, Answer, BoxFuture, Commit, Committed, Draft, Entry, Error, Event, Head, Lease,
    ListQuery, MemoryStore, Message, ModelError, ModelErrorKind, ModelEvent, Page, Repeat, Row,
    Session, StopReason, Store, StoreError, Wait, Writer, texts,
};

use crate::doubles::{Counts, Does, Plays, Say, agent, builder, calls, die_at, live};

async fn state(session: &Session) -> String {
    session.status().await.unwrap().head.state
}

fn started(name: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::ToolStarted { name: tool, .. } if tool == name)
}

/// The text of the results of a session, in order.
async fn results(session: &Session) -> Vec<String> {
    let history = session.history().await.unwrap();
    history
        .messages()
        .filter_map(|message| Some(message.as_tool()?.content.to_text()))
        .collect()
}

#[test]
fn a_handle_sees_what_others_did_since_its_last_run() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([calls(&["ask"])]));
        let ask = Counts::new("ask", Does::Defers(Wait::Question));
        let here = agent(&store, &model, &[&ask]).session("s");
        let there = agent(&store, &model, &[&ask]).session("s");
        assert!(matches!(here.run("go").await, Err(Error::Suspended(_))));
        there
            .answer("ask", Answer::Result("yes".into()))
            .await
            .unwrap();
        assert_eq!(here.resume().await.unwrap().text(), "done");
        there
            .writer()
            .await
            .unwrap()
            .append(Message::user("more"))
            .await
            .unwrap();
        assert_eq!(here.resume().await.unwrap().text(), "done");
    });
}

#[test]
fn the_summary_says_that_a_call_waits_while_others_run() {
    let (store, model) = (
        MemoryStore::new(),
        Plays::new([calls(&["guarded", "slow"])]),
    );
    let guarded = Counts::new("guarded", Does::Returns).asks();
    let slow = Counts::new("slow", Does::NeverEnds);
    let make = || agent(&store, &model, &[&guarded, &slow]);
    die_at(|| make().session("s").run("go"), started("slow"));
    assert_eq!(live(state(&make().session("s"))), "await_results");
}

#[test]
fn only_a_call_that_waits_for_leave_can_be_given_it() {
    let (store, model) = (MemoryStore::new(), Plays::new([calls(&["slow"])]));
    let slow = Counts::new("slow", Does::NeverEnds);
    let make = || agent(&store, &model, &[&slow]).session("s");
    die_at(|| make().run("go"), started("slow"));
    live(async {
        for answer in [Answer::Approve, Answer::Deny(String::new())] {
            let refused = make().answer("slow", answer).await;
            assert!(
                matches!(refused, Err(Error::NotWaiting { .. })),
                "{refused:?}"
            );
        }
        make().resume().await.unwrap();
        assert_eq!(slow.starts(), 1);
        assert_eq!(results(&make()).await, [texts::UNKNOWN_RESULT]);
    });
}

#[test]
fn a_call_whose_work_went_outside_is_not_said_not_to_have_run() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([calls(&["send"])]));
        let send = Counts::new("send", Does::Defers(Wait::External));
        let session = agent(&store, &model, &[&send]).session("s");
        assert!(session.run("go").await.is_err());
        session.run("never mind").await.unwrap();
        assert_eq!(results(&session).await, [texts::DEFERRED_RESULT]);
        // Its result is still told when it comes.
        session
            .answer("send", Answer::Result("sent".into()))
            .await
            .unwrap();
        session.resume().await.unwrap();
        let told = texts::late_result("send", "send", "sent", true);
        assert_eq!(model.last_request().last(), Some(&told));
    });
}

#[test]
fn a_fork_knows_what_started_after_the_place_it_was_made_at() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([calls(&["write"])]));
        let write = Counts::new("write", Does::Returns).repeat(Repeat::IfNotStarted);
        let session = agent(&store, &model, &[&write]).session("s");
        session.run("go").await.unwrap();
        let history = session.history().await.unwrap();
        let response = history.records().iter().find(|record| {
            let message = record.entry.as_message();
            message.is_some_and(|message| message.as_assistant().is_some())
        });
        let fork = session
            .fork(Some(response.unwrap().seq), "fork")
            .await
            .unwrap();
        // Nobody's process died: the run that was copied ended elsewhere.
        assert_eq!(fork.resume_point().await.unwrap().unwrap().cause, None);
        fork.resume().await.unwrap();
        assert_eq!(write.starts(), 1);
        assert_eq!(results(&fork).await, [texts::UNKNOWN_RESULT]);
    });
}

#[test]
fn a_repeat_that_is_cancelled_before_it_starts_leaves_the_outcome_unknown() {
    let (store, model) = (MemoryStore::new(), Plays::new([calls(&["first", "again"])]));
    let first = Counts::new("first", Does::NeverEnds).repeat(Repeat::Always);
    let again = Counts::new("again", Does::NeverEnds).repeat(Repeat::Always);
    let parallel = || agent(&store, &model, &[&first, &again]).session("s");
    die_at(|| parallel().run("go"), started("again"));
    let (first, again) = (first.serial(), again.serial());
    live(async {
        let session = agent(&store, &model, &[&first, &again]).session("s");
        let mut run = session.resume();
        while !started("first")(&run.next().await.unwrap()) {}
        run.cancel();
        assert!(matches!(run.await, Err(Error::Cancelled)));
        let told = results(&session).await;
        assert_eq!(told.last().unwrap(), texts::UNKNOWN_RESULT, "{told:?}");
    });
}

#[test]
fn leave_to_start_holds_when_a_repeatable_call_is_repeated() {
    let (store, model) = (MemoryStore::new(), Plays::new([calls(&["again"])]));
    let hangs = Counts::new("again", Does::NeverEnds)
        .repeat(Repeat::Always)
        .asks();
    let make = || agent(&store, &model, &[&hangs]).session("s");
    live(async {
        assert!(make().run("go").await.is_err());
        make().answer("again", Answer::Approve).await.unwrap();
    });
    die_at(|| make().resume(), started("again"));
    let works = Counts::new("again", Does::Returns)
        .repeat(Repeat::Always)
        .asks();
    live(async {
        let session = agent(&store, &model, &[&works]).session("s");
        session.resume().await.unwrap();
        assert_eq!(results(&session).await, ["the result"]);
    });
}

#[test]
fn a_call_that_may_have_run_does_not_wait_for_leave_to_run_again() {
    let (store, model) = (MemoryStore::new(), Plays::new([calls(&["again"])]));
    let free = Counts::new("again", Does::NeverEnds).repeat(Repeat::Always);
    die_at(
        || agent(&store, &model, &[&free]).session("s").run("go"),
        started("again"),
    );
    let asks = free.asks();
    live(async {
        let session = agent(&store, &model, &[&asks]).session("s");
        session.resume().await.unwrap();
        assert_eq!(results(&session).await, [texts::UNKNOWN_RESULT]);
    });
}

#[test]
fn a_draft_does_not_outlive_the_message_it_answered() {
    let text = |text: &str| Say::Event(ModelEvent::Text(text.to_owned()));
    let pause = Say::Wait(Duration::from_millis(300));
    let first = vec![
        text("a"),
        pause.clone(),
        text("b"),
        pause,
        text("c"),
        Say::Forever,
    ];
    let (store, model) = (MemoryStore::new(), Plays::new([first, vec![Say::Forever]]));
    let make = || agent(&store, &model, &[]).session("s");
    let draft = || live(async { make().resume_point().await.unwrap().unwrap().draft });
    let third = |event: &Event| matches!(event, Event::TextDelta { text } if text == "c");
    die_at(|| make().run("go"), third);
    assert!(draft().is_some_and(|draft| "abc".starts_with(&draft.text) && !draft.text.is_empty()));
    die_at(
        || make().run("something else"),
        |event| matches!(event, Event::ModelStarted { .. }),
    );
    assert_eq!(draft(), None);
}

#[test]
fn a_response_that_breaks_off_says_why_and_which_calls_it_asked_for() {
    live(async {
        let full = || ModelError::new(ModelErrorKind::ContextFull, "the window is full");
        let ask = ModelEvent::ToolCall {
            index: 0,
            id: "a".to_owned(),
            name: "write".to_owned(),
        };
        let cut = vec![Say::Event(ask), Say::Fail(Arc::new(full))];
        let (store, model) = (MemoryStore::new(), Plays::new([cut]));
        let reply = agent(&store, &model, &[])
            .session("s")
            .run("go")
            .await
            .unwrap();
        let stop = reply.stop().unwrap();
        assert_eq!(stop.reason, StopReason::ContextFull);
        assert_eq!(
            stop.detail.as_ref().unwrap().get(),
            r#"{"withheld_tool_calls":["write"]}"#
        );
    });
}

#[test]
fn an_answer_for_a_session_that_does_not_exist_makes_none() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([]));
        let session = agent(&store, &model, &[]).session("s");
        let refused = session.answer("a", Answer::Approve).await;
        assert!(matches!(
            refused,
            Err(Error::Store(StoreError::NotFound { .. }))
        ));
        assert!(store.head("s").await.unwrap().is_none());
    });
}

#[test]
fn a_run_without_a_message_to_answer_writes_nothing() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([]));
        let session = agent(&store, &model, &[]).session("s");
        let mut hidden = Message::user("not for the model");
        hidden.in_context = false;
        for messages in [
            vec![],
            vec![Message::system("a note"), hidden],
            vec![Message::user("go"), Message::assistant("gone")],
        ] {
            let refused = session.run_with(messages).await;
            assert!(matches!(refused, Err(Error::Setup(_))), "{refused:?}");
        }
        assert!(store.head("s").await.unwrap().is_none());
    });
}

/// A store in which some things go wrong.
#[derive(Clone)]
struct Faulty {
    inner: MemoryStore,
    /// Renewals fail.
    renewals: bool,
    /// Appends without a claim fail.
    appends: bool,
    /// What the holder of the lease appends is kept, and its answer lost.
    answers: bool,
    /// This row cannot be read.
    torn: Option<u64>,
}

impl Faulty {
    fn new(inner: &MemoryStore) -> Self {
        Self {
            inner: inner.clone(),
            renewals: false,
            appends: false,
            answers: false,
            torn: None,
        }
    }

    fn fails(&self, when: bool) -> Result<(), StoreError> {
        if when {
            return Err(StoreError::Io {
                store: "the store".to_owned(),
                action: "this",
                source: "as it should".into(),
            });
        }
        Ok(())
    }

    fn agent(&self, model: &Plays, tools: &[&Counts]) -> Agent {
        builder(model, tools).store(self.clone()).build().unwrap()
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl Store for Faulty {
    fn commit<'a>(&'a self, commit: Commit<'a>) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(async move {
            self.fails(self.appends && !commit.rows.is_empty())?;
            let holds = matches!(commit.writer, Writer::Lease(_));
            let committed = self.inner.commit(commit).await?;
            self.fails(self.answers && holds)?;
            Ok(committed)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.fails(self.renewals)?;
            self.inner.renew(lease).await
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.release(lease)
    }

    fn head<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Head>, StoreError>> {
        self.inner.head(session)
    }

    fn read<'a>(
        &'a self,
        session: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let mut rows = self.inner.read(session, page).await?;
            for row in &mut rows {
                if self.torn == Some(row.seq) {
                    row.body.truncate(9);
                }
            }
            Ok(rows)
        })
    }

    fn set_draft<'a>(
        &'a self,
        lease: &'a Lease,
        draft: &'a Draft,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.set_draft(lease, draft)
    }

    fn draft<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<Option<Draft>, StoreError>> {
        self.inner.draft(session)
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> BoxFuture<'a, Result<Vec<Head>, StoreError>> {
        self.inner.list(query)
    }

    fn delete<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete(session)
    }
}

#[test]
fn a_renewal_that_fails_once_ends_no_run() {
    live(async {
        let slow = vec![
            Say::Wait(Duration::from_secs(30)),
            Say::Event(ModelEvent::Done(Box::default())),
        ];
        let model = Plays::new([slow]);
        let store = Faulty {
            renewals: true,
            ..Faulty::new(&MemoryStore::new())
        };
        store
            .agent(&model, &[])
            .session("s")
            .run("go")
            .await
            .unwrap();
    });
}

#[test]
fn an_append_whose_answer_is_lost_counts_once() {
    live(async {
        let (inner, model) = (MemoryStore::new(), Plays::new([calls(&["write"])]));
        let write = Counts::new("write", Does::Returns);
        let store = Faulty {
            answers: true,
            ..Faulty::new(&inner)
        };
        let session = store.agent(&model, &[&write]).session("s");
        assert_eq!(session.run("go").await.unwrap().text(), "done");
        assert_eq!(results(&session).await, ["the result"]);
        assert!(!session.status().await.unwrap().head.is_busy());
    });
}

#[test]
fn no_tool_is_at_work_when_its_session_is_free() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([calls(&["write"])]));
        let write = Counts::new("write", Does::NeverEnds);
        let session = agent(&store, &model, &[&write]).session("s");
        let mut run = session.run("go");
        while !started("write")(&run.next().await.unwrap()) {}
        let _ = tokio::time::timeout(Duration::from_millis(1), run.next()).await;
        assert!(write.is_at_work());
        run.cancel();
        while let Some(event) = run.next().await {
            let over = matches!(event, Event::RunEnded { .. });
            assert!(!over || !write.is_at_work());
        }
        assert_eq!(write.starts(), 1);
    });
}

#[test]
fn a_writer_whose_append_failed_leaves_the_session_free() {
    live(async {
        let (inner, model) = (MemoryStore::new(), Plays::new([]));
        agent(&inner, &model, &[])
            .session("s")
            .run("go")
            .await
            .unwrap();
        let store = Faulty {
            appends: true,
            ..Faulty::new(&inner)
        };
        let session = store.agent(&model, &[]).session("s");
        let mut writer = session.writer().await.unwrap();
        let message = Message::user("more");
        assert!(writer.append(message).await.is_err());
        assert!(!session.status().await.unwrap().head.is_busy());
    });
}

#[test]
fn a_fork_keeps_the_numbers_that_records_call_each_other_by() {
    live(async {
        let (inner, model) = (MemoryStore::new(), Plays::new([calls(&["write"])]));
        let write = Counts::new("write", Does::Returns);
        agent(&inner, &model, &[&write])
            .session("s")
            .run("go")
            .await
            .unwrap();
        let store = Faulty {
            torn: Some(2),
            ..Faulty::new(&inner)
        };
        let fork = store
            .agent(&model, &[&write])
            .session("s")
            .fork(None, "fork")
            .await
            .unwrap();
        let whole = agent(&inner, &model, &[])
            .session("s")
            .history()
            .await
            .unwrap();
        let copy = agent(&inner, &model, &[])
            .session("fork")
            .history()
            .await
            .unwrap();
        for (record, copied) in whole.records().iter().zip(copy.records()) {
            let same = record.entry == copied.entry || record.seq == 2;
            assert!(same && record.seq == copied.seq, "{copied:?}");
        }
        assert!(matches!(
            copy.records().last().unwrap().entry,
            Entry::Forked(_)
        ));
        assert_eq!(fork.id(), "fork");
    });
}

#[test]
fn a_row_that_cannot_be_read_is_told_and_the_rest_goes_on() {
    live(async {
        let (inner, model) = (MemoryStore::new(), Plays::new([]));
        let session = agent(&inner, &model, &[]).session("s");
        session.run("go").await.unwrap();
        let store = Faulty {
            torn: Some(2),
            ..Faulty::new(&inner)
        };
        let mut told = Vec::new();
        let mut run = store.agent(&model, &[]).session("s").run("more");
        while let Some(event) = run.next().await {
            if let Event::SetAside { record, reason } = event {
                told.push((record, reason));
            }
        }
        assert_eq!(run.await.unwrap().text(), "done");
        assert!(
            matches!(told.as_slice(), [(2, reason)] if reason.contains("cannot be read")),
            "{told:?}"
        );
    });
}

#[test]
fn answers_that_come_at_the_same_moment_all_arrive() {
    live(async {
        let (store, model) = (MemoryStore::new(), Plays::new([calls(&["a", "b", "c"])]));
        let tools = ["a", "b", "c"].map(|name| Counts::new(name, Does::Defers(Wait::External)));
        let tools: Vec<_> = tools.iter().collect();
        let session = agent(&store, &model, &tools).session("s");
        assert!(matches!(session.run("go").await, Err(Error::Suspended(_))));
        let (a, b, c) = tokio::join!(
            session.answer("a", Answer::Result("1".into())),
            session.answer("b", Answer::Result("2".into())),
            session.answer("c", Answer::Result("3".into())),
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok(), "{a:?} {b:?} {c:?}");
        assert_eq!(session.resume().await.unwrap().text(), "done");
    });
}
