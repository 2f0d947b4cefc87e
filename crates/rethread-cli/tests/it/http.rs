//! The request after a kill and a resume, as a server receives it, for each of the four APIs. The
//! server refuses what the real services refuse.

use std::time::{Duration, Instant};

use rethread_testserver::{Fault, Reply, Script, Server};

use crate::program::Place;

struct Service {
    model: &'static str,
    variables: [(&'static str, &'static str); 2],
    /// What stands between the server's address and the API's paths.
    base: &'static str,
}

const SERVICES: [Service; 4] = [
    Service {
        model: "anthropic:claude-sonnet-5-5",
        variables: [("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_BASE_URL", "")],
        base: "",
    },
    Service {
        model: "openai:gpt-5.6",
        variables: [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "")],
        base: "/v1",
    },
    Service {
        model: "responses:gpt-5.6",
        variables: [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "")],
        base: "/v1",
    },
    Service {
        model: "gemini:gemini-3-pro",
        variables: [("GEMINI_API_KEY", "k"), ("GEMINI_BASE_URL", "")],
        base: "",
    },
];

/// Thinks, reads two files, then answers.
fn script(fault: Option<Fault>) -> Script {
    let mut answer = Reply::text("Both say hello.");
    if let Some(fault) = fault {
        answer = answer.fault(fault);
    }
    Script::new([
        Reply::text("I look.")
            .reasoning("Two files to read.")
            .call("toolu_1", "read_file", r#"{"path": "a.txt"}"#)
            .call("toolu_2", "read_file", r#"{"path": "b.txt"}"#),
        answer,
    ])
    .by_turns()
}

impl Service {
    fn place(&self) -> Place {
        let place = Place::new();
        place.write("a.txt", "hello\u{2028}\u{1f600}\n");
        place.write("b.txt", "hello \"b\"\t\n");
        place
    }

    fn command(&self, place: &Place, server: &Server, args: &[&str]) -> std::process::Command {
        let mut command = place.command(args);
        command.args(["--model", self.model, "--json"]);
        let [(key, value), (url, _)] = self.variables;
        command
            .env(key, value)
            .env(url, format!("{}{}", server.url(), self.base));
        command
    }

    fn ends_well(&self, place: &Place, server: &Server, args: &[&str]) {
        let output = self.command(place, server, args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}: {said}\n{:#?}",
            self.model,
            server.problems()
        );
        assert_eq!(server.problems(), Vec::<String>::new(), "{}", self.model);
    }
}

/// Waits until the server has so many requests.
fn wait_for(server: &Server, requests: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while server.requests().len() < requests {
        assert!(Instant::now() < end, "the request did not come");
        std::thread::yield_now();
    }
}

#[test]
fn the_request_after_a_kill_is_the_one_of_a_run_that_was_not() {
    for service in &SERVICES {
        let (place, server) = (service.place(), Server::start(script(None)).unwrap());
        service.ends_well(
            &place,
            &server,
            &["run", "Compare a and b", "--session", "s"],
        );
        let whole = server.requests();
        assert_eq!(whole.len(), 2, "{}", service.model);

        // Killed while it waits for the second response, with both results stored.
        let (place, server) = (
            service.place(),
            Server::start(script(Some(Fault::Hang))).unwrap(),
        );
        let mut child = service
            .command(
                &place,
                &server,
                &["run", "Compare a and b", "--session", "s"],
            )
            .spawn()
            .unwrap();
        wait_for(&server, 2);
        child.kill().unwrap();
        child.wait().unwrap();
        service.ends_well(&place, &server, &["resume", "s"]);

        let resumed = server.requests();
        let [first, cut, after] = resumed.as_slice() else {
            panic!("{}: {} requests", service.model, resumed.len());
        };
        for (name, body, want) in [
            ("first", first, &whole[0]),
            ("second", cut, &whole[1]),
            ("resumed", after, &whole[1]),
        ] {
            let (body, want) = (&body.body, &want.body);
            assert!(
                body == want,
                "{}: the {name} request differs\n{}\n{}",
                service.model,
                String::from_utf8_lossy(body),
                String::from_utf8_lossy(want)
            );
        }
    }
}

#[test]
fn a_stream_that_breaks_off_is_retried_by_a_resume() {
    for service in &SERVICES {
        let cut = Script::new([
            Reply::text("A long answer in many words, of which only some arrive.")
                .piece(4)
                .fault(Fault::CutAfterEvents(8)),
            Reply::text("All of it."),
        ]);
        let (place, server) = (service.place(), Server::start(cut).unwrap());
        let output = service
            .command(&place, &server, &["run", "Tell me", "--session", "s"])
            .output()
            .unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{}: {said}", service.model);
        assert_eq!(said["stop"]["reason"], "interrupted", "{}", service.model);
        service.ends_well(&place, &server, &["resume", "s"]);
    }
}
