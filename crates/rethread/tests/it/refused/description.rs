use rethread::{Tool, tool};

#[tool]
async fn undescribed(path: String) -> String {
    path
}

///
#[tool]
async fn blank() {}

// A use of a refused tool is not one more error.
fn main() {
    let _: &dyn Tool = &undescribed;
}
