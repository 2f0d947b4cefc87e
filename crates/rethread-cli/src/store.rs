//! The store a command works on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::Store;
use rethread_stores::SqliteStore;

use crate::args;
use crate::failure::Failure;

/// The variable that names the store.
const VARIABLE: &str = "RETHREAD_STORE";

/// Where sessions are kept.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    path: PathBuf,
    /// Whether it is where sessions are kept when nobody says otherwise.
    pub(crate) is_default: bool,
}

impl Place {
    /// The store that was named, by an argument or the environment, or the default one.
    pub(crate) fn of(args: &args::Store) -> Result<Self, Failure> {
        let named = args.store.clone().or_else(|| {
            std::env::var(VARIABLE)
                .ok()
                .filter(|value| !value.is_empty())
        });
        match named {
            Some(url) => Ok(Self {
                path: parse(&url)?,
                is_default: false,
            }),
            None => Ok(Self {
                path: default_path()?,
                is_default: true,
            }),
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Opens it to look only; no runtime is needed, and it is not made.
    pub(crate) fn look(&self) -> Result<Arc<dyn Store>, Failure> {
        self.must_exist()?;
        let store =
            SqliteStore::open_read_only(&self.path).map_err(|error| Failure::open(&error))?;
        Ok(Arc::new(store))
    }

    /// Opens it if it exists.
    pub(crate) fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        self.must_exist()?;
        let store = SqliteStore::open_existing(&self.path);
        Ok(Arc::new(store.map_err(|error| Failure::open(&error))?))
    }

    /// Opens it, or makes it.
    pub(crate) async fn make(&self) -> Result<Arc<dyn Store>, Failure> {
        self.must_be_a_file()?;
        if let Some(directory) = self.path.parent().filter(|parent| *parent != Path::new("")) {
            if self.is_default {
                std::fs::create_dir_all(directory)
                    .map_err(|error| Failure::file("make", directory, &error))?;
            } else if !directory.is_dir() {
                return Err(Failure::usage(format!(
                    "cannot make the store `{}`: there is no directory `{}`",
                    self.name(),
                    directory.display()
                )));
            }
        }
        let store = SqliteStore::open(&self.path).await;
        Ok(Arc::new(store.map_err(|error| Failure::open(&error))?))
    }

    fn must_exist(&self) -> Result<(), Failure> {
        self.must_be_a_file()?;
        if self.exists() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "there is no store `{}`; `rethread run` makes one",
            self.name()
        )))
    }

    fn must_be_a_file(&self) -> Result<(), Failure> {
        if self.path.is_dir() {
            return Err(Failure::usage(format!(
                "`{}` is a directory; a store is a file",
                self.name()
            )));
        }
        Ok(())
    }
}

fn parse(url: &str) -> Result<PathBuf, Failure> {
    // What comes after the scheme may hold a password, so an error does not repeat it.
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "sqlite" if rest.is_empty() => {
            Err(Failure::usage("`sqlite:` names no file; write sqlite:PATH"))
        }
        "sqlite" => Ok(PathBuf::from(rest)),
        "jsonl" | "postgres" | "postgresql" | "redis" | "rediss" => Err(Failure::usage(format!(
            "this program has no `{scheme}:` store; it knows sqlite:PATH"
        ))),
        _ => Err(Failure::usage(format!(
            "`{scheme}` is not a store; write sqlite:PATH"
        ))),
    }
}

/// `sessions.db` in the user's data directory.
fn default_path() -> Result<PathBuf, Failure> {
    let directory = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = directory("XDG_DATA_HOME")
        .or_else(|| directory("HOME").map(|home| home.join(".local/share")))
        .ok_or_else(|| {
            Failure::usage(format!(
                "there is no place for sessions: set HOME or XDG_DATA_HOME, or name a store with --store or {VARIABLE}"
            ))
        })?;
    Ok(data.join("rethread").join("sessions.db"))
}
