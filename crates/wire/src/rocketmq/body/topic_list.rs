//! A list of topics (206, 224, 304, 305, 311, 312, 313, 343).

use base::cursor::DecodeError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::json::{JsonDialect, decode, encode, null_as_default};

/// Names of topics, and perhaps the broker to ask for more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList<T: Default = String> {
    /// Address of a broker (304).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<T>,
    /// Names.
    #[serde(deserialize_with = "null_as_default")]
    pub topic_list: Vec<T>,
}

impl TopicList {
    /// Reads the body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("list of topics", body)
    }
}

impl<T: Default + Serialize> TopicList<T> {
    /// Writes the body.
    pub fn encode(&self) -> Bytes {
        encode(self, JsonDialect::Strict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_the_bytes_of_the_official_name_server() {
        let mut list = TopicList { broker_addr: None, topic_list: vec!["t1".to_owned()] };
        assert_eq!(list.encode(), r#"{"topicList":["t1"]}"#);
        list.broker_addr = Some("x".to_owned());
        assert_eq!(list.encode(), r#"{"brokerAddr":"x","topicList":["t1"]}"#);
        assert_eq!(TopicList::decode(&list.encode()), Ok(list));
        assert!(TopicList::decode(br#"{"topicList":{}}"#).is_err());
    }
}
