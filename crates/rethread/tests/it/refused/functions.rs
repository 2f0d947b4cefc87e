use rethread::tool;

/// Is generic.
#[tool]
async fn generic<T>(value: T) {}

/// Has a lifetime.
#[tool]
async fn lifetime<'a>(text: std::borrow::Cow<'a, str>) {}

struct Editor;

impl Editor {
    /// Is a method.
    #[tool]
    async fn method(&self, path: String) {}
}

/// Is unsafe.
#[tool]
unsafe fn danger() {}

/// Is foreign.
#[tool]
extern "C" fn foreign() {}

/// Hides what it gives back.
#[tool]
fn hidden() -> impl std::fmt::Display {
    "x"
}

/// Is no function.
#[tool]
struct Record;

fn main() {}
