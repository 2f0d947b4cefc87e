//! Looking into JSON without a chance to panic.

use serde_json::Value;

/// Fields of a value that may be anything.
pub(crate) trait At {
    /// The field, or null if there is none.
    fn at(&self, key: &str) -> &Value;

    /// Set a field, if this is an object.
    fn put(&mut self, key: &str, value: Value);
}

impl At for Value {
    fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&Value::Null)
    }

    fn put(&mut self, key: &str, value: Value) {
        if let Some(map) = self.as_object_mut() {
            map.insert(key.to_owned(), value);
        }
    }
}
