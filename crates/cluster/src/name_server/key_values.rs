//! The key-value table of a name server: text by namespace and key. The only thing a name server keeps over a restart.
//!
//! The sizes of all keys and values together stay within [`KEY_VALUES_SIZE_MAX`]. The table does not write files: it
//! tells whether it changed, and [`super::KeyValueFile`] replaces `kvConfig.json` whole. After a crash the last file
//! written holds.

use std::collections::BTreeMap;

use base::Refusal;
use base::cursor::preview;
use format::loose_json;
use serde_json::Value;

use crate::limits::{KEY_SIZE_MAX, KEY_VALUES_SIZE_MAX, VALUE_SIZE_MAX};

/// Namespace of the orders of queues: topic to `broker:count;broker:count`.
pub const ORDER_TOPIC_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

/// Text by namespace and key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValues {
    table: BTreeMap<String, BTreeMap<String, String>>,
    /// Bytes of all namespaces, keys and values.
    size: usize,
    is_changed: bool,
}

impl KeyValues {
    /// Reads `kvConfig.json`. A table that exceeds a bound is refused whole: dropping part of it would lose it at the
    /// next write.
    pub fn from_json(text: &[u8]) -> Result<Self, Refusal> {
        let bad = |problem: String| {
            let remedy = "correct the file, or move it away to start with an empty table";
            Refusal::BadRequest(format!("the key-value file cannot be read: {problem}; {remedy}"))
        };
        let tree = loose_json::parse(text).map_err(|error| bad(error.to_string()))?;
        let mut read = Self::default();
        let namespaces = match tree.get("configTable") {
            Some(Value::Object(namespaces)) => namespaces,
            None | Some(Value::Null) if tree.is_object() => return Ok(read),
            _ => return Err(bad("configTable is not an object".to_owned())),
        };
        for (namespace, keys) in namespaces {
            let Value::Object(keys) = keys else {
                return Err(bad(format!("namespace [{}] is not an object", preview(namespace.as_bytes()))));
            };
            read.table.entry(namespace.clone()).or_default();
            read.size += namespace.len();
            for (key, value) in keys {
                let Value::String(value) = value else {
                    return Err(bad(format!("key [{}] has a value that is not text", preview(key.as_bytes()))));
                };
                read.put(namespace, key, value).map_err(|refusal| bad(refusal.to_string()))?;
            }
        }
        read.is_changed = false;
        Ok(read)
    }

    /// Writes `kvConfig.json`.
    pub fn to_json(&self) -> String {
        serde_json::json!({ "configTable": self.table }).to_string()
    }

    /// Whether the table changed since this was last asked.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Has the table count as changed: what was taken could not be kept.
    pub fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Sets a value.
    pub fn put(&mut self, namespace: &str, key: &str, value: &str) -> Result<(), Refusal> {
        check_key("namespace", namespace)?;
        check_key("key", key)?;
        if value.len() > VALUE_SIZE_MAX {
            let problem =
                format!("the value of key [{key}] is {} bytes long; at most {VALUE_SIZE_MAX} are allowed", value.len());
            return Err(Refusal::BadRequest(problem));
        }
        let old_size = self.get(namespace, key).map_or(0, |old| key.len() + old.len());
        let namespace_size = if self.table.contains_key(namespace) { 0 } else { namespace.len() };
        let size = self.size - old_size + namespace_size + key.len() + value.len();
        if size > KEY_VALUES_SIZE_MAX {
            return Err(Refusal::Busy(format!(
                "the key-value table would hold {size} bytes, more than {KEY_VALUES_SIZE_MAX}; delete keys first"
            )));
        }
        self.table.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        self.size = size;
        self.is_changed = true;
        Ok(())
    }

    /// Removes a value, if it is there.
    pub fn delete(&mut self, namespace: &str, key: &str) {
        if let Some(old) = self.table.get_mut(namespace).and_then(|keys| keys.remove(key)) {
            self.size -= key.len() + old.len();
            self.is_changed = true;
        }
    }

    /// A value.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.table.get(namespace)?.get(key).map(String::as_str)
    }

    /// All keys and values of a namespace.
    pub fn list(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.table.get(namespace)
    }
}

fn check_key(kind: &'static str, text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.len() > KEY_SIZE_MAX {
        let problem = format!("the {kind} is {} bytes long; 1 to {KEY_SIZE_MAX} are allowed", text.len());
        return Err(Refusal::BadRequest(problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_kept_over_a_restart() {
        let mut table = KeyValues::default();
        assert!(!table.take_changed());
        table.put(ORDER_TOPIC_NAMESPACE, "topic", "a:4;b:4").expect("puts");
        table.put("other", "k\"é", "v\n").expect("puts");
        assert!(table.take_changed());
        assert!(!table.take_changed());
        assert_eq!(KeyValues::from_json(table.to_json().as_bytes()), Ok(table.clone()));
        table.delete("other", "k\"é");
        table.delete("other", "none");
        assert_eq!(table.get("other", "k\"é"), None);
        assert!(table.take_changed());
        assert_eq!(table.list("other"), Some(&BTreeMap::new()));
        table.delete(ORDER_TOPIC_NAMESPACE, "topic");
        assert_eq!(table.size, "other".len() + ORDER_TOPIC_NAMESPACE.len());
    }

    #[test]
    fn files_of_the_official_name_server_are_read() {
        let read = KeyValues::from_json(br#"{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"b:8"}}}"#).expect("reads");
        assert_eq!(read.get(ORDER_TOPIC_NAMESPACE, "t"), Some("b:8"));
        assert_eq!(KeyValues::from_json(b"{}"), Ok(KeyValues::default()));
        for text in
            ["", "[]", "7", r#"{"configTable":7}"#, r#"{"configTable":{"n":1}}"#, r#"{"configTable":{"n":{"k":1}}}"#]
        {
            assert!(KeyValues::from_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_table_stays_within_its_bounds() {
        let mut table = KeyValues::default();
        for (namespace, key) in [("", "k"), ("n", ""), ("n", &*"k".repeat(KEY_SIZE_MAX + 1))] {
            assert!(table.put(namespace, key, "v").is_err());
        }
        assert!(table.put("n", "k", &"v".repeat(65_537)).is_err());
        let value = "v".repeat(65_536);
        let fitting = (0..).take_while(|n| table.put("n", &format!("{n}"), &value).is_ok()).count();
        assert!(fitting < KEY_VALUES_SIZE_MAX / VALUE_SIZE_MAX + 1);
        table.put("n", "0", &value).expect("replacing takes no more room");
        table.delete("n", "0");
        table.put("n", "again", "v").expect("there is room after a delete");
    }
}
