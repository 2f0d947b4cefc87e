//! Files: new, foreign, newer, damaged, not writable.

use std::fs;
use std::path::{Path, PathBuf};

use rethread_core::{History, Page, Store, StoreError, Writer};
use rethread_stores::SqliteStore;
use rusqlite::Connection;

use crate::sqlite::{CLAIM, at_once, claim, commit, record, rows, told};

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    (folder, path)
}

/// The names and contents of all files in a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Opens a file in every way and gives the errors.
fn refusals(path: &Path, what: &str) -> Vec<StoreError> {
    [
        SqliteStore::open_blocking(path),
        SqliteStore::open_existing(path),
        SqliteStore::open_read_only(path),
    ]
    .map(|opened| opened.map_err(|error| (error, what)).expect_err(what).0)
    .into()
}

#[test]
fn a_file_is_made_only_when_that_was_asked_for() {
    let (folder, path) = folder();
    for error in [
        SqliteStore::open_existing(&path).unwrap_err(),
        SqliteStore::open_read_only(&path).unwrap_err(),
    ] {
        let text = told(&error);
        assert!(
            text.contains("sessions.db") && text.contains("No such file"),
            "{text}"
        );
    }
    assert!(contents(folder.path()).is_empty());
    let store = SqliteStore::open_blocking(&path).unwrap();
    claim(&store, "s", &[record("1")]);
    drop(store);
    let names: Vec<_> = contents(folder.path())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, [path.display().to_string()], "one file is left");
    assert_eq!(
        rows(&SqliteStore::open_existing(&path).unwrap(), "s").len(),
        1
    );
}

#[test]
fn a_missing_folder_is_named() {
    let (_folder, path) = folder();
    let error = SqliteStore::open_blocking(path.join("deeper").join("s.db")).unwrap_err();
    let text = told(&error);
    assert!(
        text.contains("the folder") && text.contains("does not exist"),
        "{text}"
    );
    let error = SqliteStore::open_blocking(path.parent().unwrap()).unwrap_err();
    assert!(
        told(&error).contains("check that it is a file"),
        "{}",
        told(&error)
    );
    let error = SqliteStore::open_blocking("").unwrap_err();
    assert!(told(&error).contains("the path is empty"));
}

#[test]
fn a_path_is_nothing_but_a_path() {
    let (folder, _) = folder();
    for name in [
        ":memory:",
        "file:x?mode=memory",
        "a b%20?#'\".db",
        "日本.db",
    ] {
        let path = folder.path().join(name);
        claim(
            &SqliteStore::open_blocking(&path).unwrap(),
            "s",
            &[record("1")],
        );
        assert!(path.is_file(), "{name}");
        assert_eq!(
            rows(&SqliteStore::open_read_only(&path).unwrap(), "s").len(),
            1
        );
    }
}

#[test]
fn an_empty_file_is_made_a_store_but_not_by_reading() {
    let (_folder, path) = folder();
    fs::write(&path, "").unwrap();
    let error = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    claim(&SqliteStore::open_existing(&path).unwrap(), "s", &[]);
}

#[test]
fn a_file_of_another_program_is_refused_and_stays_as_it_is() {
    type Make = fn(&Path);
    let makers: [(&str, Make); 6] = [
        ("text", |path| {
            fs::write(path, "dear diary, ".repeat(500)).unwrap()
        }),
        ("a short text", |path| fs::write(path, "hi").unwrap()),
        ("tables", |path| {
            let other = Connection::open(path).unwrap();
            other
                .execute_batch("CREATE TABLE sessions(id); PRAGMA user_version = 1")
                .unwrap();
        }),
        ("tables in a log", |path| {
            let other = Connection::open(path).unwrap();
            other
                .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(id)")
                .unwrap();
        }),
        ("an id", |path| {
            let other = Connection::open(path).unwrap();
            other
                .execute_batch("PRAGMA application_id = 1; PRAGMA user_version = 1")
                .unwrap();
        }),
        ("a version", |path| {
            Connection::open(path)
                .unwrap()
                .execute_batch("PRAGMA user_version = 1")
                .unwrap();
        }),
    ];
    for (what, make) in makers {
        let (folder, path) = folder();
        make(&path);
        let before = contents(folder.path());
        for error in refusals(&path, what) {
            assert!(
                matches!(error, StoreError::NotAStore { .. }),
                "{what}: {error}"
            );
            assert!(error.to_string().contains("sessions.db"), "{error}");
        }
        let after: Vec<_> = contents(folder.path())
            .into_iter()
            // Read-only connections leave these empty or without content of their own.
            .filter(|(name, _)| !name.ends_with("-shm") && !name.ends_with("-wal"))
            .collect();
        assert!(before == after, "{what} was changed");
    }
}

fn make_newer(path: &Path) {
    claim(
        &SqliteStore::open_blocking(path).unwrap(),
        "s",
        &[record("1")],
    );
    let newer = Connection::open(path).unwrap();
    newer
        .execute_batch("PRAGMA user_version = 99; CREATE TABLE hologram(id)")
        .unwrap();
}

