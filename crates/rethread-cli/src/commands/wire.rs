//! `check`, `repair` and `decode`: what the wire crate says about files.

use std::collections::BTreeMap;
use std::path::Path;

use rethread_core::Json;
use rethread_wire::{Api, decode_report};

use crate::args::{Check, Decode, Repair};
use crate::failure::{Code, Failure};
use crate::term;

pub(crate) fn check(_args: &Check) -> Result<Code, Failure> {
    Err(Failure::usage("`check` is not there yet"))
}

pub(crate) fn repair(_args: &Repair) -> Result<Code, Failure> {
    Err(Failure::usage("`repair` is not there yet"))
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

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
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
