//! Which result answers which call.

use std::collections::{HashMap, VecDeque};

/// A call of a response.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Its id as it came; empty when it has none.
    pub(crate) id: String,
    /// The tool.
    pub(crate) name: String,
}

/// What counts for pairing, in order.
#[derive(Debug)]
pub(crate) enum Event {
    /// A response asks for tools.
    Calls(Vec<Call>),
    /// A result, with the id and the tool's name it gives.
    Result(Call),
}

/// What a result turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The answer to a call.
    Answer { batch: usize, call: usize },
    /// A second result for a call.
    Extra,
    /// A result for no call before it.
    Foreign,
}

/// What belongs together.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// For each result what it is.
    pub(crate) results: Vec<Match>,
    /// For each response and each of its calls the result that answers it.
    pub(crate) answers: Vec<Vec<Option<usize>>>,
}

/// Pairs results with calls before them. The latest response that asks for a result of that id gets
/// it, and of several calls with one id the first that has none. A result without an id, or for a
/// call without one, goes by the tool's name, else by its place.
pub(crate) fn pair(events: &[Event]) -> Pairs {
    let mut pairs = Pairs::default();
    let mut open = Open::default();
    let mut latest: &[Call] = &[];
    for event in events {
        match event {
            Event::Calls(calls) => {
                let batch = pairs.answers.len();
                for (at, call) in calls.iter().enumerate() {
                    open.add(&call.id, batch, at);
                }
                pairs.answers.push(vec![None; calls.len()]);
                latest = calls;
            }
            Event::Result(result) => {
                let place = (!result.id.is_empty())
                    .then(|| open.take(&result.id))
                    .flatten()
                    .or_else(|| by_place(&pairs, latest, result));
                let number = pairs.results.len();
                let slot = place.and_then(|(batch, call)| {
                    let slot = pairs.answers.get_mut(batch)?.get_mut(call)?;
                    Some((slot, batch, call))
                });
                let found = match slot {
                    Some((slot, batch, call)) => {
                        *slot = Some(number);
                        if let Some(taken) = latest.get(call) {
                            open.close(&taken.id, batch, call);
                        }
                        Match::Answer { batch, call }
                    }
                    None if open.0.contains_key(result.id.as_str()) => Match::Extra,
                    None => Match::Foreign,
                };
                pairs.results.push(found);
            }
        }
    }
    pairs
}

/// Calls without a result by their ids: for each response that has some, their places. An id that was
/// ever asked for stays.
#[derive(Default)]
struct Open<'a>(HashMap<&'a str, Vec<(usize, VecDeque<usize>)>>);

impl<'a> Open<'a> {
    fn add(&mut self, id: &'a str, batch: usize, call: usize) {
        let batches = self.0.entry(id).or_default();
        match batches.last_mut() {
            Some((last, calls)) if *last == batch => calls.push_back(call),
            _ => batches.push((batch, VecDeque::from([call]))),
        }
    }

    /// Takes the first open call of the latest response that has one of that id.
    fn take(&mut self, id: &str) -> Option<(usize, usize)> {
        let batches = self.0.get_mut(id)?;
        let (batch, calls) = batches.last_mut()?;
        let found = calls.pop_front().map(|call| (*batch, call));
        if calls.is_empty() {
            batches.pop();
        }
        found
    }

    /// Takes that very call, which is one of the latest response.
    fn close(&mut self, id: &str, batch: usize, call: usize) {
        if let Some(batches) = self.0.get_mut(id)
            && let Some((last, calls)) = batches.last_mut()
            && *last == batch
        {
            calls.retain(|open| *open != call);
            if calls.is_empty() {
                batches.pop();
            }
        }
    }
}

/// The first open call of the latest response that has no id, or any when the result has none: of that
/// name, if there is one.
fn by_place(pairs: &Pairs, latest: &[Call], result: &Call) -> Option<(usize, usize)> {
    let batch = pairs.answers.len().checked_sub(1)?;
    let answers = pairs.answers.get(batch)?;
    let fits = |at: &usize| {
        let is_open = answers.get(*at).is_some_and(Option::is_none);
        let call = latest.get(*at);
        is_open && call.is_some_and(|call| result.id.is_empty() || call.id.is_empty())
    };
    let call = |at: &usize| latest.get(*at);
    let named = |at: &usize| call(at).is_some_and(|call| call.name == result.name);
    let bare = |at: &usize| call(at).is_some_and(|call| call.id.is_empty());
    let places = || (0..latest.len()).filter(fits);
    let by_name = || {
        places()
            .find(|at| bare(at) && named(at))
            .or_else(|| places().find(named))
    };
    // Without a name the place alone decides.
    let by_place = || places().find(bare).or_else(|| places().next());
    let found = match result.name.as_str() {
        "" => by_place(),
        _ => by_name(),
    };
    found.map(|call| (batch, call))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<Event> {
        let call = |word: &str| {
            let (id, name) = word.split_once(':').unwrap_or((word, "t"));
            Call {
                id: id.to_owned(),
                name: name.to_owned(),
            }
        };
        text.split(' ')
            .map(|word| match word.strip_prefix('=') {
                Some(word) => Event::Result(call(word)),
                None => Event::Calls(word.split(',').map(call).collect()),
            })
            .collect()
    }

    fn answers(text: &str) -> Vec<Vec<Option<usize>>> {
        pair(&events(text)).answers
    }

    #[test]
    fn the_first_result_wins_and_the_latest_response_is_asked_first() {
        assert_eq!(answers("a,b =b =a =a"), [[Some(1), Some(0)]]);
        assert_eq!(answers("a =a a =a"), [[Some(0)], [Some(1)]]);
        assert_eq!(answers("a a =a =a"), [[Some(1)], [Some(0)]]);
        assert_eq!(answers("a,a =a =a =a"), [[Some(0), Some(1)]]);
        let kinds = pair(&events("=a a =a =a =z")).results;
        let (batch, call) = (0, 0);
        let answer = Match::Answer { batch, call };
        assert_eq!(
            kinds,
            [Match::Foreign, answer, Match::Extra, Match::Foreign]
        );
    }

    #[test]
    fn without_ids_the_name_decides_and_then_the_place() {
        assert_eq!(answers(":x,:y =:y =:x"), [[Some(1), Some(0)]]);
        assert_eq!(answers(":x,:x =:x"), [[Some(0), None]]);
        assert_eq!(answers("a:x,b:y =: =:"), [[Some(0), Some(1)]]);
        assert_eq!(answers(":x =made:x"), [[Some(0)]]);
        assert_eq!(answers("a:x =:z"), [[None]]);
        assert_eq!(answers("a, =: =a"), [[Some(1), Some(0)]]);
    }
}
