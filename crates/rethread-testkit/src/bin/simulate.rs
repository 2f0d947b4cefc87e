//! Runs the crash simulator: `simulate [--points N] [--seed S] [--trace SEED:POINT:crash|other]`.
//!
//! Plays scripts from seed S on until processes died N times, and ends with 1 if anything did not
//! hold.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rethread_testkit::{Report, Simulator};

/// How many violations are told.
const TOLD: usize = 10;

struct Arguments {
    points: u64,
    seed: u64,
    trace: Option<(u64, u64, bool)>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        points: 100_000,
        seed: 0,
        trace: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given
            .next()
            .ok_or_else(|| format!("`{name}` needs a value"))?;
        let number = |text: &str| -> Result<u64, String> {
            text.parse()
                .map_err(|_| format!("`{name}` needs a number, not `{text}`"))
        };
        match name.as_str() {
            "--points" => found.points = number(&value)?,
            "--seed" => found.seed = number(&value)?,
            "--trace" => {
                let mut parts = value.split(':');
                let seed = number(parts.next().unwrap_or(""))?;
                let point = number(parts.next().unwrap_or("0"))?;
                found.trace = Some((seed, point, parts.next() != Some("other")));
            }
            _ => {
                return Err(format!(
                    "`{name}` is unknown; there are --points N, --seed S and --trace SEED:POINT:crash|other"
                ));
            }
        }
    }
    Ok(found)
}

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            writeln!(io::stderr(), "{problem}")?;
            return Ok(ExitCode::from(2));
        }
    };
    if let Some((seed, point, crash)) = arguments.trace {
        write!(out, "{}", Simulator::new(seed).trace(point, crash))?;
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let (mut report, mut told) = (Report::default(), begun);
    let mut seed = arguments.seed;
    while report.crash_points < arguments.points && report.violations.len() < TOLD {
        report.add(Simulator::new(seed).run());
        seed += 1;
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            writeln!(
                out,
                "{} crash points of {} scripts",
                report.crash_points, report.scripts
            )?;
        }
    }
    for violation in report.violations.iter().take(TOLD) {
        writeln!(out, "{violation}")?;
    }
    let found = report.violations.len();
    writeln!(
        out,
        "{} crash points and {} other interruptions of {} scripts in {:.1} s: {found} violations",
        report.crash_points,
        report.interruptions,
        report.scripts,
        begun.elapsed().as_secs_f64()
    )?;
    Ok(if found == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
