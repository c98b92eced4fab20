//! JSON laid out for people: a line for each part. The parts stay as they were written; parsed and printed anew, numbers would lose digits,
//! and objects their order and the names that they have twice.

use std::str::Chars;

use serde::de::IgnoredAny;

/// How deep parts may lie in each other: each line begins with as many indents.
const DEPTH_MAX: usize = 128;

const INDENT: &str = "  ";

/// The text laid out; `None` if it is no JSON, or its parts lie too deep.
pub(super) fn laid_out(text: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let (mut out, mut depth, mut before) = (String::with_capacity(text.len()), 0_usize, ' ');
    let mut rest = text.chars();
    while let Some(one) = rest.next() {
        if one.is_ascii_whitespace() {
            continue;
        }
        let is_empty = matches!(before, '{' | '[');
        if matches!(one, '}' | ']') {
            depth = depth.saturating_sub(1);
            if !is_empty {
                begin_line(&mut out, depth);
            }
        } else if is_empty || before == ',' {
            begin_line(&mut out, depth);
        }
        out.push(one);
        match one {
            '{' | '[' if depth == DEPTH_MAX => return None,
            '{' | '[' => depth += 1,
            ':' => out.push(' '),
            '"' => copy_string(&mut rest, &mut out),
            _ => {}
        }
        before = one;
    }
    Some(out)
}

fn begin_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(INDENT, depth));
}

/// Copies what is left of a string, with the quotation mark that ends it.
fn copy_string(rest: &mut Chars<'_>, out: &mut String) {
    let mut is_escaped = false;
    for one in rest {
        out.push(one);
        if one == '"' && !is_escaped {
            return;
        }
        is_escaped = one == '\\' && !is_escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_as_they_were_written() {
        let text =
            "{ \"z\":12345678901234567890123,\"a\" :[1.10, 1e999,[],{ }],\"z\": \"a, \\\"{[ :\\\\\",\"\\u00fc\":null}";
        let lines = [
            "{",
            "  \"z\": 12345678901234567890123,",
            "  \"a\": [",
            "    1.10,",
            "    1e999,",
            "    [],",
            "    {}",
            "  ],",
            "  \"z\": \"a, \\\"{[ :\\\\\",",
            "  \"\\u00fc\": null",
            "}",
        ];
        assert_eq!(laid_out(text), Some(lines.join("\n")));
        assert_eq!(laid_out(&lines.join("\n")), Some(lines.join("\n")));
        for plain in ["5", "\"a b\"", "[]", "true"] {
            assert_eq!(laid_out(&format!(" {plain}\n")), Some(plain.to_owned()));
        }
    }

    #[test]
    fn what_is_no_json_or_too_deep_is_not_laid_out() {
        for text in ["", "{", "a b", "{} {}", "01"] {
            assert_eq!(laid_out(text), None, "{text}");
        }
        let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(laid_out(&deep(DEPTH_MAX)).is_some());
        assert_eq!(laid_out(&deep(DEPTH_MAX + 1)), None);
    }
}
