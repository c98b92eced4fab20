//! The two numbers of a reply that matter to a sender, read without decoding the rest.
//!
//! Binary headers have them at fixed offsets. JSON headers are scanned for them; what the scan is not sure of is decoded
//! properly by `wire`.

use base::cursor::DecodeError;
use wire::rocketmq::code::response;
use wire::rocketmq::frame::{Command, FLAG_RESPONSE, PREFIX_SIZE};

/// Where a frame has the form of its header, and what stands there for a binary one, whose fields have fixed offsets.
pub const FORM_AT: usize = 4;
/// See `FORM_AT`.
pub const BINARY: u8 = 1;
/// Two bytes of a binary header: its code.
pub const CODE_AT: usize = PREFIX_SIZE;
/// Four bytes of a binary header: the number of its request.
pub const OPAQUE_AT: usize = CODE_AT + 2 + 1 + 2;
const FLAG_AT: usize = OPAQUE_AT + 4;

/// What a refusal says for people: the name of its code, and its remark.
pub fn words_of(code: i32, frame: &[u8]) -> (&'static str, String) {
    let remark = Command::decode(frame).ok().and_then(|command| command.header.remark);
    (response::name(code), remark.unwrap_or_default().into_owned())
}

/// What a frame answers, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// Code of the reply; 0 is success.
    pub code: i32,
    /// Number of the request it answers.
    pub opaque: i32,
}

/// Reads the head of one complete frame; `None` if it is a request of the peer.
pub fn head(frame: &[u8]) -> Result<Option<ReplyHead>, DecodeError> {
    let fast = if frame.get(FORM_AT) == Some(&BINARY) { binary_head(frame) } else { json_head(frame) };
    match fast {
        Some((head, is_response)) => Ok(is_response.then_some(head)),
        None => {
            let header = Command::decode(frame)?.header;
            Ok(header.is_response().then_some(ReplyHead { code: header.code, opaque: header.opaque }))
        }
    }
}

fn binary_head(frame: &[u8]) -> Option<(ReplyHead, bool)> {
    let code = i32::from(i16::from_be_bytes(*frame.get(CODE_AT..)?.first_chunk()?));
    let opaque = i32::from_be_bytes(*frame.get(OPAQUE_AT..)?.first_chunk()?);
    let flag = i32::from_be_bytes(*frame.get(FLAG_AT..)?.first_chunk()?);
    Some((ReplyHead { code, opaque }, flag & FLAG_RESPONSE != 0))
}

/// Sure only of a header that begins with its code and whose last `"opaque":` and `"flag":` stand before plain
/// numbers. (In a remark their quotes would be escaped; extension fields hold texts, never numbers.)
fn json_head(frame: &[u8]) -> Option<(ReplyHead, bool)> {
    let header_len = u32::from_be_bytes(*frame.get(FORM_AT..)?.first_chunk()?) & 0x00FF_FFFF;
    let header = frame.get(PREFIX_SIZE..PREFIX_SIZE + header_len as usize)?;
    let code = number(header.strip_prefix(b"{\"code\":")?)?;
    let opaque = number_after(header, b"\"opaque\":")?;
    let flag = number_after(header, b"\"flag\":")?;
    Some((ReplyHead { code, opaque }, flag & FLAG_RESPONSE != 0))
}

fn number_after(header: &[u8], name: &[u8]) -> Option<i32> {
    let at = header.windows(name.len()).rposition(|window| window == name)?;
    number(header.get(at + name.len()..)?)
}

fn number(text: &[u8]) -> Option<i32> {
    let size = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-')?;
    std::str::from_utf8(text.get(..size)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use wire::rocketmq::frame::{self, Form, Header, Language};

    fn frame(form: Form, code: i32, opaque: i32, flag: i32, remark: Option<&str>) -> BytesMut {
        let header =
            Header { code, language: Language::JAVA, version: 493, opaque, flag, remark: remark.map(Into::into) };
        let mut out = BytesMut::new();
        let fields = |sink: &mut frame_sink::FieldSink<'_>| {
            sink.text("msgId", "7F00000100002A9F0000000000001234");
            sink.text("opaque", "12");
            sink.number("queueId", 3);
        };
        frame::encode(&mut out, form, &header, fields, b"\"opaque\":5,\"flag\":0,");
        out
    }

    use wire::rocketmq::field as frame_sink;

    #[test]
    fn the_fast_way_agrees_with_the_whole_decoder() {
        for form in [Form::Binary, Form::Json] {
            for (code, opaque) in [(0, 1 << 30), (2, i32::MAX), (14, 0), (1, -1), (208, 1_073_741_900)] {
                for (flag, remark) in [(1, None), (1, Some("\"opaque\":7,\"flag\":0,")), (0, None), (3, Some("busy"))] {
                    let bytes = frame(form, code, opaque, flag, remark);
                    let decoded = Command::decode(&bytes).expect("decodes").header;
                    let wanted = decoded.is_response().then_some(ReplyHead { code, opaque });
                    assert_eq!(head(&bytes), Ok(wanted), "{form:?} {code} {opaque} {flag} {remark:?}");
                }
            }
        }
    }

    #[test]
    fn a_header_in_another_order_is_decoded_properly() {
        let header = br#"{"opaque": 77, "flag": 1, "code": 3}"#;
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&(header.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(&(header.len() as u32).to_be_bytes());
        bytes.extend_from_slice(header);
        assert_eq!(head(&bytes), Ok(Some(ReplyHead { code: 3, opaque: 77 })));
    }

    #[test]
    fn no_cut_or_changed_byte_makes_it_fail_badly() {
        for form in [Form::Binary, Form::Json] {
            let bytes = frame(form, 0, 1 << 30, 1, None);
            for at in 0..bytes.len() {
                let _ = head(&bytes[..at]);
                for value in [0, 1, 0x22, 0x7F, 0xFF] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = head(&changed);
                }
            }
        }
    }
}
