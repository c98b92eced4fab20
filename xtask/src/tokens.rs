//! Words and signs of masked source, with their lines.

/// One token: a word or number, `::`, or any other single sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its text.
    pub text: &'a str,
    /// First byte in the source.
    pub start: usize,
    /// Line, from 1.
    pub line: usize,
}

/// Splits `code` into tokens; blanks are dropped.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let size = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (text, after) = rest.split_at(size);
        if !first.is_whitespace() {
            found.push(Token { text, start: code.len() - rest.len(), line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `text` is an identifier or keyword.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Lines at which `pattern` stands, token by token.
pub fn lines_of(tokens: &[Token<'_>], pattern: &[&str]) -> Vec<usize> {
    let matches = |window: &&[Token<'_>]| window.iter().zip(pattern).all(|(token, wanted)| token.text == *wanted);
    tokens.windows(pattern.len()).filter(matches).filter_map(|window| Some(window.first()?.line)).collect()
}

/// The token that closes the bracket at `open`, or the last one.
pub fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len().saturating_sub(1)
}

/// From `start`, the first `{` or `;` that is not within other brackets.
pub fn body_start(tokens: &[Token<'_>], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        match tokens.get(at)?.text {
            "{" | ";" => return Some(at),
            "(" | "[" => at = closing(tokens, at) + 1,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_paths_and_signs_are_told_apart() {
        let found = tokens("use std::fs;\nFile::open(x)?");
        let texts: Vec<_> = found.iter().map(|token| token.text).collect();
        assert_eq!(texts, ["use", "std", "::", "fs", ";", "File", "::", "open", "(", "x", ")", "?"]);
        assert_eq!(lines_of(&found, &["File", "::"]), [2]);
        assert_eq!(lines_of(&found, &["le", "::"]), [0; 0]);
        assert_eq!(found.last().map(|token| (token.start, token.line)), Some((26, 2)));
    }

    #[test]
    fn brackets_are_matched() {
        let found = tokens("fn f(a: [u8; 3]) -> X { if y { } } ;");
        let open = body_start(&found, 0).expect("a body");
        assert_eq!(found[open].text, "{");
        assert_eq!(found[closing(&found, open)].start, 33);
        assert_eq!(body_start(&tokens("fn f(a: u8)"), 0), None);
    }
}
