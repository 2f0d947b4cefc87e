//! `edit_file`.

use rethread_core::ToolError;

use super::read::read_text;
use super::root::Root;
use super::write::replace;

pub(super) fn edit_file(
    root: &Root,
    path: &str,
    old: &str,
    new: &str,
) -> Result<String, ToolError> {
    if old.is_empty() {
        return Err(ToolError::new(
            "`old` is empty; give the text to replace, or write the file whole",
        ));
    }
    let text = read_text(root, path)?;
    let edited = match text.matches(old).count() {
        1 => text.replacen(old, new, 1),
        0 => {
            return Err(ToolError::new(format!(
                "`old` does not stand in `{path}`; read the file again"
            )));
        }
        n => {
            return Err(ToolError::new(format!(
                "`old` stands in `{path}` {n} times; give more of the text around it"
            )));
        }
    };
    replace(&root.find(path, false)?, path, &edited)?;
    Ok(format!("edited {path}"))
}
