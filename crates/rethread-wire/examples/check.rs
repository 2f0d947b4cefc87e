//! Checks or repairs a history file:
//! `check check FILE [--format F] [--for API] [--target JSON] [--json]`,
//! `check repair FILE [--format F] --for API [--target JSON] [--append TEXT] [--json]`.

use std::error::Error;
use std::process::ExitCode;

use rethread_wire::formats::{Format, read, recognise};
use rethread_wire::rules::Target;
use rethread_wire::{Api, Check, check_report, explain_changes, repair, repair_report};

#[allow(clippy::print_stderr)]
fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("check: {error}");
            ExitCode::from(2)
        }
    }
}

#[allow(clippy::print_stdout)]
fn run() -> Result<u8, Box<dyn Error>> {
    let (mut names, mut format, mut api, mut target) = (Vec::new(), None, None, Target::default());
    let (mut append, mut json) = (None, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => json = true,
            "--format" => format = Some(value()?.parse::<Format>()?),
            "--for" => api = Some(value()?.parse::<Api>()?),
            "--target" => target = Target::parse(&value()?)?,
            "--append" => append = Some(value()?),
            _ => names.push(arg),
        }
    }
    let [command, file] = names.as_slice() else {
        return Err("name `check` or `repair` and a file".into());
    };
    let bytes = std::fs::read(file)?;
    let format = format.map_or_else(|| recognise(&bytes), Ok)?;
    let loaded = read(&bytes, format);
    if loaded.is_unreadable() {
        return Err(format!("{file} is no history in the format {format}").into());
    }
    let (lines, code) = match command.as_str() {
        "check" if json => {
            let (text, code) = check_report(&loaded, api, &target);
            (vec![text], code)
        }
        "check" => {
            let check = Check::of(&loaded, api, &target);
            (check.explain(), check.exit_code())
        }
        "repair" => {
            let api = api.ok_or("name the API with --for")?;
            if json {
                let (text, code) = repair_report(&loaded, api, &target, append.as_deref());
                (vec![text], code)
            } else {
                let repaired = repair(&loaded, api, &target, append.as_deref());
                (explain_changes(format, &repaired.changes), 0)
            }
        }
        other => return Err(format!("`{other}` is neither `check` nor `repair`").into()),
    };
    for line in lines {
        println!("{line}");
    }
    Ok(u8::try_from(code)?)
}
