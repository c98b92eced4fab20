//! A list of topics (206, 224, 304, 305, 311, 312, 313, 343).

use base::cursor::DecodeError;
use bytes::{Bytes, BytesMut};
use serde::Deserialize;

use super::json::{ObjectWriter, decode, null_as_default, put_texts};

/// Names of topics, and perhaps the broker to ask for more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// Address of a broker (304).
    pub broker_addr: Option<String>,
    /// Names.
    #[serde(deserialize_with = "null_as_default")]
    pub topic_list: Vec<String>,
}

impl TopicList {
    /// Reads the body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("list of topics", body)
    }

    /// Writes the body.
    pub fn encode(&self) -> Bytes {
        encode_list(self.broker_addr.as_deref(), &self.topic_list)
    }
}

/// Writes `topics` as such a body, without collecting them first.
pub fn encode_list<T: AsRef<str>>(broker_address: Option<&str>, topics: impl IntoIterator<Item = T>) -> Bytes {
    let mut out = BytesMut::new();
    let mut object = ObjectWriter::new(&mut out);
    object.optional_text("brokerAddr", broker_address);
    put_texts(object.member("topicList"), topics);
    object.end();
    out.freeze()
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
