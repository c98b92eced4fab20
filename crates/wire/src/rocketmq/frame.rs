//! The frame, its two header forms, and how a command is taken off and put on the wire.
//!
//! ```text
//! offset  size  meaning
//!      0     4  length of what follows = 4 + header + body
//!      4     4  form of the header in the top byte (0 JSON, 1 binary), length of the header in the lower three
//!      8     H  header
//!    8+H     B  body
//!
//! binary header
//!      0     2  code (16 bits: larger codes arrive cut off, see `widen_code`)
//!      2     1  language
//!      3     2  version
//!      5     4  opaque
//!      9     4  flag: bit 0 response, bit 1 one-way
//!     13   4+n  remark (0 = none)
//!      .   4+n  extension fields: key length 2, key, value length 4, value, repeated
//! ```

use std::borrow::Cow;

use base::cursor::{DecodeError, Reader};
use base::limits::{FRAME_HEADER_SIZE_MAX, FRAME_SIZE_MAX};
use bytes::{BufMut, BytesMut};

use super::field::{FieldSink, Fields};
use super::json_header;

/// Bit of the flag that marks a response.
pub const FLAG_RESPONSE: i32 = 1;
/// Bit of the flag that marks a request nobody answers.
pub const FLAG_ONE_WAY: i32 = 2;
/// Bytes before the header.
pub const PREFIX_SIZE: usize = 8;

const BINARY_HEADER_SIZE_MIN: usize = 21;

/// How a header is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// A JSON object.
    #[default]
    Json,
    /// Fixed numbers and length-prefixed fields ("ROCKETMQ" in Java).
    Binary,
}

/// Language of a peer, as numbered in `LanguageCode`. Unknown numbers decode to `OTHER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Language(pub u8);

impl Language {
    /// Names by number.
    const NAMES: [&'static str; 14] = [
        "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
        "NODE_JS",
    ];
    /// Java.
    pub const JAVA: Self = Self(0);
    /// Anything without a number of its own.
    pub const OTHER: Self = Self(7);
    /// Rust.
    pub const RUST: Self = Self(12);

    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("OTHER")
    }

    pub(super) fn from_name(name: &str) -> Self {
        let number = Self::NAMES.iter().position(|&known| known == name);
        number.and_then(|number| u8::try_from(number).ok()).map_or(Self::OTHER, Self)
    }

    fn from_number(number: u8) -> Self {
        if usize::from(number) < Self::NAMES.len() { Self(number) } else { Self::OTHER }
    }
}

/// The fixed part of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Request or response code.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version of the sender, an ordinal of `MQVersion`.
    pub version: i32,
    /// Number that ties a response to its request.
    pub opaque: i32,
    /// `FLAG_RESPONSE`, `FLAG_ONE_WAY`.
    pub flag: i32,
    /// Text for people: the reason of a refusal.
    pub remark: Option<Cow<'a, str>>,
}

impl Header<'_> {
    /// Whether this is a response.
    pub const fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender wants no answer.
    pub const fn is_one_way(&self) -> bool {
        self.flag & FLAG_ONE_WAY != 0
    }
}

/// A whole frame, taken apart without copying.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// Fixed part of the header.
    pub header: Header<'a>,
    /// Form the header came in; a response goes back in the same.
    pub form: Form,
    /// Extension fields.
    pub fields: Fields<'a>,
    /// Body.
    pub body: &'a [u8],
}

/// The length of the frame at the front of `input`, prefix included, or `None` while it is not all there.
pub fn frame_len(input: &[u8]) -> Result<Option<usize>, DecodeError> {
    whole_len(input).map_err(|error| match stranger(input) {
        Some(name) => DecodeError::BadValue { what: "frame", found: name.to_owned() },
        None => error,
    })
}

/// The length of the frame that `input` begins with, prefix included, whether or not it is all there; 0 while it is not known.
pub fn announced_len(input: &[u8]) -> usize {
    check_length(&mut Reader::new(input)).map_or(0, |length| length + 4)
}

/// Who speaks another protocol, by its first bytes. None of them begins a frame: as a length they are far too large.
fn stranger(input: &[u8]) -> Option<&'static str> {
    let (first, _) = input.split_first_chunk::<4>()?;
    Some(match first {
        [0x16, 3, ..] => "a TLS hello: this port does not speak TLS; switch it off at the client (tls.enable=false)",
        b"PRI " => {
            "the greeting of HTTP/2, as a gRPC client of RocketMQ 5 sends it: this port speaks the remoting protocol, as \
             clients with a name server do"
        }
        b"GET " | b"PUT " | b"POST" | b"HEAD" | b"OPTI" | b"DELE" => {
            "an HTTP request: pages, metrics and health are at console.port"
        }
        _ => return None,
    })
}

