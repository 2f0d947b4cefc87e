use crate::program::Place;

#[test]
fn help_says_what_there_is() {
    let place = Place::new();
    insta::assert_snapshot!("help", place.ends(0, &["--help"]).stdout);
    for command in [
        "run", "resume", "why", "show", "ls", "answer", "import", "export", "fork", "rm", "check",
        "repair", "decode", "demo",
    ] {
        let help = place.ends(0, &[command, "--help"]).stdout;
        insta::assert_snapshot!(format!("help_{command}"), help);
    }
}

#[test]
fn the_version_is_told() {
    let version = Place::new().ends(0, &["--version"]).stdout;
    assert_eq!(version, format!("rethread {}\n", env!("CARGO_PKG_VERSION")));
}
