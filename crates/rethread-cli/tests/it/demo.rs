use crate::program::Place;

#[test]
fn the_demo_shows_a_kill_and_a_resume_and_cleans_up() {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    let output = place
        .command(&["demo"])
        .env("TMPDIR", place.path("tmp"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    insta::assert_snapshot!(told);
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    assert!(!place.path("sessions.db").exists());

    let kept = place
        .command(&["demo", "--keep"])
        .env("TMPDIR", place.path("tmp"))
        .output()
        .unwrap();
    assert!(kept.status.success());
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 1);
}