fn whole_len(input: &[u8]) -> Result<Option<usize>, DecodeError> {
    if input.len() < PREFIX_SIZE {
        // The length alone already shows most garbage.
        if input.len() >= 4 {
            check_length(&mut Reader::new(input))?;
        }
        return Ok(None);
    }
    let mut reader = Reader::new(input);
    let length = check_length(&mut reader)?;
    let mark = reader.u32("header length")?;
    let header_len = (mark & 0x00FF_FFFF) as usize;
    let limit = FRAME_HEADER_SIZE_MAX.min(length - 4);
    if mark >> 24 > 1 {
        return Err(DecodeError::BadValue { what: "header form", found: (mark >> 24).to_string() });
    }
    if header_len > limit {
        return Err(DecodeError::BadLength { what: "header length", found: header_len as i64, limit: limit as i64 });
    }
    let whole = length + 4;
    Ok((input.len() >= whole).then_some(whole))
}

fn check_length(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let length = reader.length_i32(FRAME_SIZE_MAX, "frame length")?;
    if length < 4 {
        return Err(DecodeError::BadLength {
            what: "frame length",
            found: length as i64,
            limit: FRAME_SIZE_MAX as i64,
        });
    }
    Ok(length)
}

impl<'a> Command<'a> {
    /// Takes apart one complete frame, as `frame_len` measured it.
    pub fn decode(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(frame);
        let length = check_length(&mut reader)?;
        if reader.remaining() != length {
            return Err(DecodeError::BadLength {
                what: "frame",
                found: reader.remaining() as i64,
                limit: length as i64,
            });
        }
        let mark = reader.u32("header length")?;
        let header_bytes = reader.slice((mark & 0x00FF_FFFF) as usize, "header")?;
        let body = reader.slice(reader.remaining(), "body")?;
        match mark >> 24 {
            0 => {
                let (header, fields) = json_header::decode(header_bytes)?;
                Ok(Self { header, form: Form::Json, fields, body })
            }
            1 => {
                let (header, fields) = decode_binary(header_bytes)?;
                Ok(Self { header, form: Form::Binary, fields, body })
            }
            form => Err(DecodeError::BadValue { what: "header form", found: form.to_string() }),
        }
    }
}

fn decode_binary(bytes: &[u8]) -> Result<(Header<'_>, Fields<'_>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let code = widen_code(reader.i16("code")?);
    let language = Language::from_number(reader.u8("language")?);
    let version = i32::from(reader.i16("version")?);
    let opaque = reader.i32("opaque")?;
    let flag = reader.i32("flag")?;
    let remark_len = reader.length_i32(bytes.len(), "remark")?;
    let remark = String::from_utf8_lossy(reader.slice(remark_len, "remark")?);
    let fields_len = reader.length_i32(bytes.len(), "extension fields")?;
    let fields = Fields::binary(reader.slice(fields_len, "extension fields")?)?;
    let remark = (!remark.is_empty()).then_some(remark);
    Ok((Header { code, language, version, opaque, flag, remark }, fields))
}

/// Codes from 200 050 on lose their upper bits in the binary header; no other code falls on what is left of them.
const fn widen_code(code: i16) -> i32 {
    match code {
        3442..=3448 | 3462..=3471 | 3543 => code as i32 + 0x3_0000,
        _ => code as i32,
    }
}

