use rethread::tool;

/// Has an unknown option.
#[tool(colour = "red")]
async fn unknown() {}

/// Has options that are nearly right.
#[tool(parallel, timeout = 5, approve, rename = "x")]
async fn near() {}

/// Is repeated in no known way.
#[tool(repeat = "sometimes")]
async fn repeated() {}

/// Is repeated in no way at all.
#[tool(repeat)]
async fn repeat() {}

/// Has no time.
#[tool(timeout_secs = 0)]
async fn zero() {}

/// Has no whole time.
#[tool(timeout_secs = 1.5)]
async fn fraction() {}

/// Is serial in its own way.
#[tool(serial = true)]
async fn serial() {}

/// Says it twice.
#[tool(serial, serial)]
async fn twice() {}

/// Asks nothing.
#[tool(ask)]
async fn nothing() {}

/// Asks for what is not there.
#[tool(ask = "Run {comand}?")]
async fn run(command: String, dir: String) {}

/// Asks for what cannot be there.
#[tool(ask = "Run {}?")]
async fn none() {}

/// Has a name no provider takes.
#[tool(name = "write file")]
async fn name() {}

/// Has a number for a name.
#[tool(name = 5)]
async fn number() {}

/// Has no list of options.
#[tool(serial repeat)]
async fn list() {}

fn main() {}
