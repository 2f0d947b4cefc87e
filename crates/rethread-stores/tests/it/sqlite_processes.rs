//! Many processes on one file, and processes that are killed.

use std::process::Command;
use std::time::Duration;

use rethread_core::{Draft, Store, StoreError, Timestamp, Writer};
use rethread_stores::SqliteStore;
use rusqlite::Connection;

use crate::child::{Player, command, part, tell, wait_for_parent};
use crate::sqlite::{CLAIM, at_once, claim, commit, record, rows, told};

const APPENDS: u64 = 50;

/// What this program does as a child.
#[test]
fn play() {
    let Some((part, path)) = part() else { return };
    match part.as_str() {
        // Opens the store at the same time as others, and appends to a session of its own.
        "append" => {
            tell("ready");
            wait_for_parent();
            let store = SqliteStore::open_blocking(&path).unwrap();
            let session = format!("s{}", std::process::id());
            let lease = claim(&store, &session, &[]);
            for n in 0..APPENDS {
                let rows = [record(&n.to_string())];
                at_once(store.commit(commit(&session, Writer::Lease(&lease), n, &rows))).unwrap();
            }
            tell("done");
        }
        // Holds a session until it is killed.
        "hold" => {
            let store = SqliteStore::open_blocking(&path).unwrap();
            let lease = claim(&store, "s", &[record("1")]);
            let draft = Draft {
                at: Timestamp(1),
                text: "half a".to_owned(),
                handle: None,
            };
            at_once(store.set_draft(&lease, &draft)).unwrap();
            tell("holding");
            wait_for_parent();
            let late = at_once(store.commit(commit("s", Writer::Lease(&lease), 1, &[record("2")])));
            tell(match late {
                Ok(_) => "written",
                Err(StoreError::Fenced { .. }) => "fenced",
                Err(_) => "another error",
            });
        }
        // Appends until it cannot, or is killed; says each number that is durable.
        "append for ever" => {
            let store = SqliteStore::open_blocking(&path).unwrap();
            let lease = claim(&store, "s", &[]);
            for n in 0.. {
                let rows = [record(&n.to_string()), record(&"x".repeat(3000))];
                let writer = Writer::Lease(&lease);
                match at_once(store.commit(commit("s", writer, 2 * n, &rows))) {
                    Ok(committed) => tell(&committed.last.to_string()),
                    Err(error) => {
                        tell(&told(&error));
                        break;
                    }
                }
            }
        }
        // Appends as often as asked, for counting what the system is asked for.
        count => {
            let store = SqliteStore::open_blocking(&path).unwrap();
            let lease = claim(&store, "s", &[]);
            for n in 0..count.parse().unwrap() {
                let rows = [record(&"x".repeat(1000))];
                at_once(store.commit(commit("s", Writer::Lease(&lease), n, &rows))).unwrap();
            }
        }
    }
}

fn player(part: &str, path: &std::path::Path) -> Player {
    Player::start(command("sqlite_processes::play", part, path))
}

#[test]
fn many_processes_make_and_write_one_file_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let mut players: Vec<_> = (0..8).map(|_| player("append", &path)).collect();
        for player in &mut players {
            assert_eq!(player.hear().as_deref(), Some("ready"));
        }
        for player in &mut players {
            player.go_on();
        }
        for player in &mut players {
            assert_eq!(player.hear().as_deref(), Some("done"));
        }
        let store = SqliteStore::open_read_only(&path).unwrap();
        for player in &players {
            let rows = rows(&store, &format!("s{}", player.process.id()));
            assert_eq!(rows.len() as u64, APPENDS);
        }
    }
}

#[test]
fn a_session_of_a_process_that_was_killed_is_free_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut holder = player("hold", &path);
    assert_eq!(holder.hear().as_deref(), Some("holding"));
    let store = SqliteStore::open_blocking(&path).unwrap();

    let error = at_once(store.commit(commit("s", CLAIM, 1, &[]))).unwrap_err();
    let StoreError::Busy { holder: named, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(named.pid, holder.process.id());
    assert!(
        error.to_string().contains(&named.pid.to_string()),
        "{error}"
    );
    let head = at_once(store.head("s")).unwrap().unwrap();
    assert!(head.is_busy());
    let fence = head.lease.unwrap().fence;

    // Dead as soon as it is killed, although nobody has waited for it.
    holder.process.kill().unwrap();
    while at_once(store.head("s")).unwrap().unwrap().is_busy() {
        std::thread::yield_now();
    }
    let committed = at_once(store.commit(commit("s", CLAIM, 1, &[record("2")]))).unwrap();
    assert!(committed.lease.unwrap().fence > fence);
    let draft = at_once(store.draft("s")).unwrap();
    assert_eq!(draft.unwrap().text, "half a", "the draft survives the kill");
}

