//! Typed headers, decoded from arbitrary fields.

use std::borrow::Cow;

use bytes::BytesMut;
use wire::rocketmq::field::{Fields, TypedHeader};
use wire::rocketmq::frame::{self, Command, Form, Header, Language};

macro_rules! decode_each_header {
    ($($name:ident),*) => {
        pub(super) fn decode_each(fields: &Fields<'_>) {
            $(if let Ok(first) = $name::decode(fields) {
                for form in [Form::Json, Form::Binary] {
                    let bytes = write(form, &first);
                    let command = Command::decode(&bytes).expect("what was written decodes");
                    assert_eq!($name::decode(&command.fields).as_ref(), Ok(&first));
                }
            })*
        }
    };
}

mod plain {
    use wire::rocketmq::header::*;

    use super::*;

    wire::every_rocketmq_header!(decode_each_header);
}

mod pop {
    use wire::rocketmq::pop::header::*;

    use super::*;

    wire::every_rocketmq_pop_header!(decode_each_header);
}

fn decode_each(fields: &Fields<'_>) {
    plain::decode_each(fields);
    pop::decode_each(fields);
}

fn write<'a>(form: Form, typed: &impl TypedHeader<'a>) -> BytesMut {
    let header = Header { code: 0, language: Language::RUST, version: 493, opaque: 1, flag: 0, remark: None };
    let mut out = BytesMut::new();
    frame::encode(&mut out, form, &header, |sink| typed.encode(sink), b"");
    out
}

/// Every header that can be made of the fields comes back the same after it was written. The input is a frame, or
/// else the fields alone in the binary form.
pub fn run(data: &[u8]) {
    match Command::decode(data) {
        Ok(command) => decode_each(&command.fields),
        Err(_) => {
            if let Ok(fields) = Fields::binary(data) {
                decode_each(&fields);
            }
        }
    }
}

/// Fields of pop consumption that no other request or answer has.
const POP_FIELDS: &[&str] = &[
    "attemptId",
    "bornTime",
    "exp",
    "expType",
    "extraInfo",
    "hasMsg",
    "initMode",
    "invisibleTime",
    "msgOffsetInfo",
    "orderCountInfo",
    "pollTime",
    "pollingFull",
    "pollingNum",
    "popTime",
    "restNum",
    "reviveQid",
    "startOffsetInfo",
];

/// Captured frames, and the fields of every request with usual and with odd values.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = crate::golden::frames();
    for value in ["", "0", "-1", "true", "9223372036854775807", "orders"] {
        let names = crate::requests::DEFAULTS.iter().map(|&(name, _)| name).chain(POP_FIELDS.iter().copied());
        let pairs = names.map(|name| (Cow::Borrowed(name), Cow::Borrowed(value)));
        seeds.push(write(Form::Binary, &Pairs(pairs.collect())).to_vec());
    }
    seeds
}

struct Pairs(Vec<(Cow<'static, str>, Cow<'static, str>)>);

impl<'a> TypedHeader<'a> for Pairs {
    fn decode(_: &Fields<'a>) -> Result<Self, wire::rocketmq::field::HeaderError> {
        Ok(Self(Vec::new()))
    }

    fn encode(&self, sink: &mut wire::rocketmq::field::FieldSink<'_>) {
        self.0.iter().for_each(|(name, value)| sink.text(name, value));
    }
}
