//! Sessions by what a person types.

use rethread_core::{Head, ListQuery, Store};

use crate::failure::Failure;
use crate::store::Place;

/// The id of a session that is named by its id, by a beginning of it that no other has, or as the
/// one that changed last.
pub(crate) async fn find(
    store: &dyn Store,
    place: &Place,
    id: Option<&str>,
) -> Result<String, Failure> {
    let Some(id) = id else {
        let last = store
            .list(&ListQuery {
                prefix: None,
                limit: Some(1),
            })
            .await?;
        return last
            .into_iter()
            .next()
            .map(|head| head.session)
            .ok_or_else(|| Failure::usage(format!("there is no session in {}", place.name())));
    };
    if id.is_empty() {
        return Err(Failure::usage("a session id is empty"));
    }
    if let Some(head) = store.head(id).await? {
        return Ok(head.session);
    }
    let query = ListQuery {
        prefix: Some(id.to_owned()),
        limit: Some(4),
    };
    let mut found = store.list(&query).await?;
    match found.len() {
        0 => Err(Failure::usage(format!(
            "there is no session `{id}` in {}; `rethread ls` lists them",
            place.name()
        ))),
        1 => Ok(found.remove(0).session),
        _ => {
            let names: Vec<&str> = found
                .iter()
                .map(|head| head.session.as_str())
                .take(3)
                .collect();
            let more = if found.len() > 3 { ", …" } else { "" };
            Err(Failure::usage(format!(
                "`{id}` begins the ids of several sessions: {}{more}",
                names.join(", ")
            )))
        }
    }
}

/// How many characters of each id tell it from all others.
pub(crate) fn unique_lengths(heads: &[Head]) -> Vec<usize> {
    let mut sorted: Vec<&str> = heads.iter().map(|head| head.session.as_str()).collect();
    sorted.sort_unstable();
    let shared = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    heads
        .iter()
        .map(|head| {
            let id = head.session.as_str();
            let at = sorted.partition_point(|other| *other < id);
            let before = at.checked_sub(1).and_then(|at| sorted.get(at));
            let after = sorted.get(at + 1);
            let longest = [before, after]
                .into_iter()
                .flatten()
                .map(|other| shared(id, other))
                .max();
            (longest.map_or(1, |n| n + 1)).min(id.chars().count())
        })
        .collect()
}

/// An id no session of the store has: short, and different from the first character on.
pub(crate) async fn fresh_id(store: &dyn Store) -> Result<String, Failure> {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    loop {
        let mut random = uuid::Uuid::new_v4().as_u128();
        let mut id = String::with_capacity(8);
        while id.len() < 8 {
            let digit = usize::try_from(random % 32).unwrap_or_default();
            id.extend(ALPHABET.get(digit).map(|byte| char::from(*byte)));
            random /= 32;
        }
        if store.head(&id).await?.is_none() {
            return Ok(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::Timestamp;

    use super::*;

    fn head(session: &str) -> Head {
        Head {
            session: session.to_owned(),
            last: 1,
            load_from: 0,
            messages: 1,
            state: String::new(),
            title: None,
            created: Timestamp(0),
            updated: Timestamp(0),
            lease: None,
        }
    }

    proptest::proptest! {
        #[test]
        fn a_unique_beginning_is_unique_and_the_shortest(
            ids in proptest::collection::btree_set("[ab]{1,6}", 1..12),
        ) {
            let heads: Vec<Head> = ids.iter().rev().map(|id| head(id)).collect();
            let begun_by = |beginning: &str| ids.iter().filter(|id| id.starts_with(beginning)).count();
            for (head, length) in heads.iter().zip(unique_lengths(&heads)) {
                let id = head.session.as_str();
                // An id that others begin with is named by all of it.
                proptest::prop_assert!(begun_by(&id[..length]) == 1 || length == id.len());
                proptest::prop_assert!(length == 1 || begun_by(&id[..length - 1]) > 1);
            }
        }
    }
}
