//! Mistakes that are compile errors, and what they say to write.
//!
//! `TRYBUILD=overwrite` writes the expected messages anew.

#[test]
fn mistakes_are_compile_errors_that_say_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/it/refused/*.rs");
}
