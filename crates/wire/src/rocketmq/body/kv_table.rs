//! A table of keys and values (28, 103, 219).

use std::collections::BTreeMap;

use base::cursor::DecodeError;
use bytes::Bytes;
use serde::Deserialize;

use super::json::{JsonDialect, decode, encode, null_as_default};

/// Keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KvTable {
    /// Value by key.
    #[serde(deserialize_with = "null_as_default")]
    pub table: BTreeMap<String, String>,
}

impl KvTable {
    /// Reads the body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("table of keys and values", body)
    }

    /// Writes the body.
    pub fn encode(&self) -> Bytes {
        encode_table(&self.table)
    }
}

/// Writes `table` as such a body.
pub fn encode_table(table: &BTreeMap<String, String>) -> Bytes {
    encode(&BTreeMap::from([("table", table)]), JsonDialect::Strict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_bytes_of_the_official_name_server() {
        assert_eq!(KvTable::default().encode(), r#"{"table":{}}"#);
        let table = KvTable { table: BTreeMap::from([("k".to_owned(), "v".to_owned())]) };
        assert_eq!(table.encode(), r#"{"table":{"k":"v"}}"#);
        assert_eq!(KvTable::decode(&table.encode()), Ok(table));
        assert_eq!(KvTable::decode(br#"{"table":null}"#), Ok(KvTable::default()));
        assert!(KvTable::decode(br#"{"table":{"k":1}}"#).is_err());
    }
}