/// Appends the frame's prefix and header to `out`; a body of `body_len` bytes must follow.
///
/// `fields` is called once to write the extension fields. Text longer than its length field can say is cut.
pub fn encode_head(
    out: &mut BytesMut,
    form: Form,
    header: &Header<'_>,
    fields: impl FnOnce(&mut FieldSink<'_>),
    body_len: usize,
) {
    let start = out.len();
    out.put_u64(0);
    match form {
        Form::Json => json_header::encode(out, header, fields),
        Form::Binary => encode_binary(out, header, fields),
    }
    let header_len = out.len() - start - PREFIX_SIZE;
    let form_mark: u32 = match form {
        Form::Json => 0,
        Form::Binary => 1 << 24,
    };
    debug_assert!(header_len <= 0x00FF_FFFF);
    let length = (4 + header_len + body_len) as u32;
    let mark = form_mark | header_len as u32;
    if let Some(prefix) = out.get_mut(start..start + PREFIX_SIZE) {
        prefix[..4].copy_from_slice(&length.to_be_bytes());
        prefix[4..].copy_from_slice(&mark.to_be_bytes());
    }
}

/// Appends a whole frame to `out`.
pub fn encode(
    out: &mut BytesMut,
    form: Form,
    header: &Header<'_>,
    fields: impl FnOnce(&mut FieldSink<'_>),
    body: &[u8],
) {
    encode_head(out, form, header, fields, body.len());
    out.put_slice(body);
}

fn encode_binary(out: &mut BytesMut, header: &Header<'_>, fields: impl FnOnce(&mut FieldSink<'_>)) {
    out.reserve(BINARY_HEADER_SIZE_MIN);
    out.put_i16(header.code as i16);
    out.put_u8(header.language.0);
    out.put_i16(header.version as i16);
    out.put_i32(header.opaque);
    out.put_i32(header.flag);
    let remark = header.remark.as_deref().unwrap_or_default();
    out.put_u32(remark.len() as u32);
    out.put_slice(remark.as_bytes());
    let fields_at = out.len();
    out.put_u32(0);
    fields(&mut FieldSink::binary(out));
    let fields_len = (out.len() - fields_at - 4) as u32;
    if let Some(place) = out.get_mut(fields_at..fields_at + 4) {
        place.copy_from_slice(&fields_len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header<'static> {
        Header {
            code: 310,
            language: Language::JAVA,
            version: 493,
            opaque: -7,
            flag: FLAG_ONE_WAY,
            remark: Some("a \"quoted\" remark\n".into()),
        }
    }

    fn frame(form: Form) -> BytesMut {
        let mut out = BytesMut::new();
        let fields = |sink: &mut FieldSink<'_>| {
            sink.text("a", "group\u{1}\u{2}");
            sink.number("e", -3);
            sink.boolean("m", true);
        };
        encode(&mut out, form, &header(), fields, b"body");
        out
    }

    #[test]
    fn both_forms_come_back_as_they_went() {
        for form in [Form::Json, Form::Binary] {
            let bytes = frame(form);
            assert_eq!(frame_len(&bytes), Ok(Some(bytes.len())));
            let command = Command::decode(&bytes).expect("decodes");
            assert_eq!((&command.header, command.form, command.body), (&header(), form, &b"body"[..]));
            let pairs = command.fields.pairs().expect("fields");
            let expected = [("a", "group\u{1}\u{2}"), ("e", "-3"), ("m", "true")];
            assert_eq!(pairs.iter().map(|(k, v)| (&**k, &**v)).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_text_that_is_none_costs_its_odd_character_and_not_the_frame() {
        let mut binary = frame(Form::Binary);
        let at = binary.windows(5).position(|bytes| bytes == b"group").expect("the field");
        binary[at] = 0xFF;
        let header = |text: &[u8]| {
            let json = [b"{\"code\":310,\"opaque\":-7,\"extFields\":{\"a\":\"", text, b"\"},\"remark\":null}"].concat();
            let mut out = BytesMut::new();
            out.put_u32(4 + json.len() as u32);
            out.put_u32(json.len() as u32);
            out.put_slice(&json);
            out
        };
        for (bytes, text) in [
            (binary, "\u{FFFD}roup\u{1}\u{2}"),
            (header(b"\xFFb"), "\u{FFFD}b"),
            (header(b"\xFFb\\u0001"), "\u{FFFD}b\u{1}"),
            (header(b"cut \\uD83D\\u0002"), "cut ?\u{2}"),
            (header(b"a\\u0001b\x01"), "a\u{1}b\u{1}"),
        ] {
            let command = Command::decode(&bytes).expect("decodes");
            assert_eq!((command.header.opaque, command.fields.get("a").as_deref()), (-7, Some(text)));
        }
    }

    #[test]
    fn incomplete_is_not_invalid() {
        for form in [Form::Json, Form::Binary] {
            let bytes = frame(form);
            for cut in 0..bytes.len() {
                assert_eq!(frame_len(&bytes[..cut]), Ok(None), "{form:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn absurd_lengths_are_refused_at_once() {
        for bytes in [
            [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0],
            [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0],
            [0, 0, 0, 3, 0, 0, 0, 0],
            [0, 0, 0, 8, 0, 0, 0, 9],
            [0, 0, 0, 8, 2, 0, 0, 1],
            *b"GET / HT",
        ] {
            assert!(frame_len(&bytes).is_err(), "{bytes:?}");
        }
        assert!(frame_len(b"GET /").is_err());
        // Whoever meets such bytes is told what they say.
        let of_a_form_to_come = [0, 0, 0, 20, 5, 0, 0, 0];
        assert_eq!(
            frame_len(&of_a_form_to_come),
            Err(DecodeError::BadValue { what: "header form", found: "5".to_owned() })
        );
    }

    #[test]
    fn no_changed_byte_makes_decoding_fail_badly() {
        for form in [Form::Json, Form::Binary] {
            let bytes = frame(form);
            for at in 0..bytes.len() {
                for value in [0, 1, 0x22, 0x7F, 0x80, 0xFF] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    if let Ok(command) = Command::decode(&changed) {
                        let _ = command.fields.pairs();
                    }
                }
            }
        }
    }

    /// Every code of 5.4.0 is restored, so none falls on what is left of another.
    #[test]
    fn codes_cut_off_by_the_binary_form_are_restored() {
        let list = include_str!("../../../../testdata/rocketmq/request-codes.txt");
        let rows = list.lines().filter(|line| !line.starts_with('#'));
        let codes: Vec<i32> = rows.filter_map(|row| row.split('\t').next()?.parse().ok()).collect();
        assert!(codes.len() > 150 && codes.iter().filter(|&&code| code > i32::from(i16::MAX)).count() >= 8);
        for code in codes {
            for form in [Form::Json, Form::Binary] {
                let mut out = BytesMut::new();
                encode(&mut out, form, &Header { code, ..header() }, |_| {}, b"");
                assert_eq!(Command::decode(&out).expect("decodes").header.code, code, "{form:?}");
            }
        }
    }
}
