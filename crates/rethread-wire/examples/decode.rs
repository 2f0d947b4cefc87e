//! Decodes one recorded response body:
//! `decode FILE --api API [--status N] [--headers FILE] [--json]`.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use rethread_wire::{Api, decode_report};

#[allow(clippy::print_stderr)]
fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("decode: {error}");
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::print_stdout)]
fn run() -> Result<u8, Box<dyn Error>> {
    let (mut file, mut api, mut status, mut headers) = (None, None, 200, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => {}
            "--api" => api = Some(value()?.parse::<Api>()?),
            "--status" => status = value()?.parse()?,
            "--headers" => {
                let text = std::fs::read_to_string(value()?)?;
                let map: BTreeMap<String, String> = serde_json::from_str(&text)?;
                headers.extend(map);
            }
            _ => file = Some(arg),
        }
    }
    let body = std::fs::read(file.ok_or("name a file")?)?;
    let (json, code) = decode_report(api.ok_or("name the --api")?, status, &headers, &body);
    println!("{json}");
    Ok(u8::try_from(code)?)
}
