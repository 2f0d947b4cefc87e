//! `rethread-bench WORKLOAD 'JSON'` runs one workload and prints one JSON object as its last line.
//!
//! | workload | what is done |
//! | --- | --- |
//! | data | messages for the others, when none are at hand |
//! | fixture | a store with one session, and perhaps ten thousand others |
//! | w1 | durable appends |
//! | w2 | cold: where was the session interrupted? |
//! | w3 | cold: up to the encoded body of the first request |
//! | w4 | whole turns of two steps and two tools |
//! | w6 | a streamed delta to the consumer of a run |

mod data;
mod measure;
mod model;
mod workloads;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (workload, json) = (
        args.next().unwrap_or_default(),
        args.next().unwrap_or_else(|| "{}".to_owned()),
    );
    let result = serde_json::from_str(&json)
        .map_err(|error| format!("the arguments are not JSON: {error}"))
        .and_then(|arguments| workloads::run(&workload, &arguments));
    let (line, code) = match result {
        Ok(line) => (line, ExitCode::SUCCESS),
        Err(error) => (
            serde_json::json!({ "failed": error }).to_string(),
            ExitCode::FAILURE,
        ),
    };
    // The last line of standard output is the result.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{line}\n").as_bytes());
    code
}
