#![allow(unused_imports)]

use std::path::Path;

use rethread::{ToolContext, tool};

/// Borrows a text.
#[tool]
async fn text(path: &str) {}

/// Borrows other things.
#[tool]
async fn others(path: &Path, lines: &[String], count: &mut u32, maybe: Option<&str>) {}

/// Takes a pair apart.
#[tool]
async fn pattern((a, b): (u32, u32), _: u32) {}

/// Does not name a type.
#[tool]
async fn unnamed(text: impl Into<String>) {}

/// Has the context last.
#[tool]
async fn last(path: String, context: ToolContext) {}

/// Borrows the context.
#[tool]
async fn borrowed(context: &ToolContext) {}

fn main() {}
