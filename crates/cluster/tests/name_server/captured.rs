//! Promises kept to the byte: requests captured from official brokers, clients and tools get the body that the official
//! name server gave.

use std::path::{Path, PathBuf};

use cluster::name_server::options::Options;
use wire::rocketmq::frame::Command;

use crate::client::{Client, name_server};

/// A captured frame, if it is there.
fn frame(version: &str, form: &str, name: &str) -> Option<Vec<u8>> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocketmq");
    std::fs::read(root.join(version).join(form).join(name)).ok()
}

#[test]
fn captured_requests_get_the_captured_answers() {
    let mut compared = 0;
    for (version, form) in [("4.9.7", "json"), ("4.9.7", "binary"), ("5.4.0", "json"), ("5.4.0", "binary")] {
        let Some(register) = frame(version, form, "103-REGISTER_BROKER.request.bin") else { continue };
        let mut client = Client::new(&name_server(Options::default()));
        assert_eq!(client.send(&register)[0].code, 0, "{version} {form}");
        let names = [
            "106-GET_BROKER_CLUSTER_INFO",
            "901-GET_BROKER_MEMBER_GROUP",
            "105-GET_ROUTEINFO_BY_TOPIC.code-17",
            "104-UNREGISTER_BROKER",
            "100-PUT_KV_CONFIG",
            "102-DELETE_KV_CONFIG",
            "904-BROKER_HEARTBEAT",
        ];
        for name in names {
            let Some(request) = frame(version, form, &format!("{name}.request.bin")) else { continue };
            let Some(expected) = frame(version, form, &format!("{name}.response.bin")) else { continue };
            let expected = Command::decode(&expected).expect("answer");
            let reply = client.send(&request).remove(0);
            let ours = (reply.code, reply.opaque, reply.form);
            assert_eq!(ours, (expected.header.code, expected.header.opaque, expected.form), "{version} {form} {name}");
            let theirs = String::from_utf8_lossy(expected.body);
            // Name servers before 5.0 do not tell of acting masters.
            let is_older = version.starts_with('4');
            let text = if is_older {
                reply.text().replace(",\"enableActingMaster\":false", "")
            } else {
                reply.text().to_owned()
            };
            assert_eq!(text, theirs, "{version} {form} {name}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "captured frames are missing");
}

#[test]
fn a_topic_that_a_broker_packs_without_saying_so_is_registered() {
    let Some(single) = frame("5.4.0", "json", "103-REGISTER_BROKER.code-1.request.bin") else { return };
    let register = frame("5.4.0", "json", "103-REGISTER_BROKER.request.bin").expect("captured");
    let mut client = Client::new(&name_server(Options::default()));
    client.send(&register);
    let reply = client.send(&single).remove(0);
    assert_eq!(reply.code, 0, "{:?}", reply.remark);
}