#[test]
fn a_newer_format_is_refused_and_stays_as_it_is() {
    let (folder, path) = folder();
    make_newer(&path);
    let before = contents(folder.path());
    for open in [
        SqliteStore::open_blocking(&path),
        SqliteStore::open_existing(&path),
    ] {
        let error = open.unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::NewerFormat {
                    found: 99,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
        assert!(before == contents(folder.path()));
    }
    let error = SqliteStore::open_read_only(&path).unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { .. }), "{error}");
    assert_eq!(before[0].1, fs::read(&path).unwrap());
}

/// A newer program was killed: what it wrote last is only in the log.
#[test]
fn a_newer_format_in_a_log_that_was_left_is_refused_and_stays_as_it_is() {
    let (folder, path) = folder();
    make_newer(&path);
    let newer = Connection::open(&path).unwrap();
    newer
        .execute_batch("INSERT INTO hologram VALUES(1)")
        .unwrap();
    // Copied while it is open, as a kill would leave it.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["sessions.db", "sessions.db-wal"] {
        fs::copy(folder.path().join(name), copy.join(name)).unwrap();
    }
    let before = contents(&copy);
    assert!(before[1].1.len() > 4096, "there is no log");
    for error in refusals(&copy.join("sessions.db"), "a newer log") {
        assert!(matches!(error, StoreError::NewerFormat { .. }), "{error}");
    }
    let after = contents(&copy);
    assert!(
        before.iter().all(|file| after.contains(file)),
        "a file was changed"
    );
}

#[test]
fn a_reader_writes_nothing_and_sees_what_writers_do() {
    let (folder, path) = folder();
    let store = SqliteStore::open_blocking(&path).unwrap();
    let lease = claim(&store, "s", &[record("1")]);
    let reader = SqliteStore::open_read_only(&path).unwrap();
    assert_eq!(rows(&reader, "s").len(), 1);
    at_once(store.commit(commit("s", Writer::Lease(&lease), 1, &[record("2")]))).unwrap();
    assert_eq!(rows(&reader, "s").len(), 2);
    assert!(at_once(reader.head("s")).unwrap().unwrap().is_busy());

    let files = |end: &str| fs::read(folder.path().join(format!("sessions.db{end}"))).unwrap();
    let before = (files(""), files("-wal"));
    for result in [
        at_once(reader.commit(commit("s", Writer::Lease(&lease), 2, &[record("3")]))).map(drop),
        at_once(reader.commit(commit("new", CLAIM, 0, &[]))).map(drop),
        at_once(reader.renew(&lease)),
        at_once(reader.delete("s")),
    ] {
        let error = result.unwrap_err();
        assert!(
            told(&error).contains("for reading only"),
            "{}",
            told(&error)
        );
    }
    drop(reader);
    assert!(before == (files(""), files("-wal")));
    at_once(store.commit(commit("s", Writer::Lease(&lease), 2, &[record("3")]))).unwrap();
}

#[test]
fn a_reader_reads_the_log_of_a_process_that_was_killed_and_leaves_it() {
    let (folder, path) = folder();
    let store = SqliteStore::open_blocking(&path).unwrap();
    claim(&store, "s", &[record("1"), record("2")]);
    // Without `-shm`, as after a restart of the machine.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["sessions.db", "sessions.db-wal"] {
        fs::copy(folder.path().join(name), copy.join(name)).unwrap();
    }
    let before = contents(&copy);
    let reader = SqliteStore::open_read_only(copy.join("sessions.db")).unwrap();
    assert_eq!(rows(&reader, "s").len(), 2);
    drop(reader);
    let after = contents(&copy);
    assert!(
        before.iter().all(|file| after.contains(file)),
        "a file was changed"
    );
}

#[test]
fn a_row_that_is_damaged_is_set_aside_and_the_rest_read() {
    let (_folder, path) = folder();
    let store = SqliteStore::open_blocking(&path).unwrap();
    let bodies: Vec<_> = (1..=5).map(|n| record(&n.to_string())).collect();
    claim(&store, "s", &bodies);
    let other = Connection::open(&path).unwrap();
    for (seq, value) in [(2, "NULL OR 7"), (3, "x'ff00'"), (4, "1.5")] {
        let update = format!("UPDATE records SET body = {value} WHERE key & 0xffffffff = {seq}");
        assert_eq!(other.execute(&update, []).unwrap(), 1);
    }
    let history = History::from_rows(&rows(&store, "s"));
    let read: Vec<_> = history.records().iter().map(|record| record.seq).collect();
    let aside: Vec<_> = history
        .problems()
        .iter()
        .map(|problem| problem.at)
        .collect();
    assert_eq!((read, aside), (vec![1, 5], vec![2, 3, 4]));
}

