use rethread::{AsJson, ToolContext, tool, tool_fn};

struct Point;

/// Takes what a model cannot fill in.
#[tool]
async fn take(name: String, point: Point) -> String {
    let _ = point;
    name
}

/// Gives back what is no result.
#[tool]
async fn give() -> Point {
    Point
}

/// Gives back what is no result, if it succeeds.
#[tool]
fn try_give() -> Result<Point, String> {
    Ok(Point)
}

fn main() {
    tool_fn("take", "Takes.", async |_: ToolContext, _: Point| "x");
    tool_fn("give", "Gives.", async |_: ToolContext, _: AsPoint| Point);
    let _ = AsJson(Point);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct AsPoint {}
