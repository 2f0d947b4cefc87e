//! The program from outside: what it prints, how it ends, and what it survives.

mod answers;
mod bad_input;
mod crash;
mod demo;
mod help;
mod histories;
mod look;
mod program;
mod runs;
mod tools;
