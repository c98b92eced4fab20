//! Frames of RocketMQ: measured, taken apart, written again in both forms of the header.

use base::limits::HEADER_FIELD_COUNT_MAX;
use bytes::BytesMut;
use wire::rocketmq::frame::{self, Command, Form, Header, Language, frame_len};

/// Longest name of a field the binary form can carry.
const FIELD_NAME_SIZE_MAX: usize = i16::MAX as usize;

/// Whatever decodes comes back the same after it was written in either form; a cut frame is incomplete, not invalid.
pub fn run(data: &[u8]) {
    let Ok(Some(length)) = frame_len(data) else { return };
    assert!((frame::PREFIX_SIZE..=data.len()).contains(&length));
    for cut in (0..length.min(12)).chain([length / 2, length - 1]) {
        assert_eq!(frame_len(&data[..cut]), Ok(None), "cut at {cut} of {length}");
    }
    let Ok(command) = Command::decode(&data[..length]) else { return };
    let Ok(pairs) = command.fields.pairs() else { return };
    assert!(pairs.len() <= HEADER_FIELD_COUNT_MAX);
    for (key, _) in &pairs {
        let last = pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert_eq!(command.fields.get(key).as_deref(), last);
    }
    for form in [Form::Json, Form::Binary] {
        let Some(header) = representable(&command.header, form) else { continue };
        if pairs.iter().any(|(key, _)| key.len() > FIELD_NAME_SIZE_MAX) {
            continue;
        }
        let bytes = write(form, &header, &pairs, command.body);
        let again = Command::decode(&bytes).expect("what was written decodes");
        assert_eq!((&again.header, again.form, again.body), (&header, form, command.body));
        assert_eq!(again.fields.pairs().expect("fields that were written are read"), pairs);
    }
}

/// The header as `form` can carry it: the binary one has 16 bits for code and version, and no empty remark.
fn representable<'a>(header: &Header<'a>, form: Form) -> Option<Header<'a>> {
    let mut header = header.clone();
    if form == Form::Binary {
        i16::try_from(header.version).ok()?;
        let is_restored = matches!(header.code, 200_050..=200_056 | 200_070..=200_079 | 200_151);
        let is_ambiguous = matches!(header.code, 3442..=3448 | 3462..=3471 | 3543);
        if is_ambiguous || !is_restored && i16::try_from(header.code).is_err() {
            return None;
        }
        header.remark = header.remark.filter(|remark| !remark.is_empty());
    }
    Some(header)
}

fn write(form: Form, header: &Header<'_>, pairs: &[(String, String)], body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    frame::encode(&mut out, form, header, |sink| pairs.iter().for_each(|(key, value)| sink.text(key, value)), body);
    out
}

/// Captured frames, and some that were written.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = crate::golden::frames();
    let header =
        Header { code: 310, language: Language::RUST, version: 493, opaque: -7, flag: 2, remark: Some("r\"\n".into()) };
    for form in [Form::Json, Form::Binary] {
        let pairs = [("a".to_owned(), "g\u{1}\u{2}é".to_owned()), ("e".to_owned(), "-3".to_owned())];
        seeds.push(write(form, &header, &pairs, b"body").to_vec());
        seeds.push(write(form, &Header { remark: None, ..header.clone() }, &[], b"").to_vec());
        let many: Vec<_> = (0..200).map(|number| (format!("{number}"), String::new())).collect();
        seeds.push(write(form, &header, &many, b"").to_vec());
    }
    seeds.push(with_two_field_objects());
    seeds
}

/// A header whose field objects are within the limit one by one, and not together.
fn with_two_field_objects() -> Vec<u8> {
    let members: Vec<_> = (0..HEADER_FIELD_COUNT_MAX).map(|number| format!("\"{number}\":1")).collect();
    let members = members.join(",");
    let header = format!("{{\"code\":1,\"extFields\":{{{members}}},\"extFields\":{{{members}}}}}");
    let size = header.len() as u32;
    [&(size + 4).to_be_bytes()[..], &size.to_be_bytes(), header.as_bytes()].concat()
}
