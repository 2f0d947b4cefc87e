//! The leases that this process holds.
//!
//! A lease is over when nobody owns it any more, even if its run was dropped without giving it
//! back. Other processes learn that only when its time runs out; this one knows at once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rethread_core::Lease;

/// Leases in one place where sessions are kept, shared by all handles of this process to it.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// More than one for a session only around a takeover.
    by_session: HashMap<Arc<str>, Vec<Entry>>,
    /// At this size entries whose lease is over are dropped.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    id: i64,
    fence: u64,
    alive: Weak<()>,
}

impl Leases {
    /// The leases of a place, which must exist.
    pub(crate) fn of(place: &Path) -> Arc<Self> {
        static PLACES: Mutex<Vec<(Place, Weak<Leases>)>> = Mutex::new(Vec::new());
        let place = Place::new(place);
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|(_, leases)| leases.strong_count() > 0);
        if let Some(leases) = places
            .iter()
            .find(|(other, _)| *other == place)
            .and_then(|(_, leases)| leases.upgrade())
        {
            return leases;
        }
        let leases = Arc::new(Self::default());
        places.push((place, Arc::downgrade(&leases)));
        leases
    }

    /// Notes a lease. To be called before others can see that it was taken, or they would think
    /// it over. `id` is the store's own name for the session.
    pub(crate) fn insert(&self, lease: &Lease, id: i64) {
        let mut held = self.lock();
        if held.by_session.len() >= held.sweep_at.max(64) {
            held.by_session
                .retain(|_, entries| entries.iter().any(Entry::is_alive));
            held.sweep_at = held.by_session.len() * 2;
        }
        let entries = held.by_session.entry(lease.session.clone()).or_default();
        entries.retain(Entry::is_alive);
        entries.push(Entry {
            id,
            fence: lease.fence,
            alive: Arc::downgrade(&lease.alive),
        });
    }

    /// Forgets a lease that was given back or lost.
    pub(crate) fn remove(&self, session: &str, fence: u64) {
        let mut held = self.lock();
        if let Some(entries) = held.by_session.get_mut(session) {
            entries.retain(|entry| entry.fence != fence);
            if entries.is_empty() {
                held.by_session.remove(session);
            }
        }
    }

    /// The store's own name for the session of a lease that was taken in this process.
    pub(crate) fn id(&self, session: &str, fence: u64) -> Option<i64> {
        self.find(session, fence, |entry| entry.id)
    }

    /// Whether this process took the lease and something still owns it.
    pub(crate) fn is_alive(&self, session: &str, fence: u64) -> bool {
        self.find(session, fence, Entry::is_alive).unwrap_or(false)
    }

    /// Whether more than one session is being written.
    pub(crate) fn are_many(&self) -> bool {
        self.lock().by_session.len() > 1
    }

    fn find<T>(&self, session: &str, fence: u64, get: impl Fn(&Entry) -> T) -> Option<T> {
        let held = self.lock();
        let mut entries = held.by_session.get(session)?.iter();
        entries.find(|entry| entry.fence == fence).map(get)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_alive(&self) -> bool {
        self.alive.strong_count() > 0
    }
}

/// Tells places apart, by whatever path they are reached.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    #[cfg(unix)]
    Inode(u64, u64),
    Path(PathBuf),
}

impl Place {
    fn new(path: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(found) = std::fs::metadata(path) {
            use std::os::unix::fs::MetadataExt;
            return Self::Inode(found.dev(), found.ino());
        }
        Self::Path(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lease(session: &str, fence: u64) -> Lease {
        Lease {
            session: session.into(),
            fence,
            ttl: Duration::ZERO,
            alive: Arc::new(()),
        }
    }

    #[test]
    fn handles_to_one_place_share_their_leases() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&file, "").unwrap();
        std::fs::hard_link(&file, &link).unwrap();
        let (one, two) = (Leases::of(&file), Leases::of(&link));
        let held = lease("s", 3);
        one.insert(&held, 7);
        assert!(two.is_alive("s", 3));
        assert_eq!(two.id("s", 3), Some(7));
        assert_eq!(two.id("s", 4), None);
        drop(held);
        assert!(!two.is_alive("s", 3));
    }

    #[test]
    fn a_takeover_that_failed_leaves_the_lease_there_was() {
        let leases = Leases::default();
        let (old, new) = (lease("s", 1), lease("s", 2));
        leases.insert(&old, 7);
        leases.insert(&new, 7);
        leases.remove("s", 2);
        assert!(leases.is_alive("s", 1));
        assert!(!leases.is_alive("s", 2));
    }

    #[test]
    fn leases_that_are_over_do_not_pile_up() {
        let leases = Leases::default();
        for n in 0..10_000 {
            leases.insert(&lease(&format!("s{n}"), 1), n);
        }
        assert!(leases.lock().by_session.len() <= 64);
    }
}
