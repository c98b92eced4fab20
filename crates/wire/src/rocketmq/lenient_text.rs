//! Texts of JSON headers that strict JSON refuses, read as both lines of RocketMQ read them (fastjson 1 and 2).
//!
//! Half an emoji becomes `?`, which is what Java stores for it; a control character may stand as it is; beside JSON's escapes
//! there are `\'`, `\v`, `\xNN` and one digit from `\0` to `\7`. Bytes that are no UTF-8 become U+FFFD.

/// The text between two quotes; `None` for an escape that Java refuses too.
pub(super) fn unescape(escaped: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&kind, after) = rest.split_first()?;
        rest = after;
        match kind {
            b'"' | b'\\' | b'/' | b'\'' => out.push(kind),
            b'b' => out.push(8),
            b't' => out.push(b'\t'),
            b'n' => out.push(b'\n'),
            b'v' => out.push(11),
            b'f' | b'F' => out.push(12),
            b'r' => out.push(b'\r'),
            b'0'..=b'7' => out.push(kind - b'0'),
            b'x' => put(&mut out, u32::from(take_hex(&mut rest, 2)?)),
            b'u' => {
                let unit = take_hex(&mut rest, 4)?;
                put(&mut out, take_rest_of_pair(unit, &mut rest).unwrap_or(u32::from(unit)));
            }
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Adds a character. Half of one is what Java writes for it: a question mark.
fn put(out: &mut Vec<u8>, code: u32) {
    let character = char::from_u32(code).unwrap_or('?');
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn take_hex(rest: &mut &[u8], digits: usize) -> Option<u16> {
    let (hex, after) = rest.split_at_checked(digits)?;
    if !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    *rest = after;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// The character that `high` begins, if its second half follows.
fn take_rest_of_pair(high: u16, rest: &mut &[u8]) -> Option<u32> {
    if !(0xD800..0xDC00).contains(&high) {
        return None;
    }
    let mut after = rest.strip_prefix(b"\\u")?;
    let low = take_hex(&mut after, 4).filter(|low| (0xDC00..0xE000).contains(low))?;
    *rest = after;
    Some(0x1_0000 + (u32::from(high - 0xD800) << 10) + u32::from(low - 0xDC00))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java's `RemotingCommand.decode` of 4.9.7 and 5.4.0 makes of these, as the bytes it would store.
    #[test]
    fn texts_are_read_as_java_reads_them() {
        for (escaped, text) in [
            ("x\\ud83dy", "x?y"),
            ("x\\ude00y", "x?y"),
            ("x\\ud83d\\ud83d\\ude00", "x?\u{1F600}"),
            ("\\ud83d\\ude00", "\u{1F600}"),
            ("x\\ud83d", "x?"),
            ("x\\ud83d\\n", "x?\n"),
            ("a\\n\u{1}b", "a\n\u{1}b"),
            ("a\\x41b", "aAb"),
            ("a\\'b", "a'b"),
            ("a\\vb", "a\u{b}b"),
            ("a\\0b\\7", "a\0b\u{7}"),
            ("\\\"\\\\\\/", "\"\\/"),
            ("\\b\\t\\n\\f\\F\\r", "\u{8}\t\n\u{c}\u{c}\r"),
            ("\\u0001\\u0002", "\u{1}\u{2}"),
        ] {
            assert_eq!(unescape(escaped.as_bytes()).as_deref(), Some(text), "{escaped}");
        }
        assert_eq!(unescape(b"a\\n\xFFb").as_deref(), Some("a\n\u{FFFD}b"));
        for refused in ["a\\qb", "a\\u12", "a\\u12zzb", "a\\u+123", "a\\x4", "a\\"] {
            assert_eq!(unescape(refused.as_bytes()), None, "{refused}");
        }
    }
}
