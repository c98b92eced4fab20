//! Frames captured from official clients and brokers are taken apart and put together again, byte for byte.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests: what goes wrong is a failed test")]

use std::path::{Path, PathBuf};

use bytes::BytesMut;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command, Form};

fn captured() -> Vec<PathBuf> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq"));
    let mut found = Vec::new();
    for version in ["4.9.7", "5.4.0"] {
        for form in ["json", "binary"] {
            let folder = root.join(version).join(form);
            let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            found.extend(
                files
                    .map(|file| file.expect("a file").path())
                    .filter(|path| path.extension().is_some_and(|e| e == "bin")),
            );
        }
    }
    found.sort();
    found
}

#[test]
fn every_captured_frame_comes_back_as_it_was() {
    let files = captured();
    assert!(files.len() > 200, "only {} captured frames", files.len());
    for path in files {
        let bytes = std::fs::read(&path).expect("reads");
        assert_eq!(frame::frame_len(&bytes), Ok(Some(bytes.len())), "{}", path.display());
        let command = Command::decode(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let pairs = command.fields.pairs().expect("fields");
        let mut again = BytesMut::new();
        let write = |sink: &mut FieldSink<'_>| pairs.iter().for_each(|(name, value)| sink.text(name, value));
        frame::encode(&mut again, command.form, &command.header, write, command.body);
        match command.form {
            Form::Binary if u32::try_from(command.header.code).is_ok_and(|code| code < 0x8000) => {
                assert_eq!(&again[..], &bytes[..], "{}", path.display());
            }
            // JSON may order members in other ways, and large codes come back whole: compared by what they say.
            _ => {
                let second = Command::decode(&again).expect("decodes");
                assert_eq!(second.header, command.header, "{}", path.display());
                assert_eq!(second.fields.pairs().expect("fields"), pairs);
                assert_eq!(second.body, command.body);
            }
        }
    }
}

/// Reads the fields of a captured request as a typed header.
macro_rules! typed {
    ($command:expr, $($name:literal => $type:ident $(in $table:ident)?),* $(,)?) => {
        match $command {
            $($name => |fields: &wire::rocketmq::field::Fields<'_>| {
                use wire::rocketmq::field::TypedHeader;
                wire::rocketmq::$($table::)?header::$type::decode(fields).map(|_| ()).map_err(|error| error.to_string())
            },)*
            _ => |_: &wire::rocketmq::field::Fields<'_>| Ok(()),
        }
    };
}

#[test]
fn every_captured_request_has_the_header_we_expect_of_it() {
    let mut checked = 0;
    for path in captured() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let Some(name) = name.strip_suffix(".request.bin") else { continue };
        let bytes = std::fs::read(&path).expect("reads");
        let command = Command::decode(&bytes).expect("decodes");
        let kind = name.split(['-', '.']).nth(1).expect("a code name");
        let decode: fn(&wire::rocketmq::field::Fields<'_>) -> Result<(), String> = typed!(kind,
            "SEND_MESSAGE" => SendRequestV1,
            "SEND_MESSAGE_V2" => SendRequest,
            "SEND_BATCH_MESSAGE" => SendRequest,
            "PULL_MESSAGE" => PullRequest,
            "LITE_PULL_MESSAGE" => PullRequest,
            "QUERY_MESSAGE" => QueryMessageRequest,
            "QUERY_CONSUMER_OFFSET" => QueryConsumerOffsetRequest,
            "UPDATE_CONSUMER_OFFSET" => UpdateConsumerOffsetRequest,
            "UPDATE_AND_CREATE_TOPIC" => CreateTopicRequest,
            "SEARCH_OFFSET_BY_TIMESTAMP" => SearchOffsetRequest,
            "GET_MAX_OFFSET" => QueueRequest,
            "GET_MIN_OFFSET" => QueueRequest,
            "GET_EARLIEST_MSG_STORETIME" => QueueRequest,
            "VIEW_MESSAGE_BY_ID" => ViewMessageRequest,
            "UNREGISTER_CLIENT" => UnregisterClientRequest,
            "CONSUMER_SEND_MSG_BACK" => SendBackRequest,
            "GET_CONSUMER_LIST_BY_GROUP" => ConsumerGroupRequest,
            "REGISTER_BROKER" => RegisterBrokerRequest,
            "UNREGISTER_BROKER" => BrokerIdentityRequest,
            "GET_ROUTEINFO_BY_TOPIC" => RouteRequest,
            "GET_CONSUME_STATS" => ConsumeStatsRequest,
            "INVOKE_BROKER_TO_RESET_OFFSET" => ResetOffsetRequest,
            "GET_TOPIC_STATS_INFO" => TopicRequest,
            "DELETE_SUBSCRIPTIONGROUP" => DeleteGroupRequest,
            "POP_MESSAGE" => PopRequest in pop,
            "ACK_MESSAGE" => AckRequest in pop,
            "CHANGE_MESSAGE_INVISIBLETIME" => ChangeInvisibleTimeRequest in pop,
        );
        decode(&command.fields).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        checked += 1;
    }
    assert!(checked > 100, "only {checked} requests");
}
