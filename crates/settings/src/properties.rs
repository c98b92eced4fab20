//! Property files: the `key=value` text that RocketMQ is configured with.
//!
//! ```text
//! # a comment, as is a line that begins with !
//! brokerName = broker-a         separators: =, : or blank space
//! messageDelayLevel = 1s 5s \
//!                     10s       a backslash at the end continues the line
//! storePathRootDir = /data\u0020store
//! ```

/// One entry of a property file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) key: String,
    pub(super) value: String,
    /// Line that the entry begins on, counted from 1.
    pub(super) line: usize,
}

/// Reads all entries; the error is a line and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Property>, (usize, String)> {
    let mut properties = Vec::new();
    let mut lines = physical_lines(text);
    while let Some((line, first)) = lines.next() {
        let first = first.trim_start_matches(is_blank);
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while continues(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        let (key, value) = split(&logical);
        let unescaped = |part| unescape(part).map_err(|why| (line, why));
        properties.push(Property { key: unescaped(key)?, value: unescaped(value)?, line });
    }
    Ok(properties)
}

/// Lines end with a line feed, a carriage return, or both.
fn physical_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let both_as_one = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    (1..).zip(both_as_one.flat_map(|line| line.split('\r')))
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\x0c')
}

/// Whether the line ends in an odd number of backslashes.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first separator that no backslash escapes.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|letter: char| {
        let separates = !escaped && (is_blank(letter) || letter == '=' || letter == ':');
        escaped = !escaped && letter == '\\';
        separates
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

/// Works on UTF-16 units, since `\u` names units and two of them may make one letter.
fn unescape(text: &str) -> Result<String, String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => match letters.next() {
                None => continue,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    units.push(hexadecimal_unit(&mut letters)?);
                    continue;
                }
                Some(other) => other,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).map_err(|_| "half of a surrogate pair after \\u".to_owned())
}

fn hexadecimal_unit(letters: &mut std::str::Chars<'_>) -> Result<u16, String> {
    let digits: String = letters.take(4).collect();
    let complete = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = complete.then(|| u16::from_str_radix(&digits, 16).ok()).flatten();
    unit.ok_or_else(|| format!("expected four hexadecimal digits after \\u, found `{digits}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let properties = parse(text).unwrap();
        properties.into_iter().map(|property| (property.key, property.value)).collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn every_separator_is_understood() {
        for text in ["a=b", "a = b", "a:b", "a : b", "a b", "a\tb", "  a=b", "a=  b"] {
            assert_eq!(pairs(text), [pair("a", "b")], "{text:?}");
        }
        assert_eq!(pairs("a"), [pair("a", "")]);
        assert_eq!(pairs("a=b=c"), [pair("a", "b=c")]);
        assert_eq!(pairs("namesrvAddr=a:1;b:2"), [pair("namesrvAddr", "a:1;b:2")]);
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        assert_eq!(pairs("# a=1\n\n  ! b=2\n \t \nc=3 # not a comment"), [pair("c", "3 # not a comment")]);
    }

    #[test]
    fn lines_are_counted_through_continuations_and_any_line_end() {
        let properties = parse("a=1 \\\n   2\\\r\n3\r\nb=4\rc=5\\").unwrap();
        let found: Vec<_> = properties.iter().map(|p| (p.line, p.key.as_str(), p.value.as_str())).collect();
        assert_eq!(found, [(1, "a", "1 23"), (4, "b", "4"), (5, "c", "5")]);
    }

    #[test]
    fn a_doubled_backslash_does_not_continue_a_line() {
        assert_eq!(pairs("a=1\\\\\nb=2"), [pair("a", "1\\"), pair("b", "2")]);
    }

    #[test]
    fn escapes_become_what_they_stand_for() {
        assert_eq!(pairs(r"a\=b=\u0041\t\:\q"), [pair("a=b", "A\t:q")]);
        assert_eq!(pairs(r"a=\ud83d\ude00"), [pair("a", "\u{1f600}")]);
        assert_eq!(parse("x=1\na=\\u12").unwrap_err().0, 2);
        assert_eq!(parse(r"a=\ud83d").unwrap_err().0, 1);
    }
}
