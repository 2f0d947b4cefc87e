//! `check`, `repair` and `decode`: what the wire crate says about files.

use std::collections::BTreeMap;
use std::path::Path;

use rethread_core::Json;
use rethread_wire::rules::Target;
use rethread_wire::{Api, Check as Checked, decode_report, explain_changes, repair, repair_report};

use crate::args::{Check, Decode, Repair};
use crate::failure::{Code, Failure};
use crate::history;
use crate::term;

pub(crate) fn check(args: &Check) -> Result<Code, Failure> {
    let api = args.api.as_deref().map(api).transpose()?;
    let target = target(args.target.as_deref())?;
    let loaded = history::read(&args.file, args.format.as_deref())?;
    let checked = Checked::of(&loaded, api, &target);
    if args.json {
        term::line(&checked.to_json());
    } else {
        for line in checked.explain() {
            term::line(&term::clean(&line));
        }
    }
    Ok(match checked.valid {
        true => Code::Done,
        false => Code::NothingToResume,
    })
}

pub(crate) fn repair_file(args: &Repair) -> Result<Code, Failure> {
    let api = api(&args.api)?;
    let target = target(args.target.as_deref())?;
    let loaded = history::read(&args.file, args.format.as_deref())?;
    let append = args.append.as_deref();
    let repaired = repair(&loaded, api, &target, append);
    if let Some(path) = &args.output {
        if is_same_file(path, &args.file) {
            return Err(Failure::usage(format!(
                "`{}` is the history itself, which is never written; name another file",
                path.display()
            )));
        }
        std::fs::write(path, format!("{}\n", repaired.request.get()))
            .map_err(|error| Failure::file("write", path, &error))?;
    }
    if args.json {
        term::line(&repair_report(&loaded, api, &target, append).0);
        return Ok(Code::Done);
    }
    for line in explain_changes(loaded.format, &repaired.changes) {
        term::say(&term::clean(&line));
    }
    if args.output.is_none() {
        term::line(repaired.request.get());
    }
    Ok(Code::Done)
}

pub(crate) fn decode(args: &Decode) -> Result<Code, Failure> {
    let api = api(&args.api)?;
    let body = read(&args.file)?;
    let headers = match &args.headers {
        None => Vec::new(),
        Some(path) => headers(path)?,
    };
    let (report, code) = decode_report(api, args.status, &headers, &body);
    term::line(&report);
    Ok(if code == 0 { Code::Done } else { Code::Failed })
}

fn api(name: &str) -> Result<Api, Failure> {
    name.parse::<Api>()
        .map_err(|error| Failure::usage(error.to_string()))
}

fn target(json: Option<&str>) -> Result<Target, Failure> {
    match json {
        None => Ok(Target::default()),
        Some(json) => Target::parse(json)
            .map_err(|error| Failure::usage(format!("--target cannot be read: {error}"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn headers(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let wrong = |error: serde_json::Error| {
        Failure::usage(format!(
            "`{}` is no JSON object of headers: {error}",
            path.display()
        ))
    };
    let headers: BTreeMap<String, Json> = serde_json::from_slice(&read(path)?).map_err(wrong)?;
    Ok(headers
        .into_iter()
        .map(|(name, value)| {
            let text = value
                .decode::<String>()
                .unwrap_or_else(|_| value.get().to_owned());
            (name, text)
        })
        .collect())
}
