//! New ids for calls whose own are refused.

use std::collections::{HashMap, HashSet};

use crate::encode::IdRule;

/// Gives ids that fit a rule and stand nowhere else.
pub(super) struct NewIds {
    rule: IdRule,
    taken: HashSet<String>,
    /// How many stand-ins an id has had.
    tried: HashMap<String, u32>,
}

impl NewIds {
    /// `all` are the ids of the whole history.
    pub(super) fn new<'a>(rule: IdRule, all: impl Iterator<Item = &'a str>) -> Self {
        Self {
            rule,
            taken: all.map(str::to_owned).collect(),
            tried: HashMap::new(),
        }
    }

    pub(super) fn fits(&self, id: &str) -> bool {
        self.rule.fits(id)
    }

    /// An id in the place of another, as like it as the rule allows.
    pub(super) fn instead_of(&mut self, id: &str) -> String {
        let tried = self.tried.entry(id.to_owned()).or_insert(0);
        loop {
            let new = self.rule.stand_in(id, *tried);
            *tried = tried.saturating_add(1);
            if self.taken.insert(new.clone()) || *tried == u32::MAX {
                return new;
            }
        }
    }
}