/// Pages of the file are overwritten. What is not on them is still there.
#[test]
fn a_row_on_a_damaged_page_is_set_aside_and_the_rest_read() {
    let (_folder, path) = folder();
    let store = SqliteStore::open_blocking(&path).unwrap();
    // Each fills pages of its own, whose content names it.
    let bodies: Vec<_> = (0..8)
        .map(|n| record(&format!("<{n}>").repeat(4000)))
        .collect();
    claim(&store, "s", &bodies);
    drop(store);
    // The first of a row's overflow pages begins with the number of the next; a number there is no
    // page for breaks the chain.
    let mut file = fs::read(&path).unwrap();
    let page = file
        .chunks(4096)
        .position(|page| {
            page[4..].starts_with(b"<3>")
                || page[5..].starts_with(b"<3>")
                || page[6..].starts_with(b"<3>")
        })
        .unwrap();
    file[page * 4096..page * 4096 + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    fs::write(&path, file).unwrap();

    let store = SqliteStore::open_blocking(&path).unwrap();
    for found in [rows(&store, "s"), {
        let page = Page::Before {
            seq: u64::MAX,
            limit: 100,
        };
        let mut found = at_once(store.read("s", page)).unwrap();
        found.reverse();
        found
    }] {
        let history = History::from_rows(&found);
        let read: Vec<_> = history.records().iter().map(|record| record.seq).collect();
        let aside: Vec<_> = history
            .problems()
            .iter()
            .map(|problem| problem.at)
            .collect();
        assert_eq!((read, aside), (vec![1, 2, 3, 5, 6, 7, 8], vec![4]));
    }
}

#[test]
fn a_summary_row_of_a_stranger_makes_nothing_panic() {
    let (_folder, path) = folder();
    let store = SqliteStore::open_blocking(&path).unwrap();
    claim(&store, "s", &[record("1")]);
    let other = Connection::open(&path).unwrap();
    for change in [
        "last = 9223372036854775807",
        "last = -1",
        "holder = '{', lease_until = 9223372036854775807",
        "fence = -5, holder = 'x', lease_since = NULL, lease_until = NULL",
        "id = 9223372036854775807",
        "id = -3",
        "updated = 'soon'",
        "last = NULL OR 'x'",
    ] {
        other
            .execute_batch(&format!("UPDATE sessions SET {change}"))
            .unwrap();
        let _ = at_once(store.head("s"));
        let _ = at_once(store.list(&rethread_core::ListQuery::default()));
        let end = u64::MAX;
        for page in [
            Page::After { seq: 0, limit: 9 },
            Page::Before { seq: end, limit: 9 },
        ] {
            let _ = at_once(store.read("s", page));
        }
        let force = Writer::Claim {
            ttl: std::time::Duration::MAX,
            create: true,
            force: true,
        };
        for after in [0, 1, i64::MAX.unsigned_abs(), end] {
            let _ = at_once(store.commit(commit("s", force, after, &[record("2")])));
        }
        let _ = at_once(store.delete("s"));
    }
}

/// A folder seen through a mount that may not be written, gone when it goes out of scope.
struct ReadOnlyMount(PathBuf);

impl ReadOnlyMount {
    fn new(folder: &Path) -> Self {
        let mount = Self(folder.join("mount"));
        fs::create_dir(&mount.0).unwrap();
        let run = |args: &[&str]| {
            let mut command = std::process::Command::new("mount");
            let status = command.args(args).arg(&mount.0).status().unwrap();
            assert!(status.success());
        };
        run(&["--bind", folder.to_str().unwrap()]);
        run(&["-o", "remount,ro,bind"]);
        mount
    }
}

impl Drop for ReadOnlyMount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root"]
fn where_nothing_may_be_written_a_store_can_be_read() {
    let (folder, path) = folder();
    claim(
        &SqliteStore::open_blocking(&path).unwrap(),
        "s",
        &[record("1")],
    );
    let mount = ReadOnlyMount::new(folder.path());
    let seen = mount.0.join("sessions.db");
    assert_eq!(
        rows(&SqliteStore::open_read_only(&seen).unwrap(), "s").len(),
        1
    );
    let error = SqliteStore::open_blocking(&seen).unwrap_err();
    assert!(told(&error).contains("may be written"), "{}", told(&error));
    let error = SqliteStore::open_blocking(mount.0.join("new.db")).unwrap_err();
    assert!(told(&error).contains("new.db"), "{}", told(&error));

    // With a log that was left behind, what stands in the file is not all there is.
    let store = SqliteStore::open_blocking(&path).unwrap();
    claim(&store, "t", &[record("1")]);
    let log = folder.path().join("sessions.db-wal");
    let kept = fs::read(&log).unwrap();
    drop(store);
    fs::write(&log, kept).unwrap();
    let error = SqliteStore::open_read_only(&seen).unwrap_err();
    assert!(told(&error).contains("log"), "{}", told(&error));
}
