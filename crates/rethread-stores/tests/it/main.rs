//! The stores keep their promises, also among processes and on damaged files.

mod sqlite;
