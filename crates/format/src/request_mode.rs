//! How groups ask for messages, where somebody has said so of a topic and a group: the same shape in RocketMQ's file
//! `messageRequestMode.json`, in the request that sets it (401) and in the answer that tells of all (402).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether consumers ask with the offset they have come to, or are handed what nobody else has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RequestMode {
    /// A queue is read by one member of the group, which knows its offset.
    #[default]
    Pull,
    /// Several members share a queue, and the broker knows who has what.
    Pop,
}

impl RequestMode {
    /// As documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pull => "PULL",
            Self::Pop => "POP",
        }
    }
}

/// How a group asks for the messages of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestModeDocument {
    /// Group.
    pub consumer_group: String,
    /// Its mode.
    pub mode: RequestMode,
    /// With `Pop`: of how many other members each one shares the queues; 0 and below: of all.
    pub pop_share_queue_num: i32,
    /// Topic.
    pub topic: String,
}

/// Modes by topic and group.
pub type RequestModes = BTreeMap<String, BTreeMap<String, RequestModeDocument>>;

/// `messageRequestMode.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestModeTableDocument {
    /// All of them.
    pub message_request_mode_map: RequestModes,
}

impl RequestModeTableDocument {
    /// With topic and group in each entry, whatever it says itself.
    pub(crate) fn named(self) -> RequestModes {
        let mut modes = self.message_request_mode_map;
        for (topic, groups) in &mut modes {
            for (group, settings) in groups {
                settings.topic.clone_from(topic);
                settings.consumer_group.clone_from(group);
            }
        }
        modes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 5.4.0 writes it.
    const OF_JAVA: &str = r#"{"messageRequestModeMap":{"orders":{"billing":{"consumerGroup":"billing","mode":"POP","popShareQueueNum":-1,"topic":"orders"}}}}"#;

    #[test]
    fn the_document_of_a_java_broker_is_read_and_written_alike() {
        let read: RequestModeTableDocument = serde_json::from_str(OF_JAVA).expect("reads");
        let billing = &read.message_request_mode_map["orders"]["billing"];
        assert_eq!((billing.mode, billing.pop_share_queue_num), (RequestMode::Pop, -1));
        assert_eq!(serde_json::to_string(&read).expect("writes"), OF_JAVA);
    }

    #[test]
    fn what_an_entry_leaves_out_is_as_java_takes_it() {
        let text = r#"{"messageRequestModeMap":{"orders":{"billing":{}}},"other":1}"#;
        let read: RequestModeTableDocument = serde_json::from_str(text).expect("reads");
        let wanted = RequestModeDocument {
            consumer_group: "billing".to_owned(),
            topic: "orders".to_owned(),
            mode: RequestMode::Pull,
            pop_share_queue_num: 0,
        };
        assert_eq!(read.named()["orders"]["billing"], wanted);
    }
}
