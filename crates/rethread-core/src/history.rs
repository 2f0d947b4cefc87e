//! The records of a session, in order.

use serde::{Deserialize, Serialize};

use crate::{Entry, Message, Record, Row, Timestamp};

/// The records of a session, in order: all of them, or its end.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: Vec<Record>,
    problems: Vec<Problem>,
}

/// Something in a history that could not be read or is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The record or line.
    pub at: u64,
    /// What is wrong with it.
    pub detail: String,
}

impl Problem {
    /// A stored row that is no record.
    pub(crate) fn unreadable(seq: u64, error: &serde_json::Error) -> Self {
        let detail = format!("record {seq} cannot be read: {error}");
        Self { at: seq, detail }
    }
}

impl History {
    /// A history of records, which must be in the order of their sequence numbers.
    #[must_use]
    pub fn new(records: Vec<Record>) -> Self {
        Self {
            records,
            problems: Vec::new(),
        }
    }

    /// A history of messages from elsewhere, numbered from 1. Nothing is known of which of its
    /// calls had started.
    #[must_use]
    pub fn from_messages(messages: impl IntoIterator<Item = Message>) -> Self {
        let records = (1..)
            .zip(messages)
            .map(|(seq, message)| Record {
                seq,
                at: Timestamp::default(),
                entry: Entry::message(message),
            })
            .collect();
        Self::new(records)
    }

    /// Decodes rows in the order of their sequence numbers. A row that is no record is set aside as
    /// a problem; the rest is read.
    #[must_use]
    pub fn from_rows(rows: &[Row]) -> Self {
        let mut history = Self::default();
        for row in rows {
            history.push_row(row);
        }
        history
    }

    /// Decodes a row, and gives the record it is.
    pub(crate) fn push_row(&mut self, row: &Row) -> Option<&Record> {
        match Record::decode(row.seq, &row.body) {
            Ok(record) => {
                self.records.push(record);
                self.records.last()
            }
            Err(error) => {
                self.problems.push(Problem::unreadable(row.seq, &error));
                None
            }
        }
    }

    /// For rows that were read newest first.
    pub(crate) fn reverse(&mut self) {
        self.records.reverse();
        self.problems.reverse();
    }

    /// Adds the next record.
    pub fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// The records.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What could not be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The messages, those out of context included.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.records
            .iter()
            .filter_map(|record| record.entry.as_message())
    }

    /// The sequence number of the last record; 0 when there is none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.records.last().map_or(0, |record| record.seq)
    }
}
