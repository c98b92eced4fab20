//! Promises kept to official clients: what they were once seen to ask is understood.

use std::path::{Path, PathBuf};

use bytes::BytesMut;
use wire::rocketmq::code::response;
use wire::rocketmq::frame::Command;

use crate::bench::Bench;

/// Requests that a broker answers, and not a name server or a client.
const ANSWERED: [i32; 47] = [
    10, 11, 12, 14, 15, 17, 21, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 41, 42, 43, 45, 46, 200, 201, 202, 203,
    204, 207, 208, 215, 222, 300, 303, 305, 310, 314, 315, 317, 320, 321, 328, 343, 345, 351, 352, 361,
];

fn requests(version: &str, form: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocketmq");
    let files = std::fs::read_dir(root.join(version).join(form)).expect("captured frames");
    let mut found: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(".request.bin"));
    found.sort();
    found
}

#[test]
fn what_official_clients_ask_is_understood_and_answered_in_their_form() {
    for (version, form) in [("4.9.7", "json"), ("4.9.7", "binary"), ("5.4.0", "json"), ("5.4.0", "binary")] {
        let bench = Bench::new();
        let mut answered = 0;
        for path in requests(version, form) {
            let bytes = std::fs::read(&path).expect("reads");
            let asked = Command::decode(&bytes).expect("a frame");
            if !ANSWERED.contains(&asked.header.code) {
                continue;
            }
            let mut client = bench.client();
            client.receive(&mut BytesMut::from(&bytes[..])).expect("a frame");
            // A pull may wait first.
            let mut replies = client.hear();
            replies.extend(client.wait(60_000));
            replies.retain(|reply| reply.is_response);
            let shown = path.display();
            assert_eq!(replies.len(), usize::from(!asked.header.is_one_way()), "{shown}");
            for reply in replies {
                assert_eq!((reply.opaque, reply.form), (asked.header.opaque, asked.form), "{shown}");
                let is_half_message = path.to_string_lossy().contains(".transaction.");
                assert_eq!(reply.code == response::REQUEST_CODE_NOT_SUPPORTED, is_half_message, "{shown}: {reply:?}");
                assert!(!reply.remark.contains("header field"), "{shown}: {}", reply.remark);
                assert!(!reply.remark.contains("cannot be read"), "{shown}: {}", reply.remark);
            }
            answered += 1;
            client.close();
        }
        assert!(answered > 20, "{version} {form}: only {answered} captured requests");
    }
}