#[test]
fn a_writer_that_was_replaced_learns_it_in_its_own_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut holder = player("hold", &path);
    assert_eq!(holder.hear().as_deref(), Some("holding"));
    let store = SqliteStore::open_blocking(&path).unwrap();
    let force = Writer::Claim {
        ttl: Duration::from_secs(60),
        create: false,
        force: true,
    };
    let committed = at_once(store.commit(commit("s", force, 1, &[]))).unwrap();
    assert!(committed.lease.is_some());
    holder.go_on();
    assert_eq!(holder.hear().as_deref(), Some("fenced"));
    assert_eq!(rows(&store, "s").len(), 1);
}

/// The number of a live process is not enough: it may be another process, or count elsewhere.
#[test]
fn a_number_that_was_used_again_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let mut holder = player("hold", &path);
    assert_eq!(holder.hear().as_deref(), Some("holding"));
    let store = SqliteStore::open_blocking(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    let json: String = other
        .query_row("SELECT holder FROM sessions", [], |row| row.get(0))
        .unwrap();
    let mut named: rethread_core::Holder = serde_json::from_str(&json).unwrap();
    let fields: Vec<_> = named.instance.split(':').map(str::to_owned).collect();
    let [kind, boot, namespace, start] = fields.as_slice() else {
        panic!("{json}");
    };
    let mut is_busy = |boot: &str, namespace: &str, start: &str| {
        named.instance = format!("{kind}:{boot}:{namespace}:{start}");
        let json = serde_json::to_string(&named).unwrap();
        other
            .execute("UPDATE sessions SET holder = ?1", [json])
            .unwrap();
        at_once(store.head("s")).unwrap().unwrap().is_busy()
    };
    assert!(is_busy(boot, namespace, start), "the process itself");
    assert!(
        !is_busy(boot, namespace, "1"),
        "an older process with its number"
    );
    assert!(is_busy(boot, "1", "1"), "one in another container");
    assert!(is_busy("another", namespace, "1"), "one on another machine");
}

#[test]
fn what_was_said_to_be_durable_survives_a_kill() {
    for after in [1, 7, 40] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let mut writer = player("append for ever", &path);
        let mut durable = 0;
        for _ in 0..after {
            durable = writer.hear().unwrap().parse().unwrap();
        }
        writer.kill();
        let reader = SqliteStore::open_read_only(&path).unwrap();
        let found = rows(&reader, "s").len() as u64;
        assert!(found >= durable, "{found} of {durable}");
        assert!(found.is_multiple_of(2), "half a commit");
        let store = SqliteStore::open_blocking(&path).unwrap();
        at_once(store.commit(commit("s", CLAIM, found, &[record("next")]))).unwrap();
    }
}

/// The limit on the size of a file stands for a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_nothing_is_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    drop(SqliteStore::open_blocking(&path).unwrap());
    let play = command("sqlite_processes::play", "append for ever", &path);
    let mut limited = Command::new("sh");
    limited
        // Without the trap the signal would end the process.
        .args(["-c", r#"trap "" XFSZ; ulimit -f 200; exec "$0" "$@""#])
        .arg(play.get_program())
        .args(play.get_args())
        .envs(
            play.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut writer = Player::start(limited);
    let mut durable = 0;
    let error = loop {
        let said = writer.hear().unwrap();
        match said.parse::<u64>() {
            Ok(last) => durable = last,
            Err(_) => break said,
        }
    };
    assert!(durable > 0, "{error}");
    assert!(error.contains("sessions.db: writing failed"), "{error}");
    assert_eq!(writer.hear(), None);
    writer.process.wait().unwrap();
    let store = SqliteStore::open_blocking(&path).unwrap();
    assert_eq!(rows(&store, "s").len() as u64, durable);
    at_once(store.commit(commit("s", CLAIM, durable, &[record("next")]))).unwrap();
}

/// Counts by difference, so that opening and closing do not count.
#[test]
#[ignore = "needs strace"]
fn an_append_waits_for_the_disk_once_and_opens_nothing() {
    let calls = |appends: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let log = folder.path().join("calls");
        let play = command("sqlite_processes::play", appends, &path);
        let mut traced = Command::new("strace");
        traced.args(["-f", "-e", "trace=fsync,fdatasync,open,openat,creat", "-o"]);
        let status = traced
            .arg(&log)
            .arg(play.get_program())
            .args(play.get_args())
            .envs(
                play.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .output()
            .unwrap()
            .status;
        assert!(status.success());
        let log = std::fs::read_to_string(log).unwrap();
        let count = |call: &str| log.lines().filter(|line| line.contains(call)).count();
        let opened = log
            .lines()
            .filter(|line| line.contains("open") && line.contains("sessions.db"));
        (count("fsync(") + count("fdatasync("), opened.count())
    };
    let (few, many) = (calls("20"), calls("120"));
    assert_eq!(many.0 - few.0, 100, "waits for the disk");
    assert_eq!(many.1, few.1, "files opened");
}
