//! Blanks out comments and literals of Rust source, so that a scan sees code alone. Lines and columns stay.

/// `text` with the contents of comments, strings and characters replaced by blanks.
pub fn mask(text: &str) -> String {
    let mut masker = Masker { bytes: text.as_bytes(), at: 0, out: Vec::with_capacity(text.len()) };
    while masker.at < masker.bytes.len() {
        masker.step();
    }
    String::from_utf8_lossy(&masker.out).into_owned()
}

struct Masker<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Masker<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn keep(&mut self, count: usize) {
        for _ in 0..count {
            self.out.push(self.peek(0));
            self.at += 1;
        }
    }

    /// Lines stay, and so do the bytes of other letters: blanks of the same number.
    fn blank(&mut self, count: usize) {
        for _ in 0..count.min(self.bytes.len() - self.at) {
            self.out.push(if self.peek(0) == b'\n' { b'\n' } else { b' ' });
            self.at += 1;
        }
    }

    fn blank_while(&mut self, mut goes_on: impl FnMut(&Self) -> bool) {
        while self.at < self.bytes.len() && goes_on(self) {
            self.blank(1);
        }
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (b'/', b'/') => self.blank_while(|masker| masker.peek(0) != b'\n'),
            (b'/', b'*') => self.block_comment(),
            (b'"', _) => self.string(),
            (b'\'', _) => self.character_or_lifetime(),
            (first, _) if first.is_ascii_alphabetic() || first == b'_' => self.word(),
            _ => self.keep(1),
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => depth += 1,
                (b'*', b'/') => depth -= 1,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        let mut is_escaped = false;
        self.blank_while(|masker| {
            let byte = masker.peek(0);
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            !ends
        });
        self.keep(usize::from(self.at < self.bytes.len()));
    }

    /// `'a'` and `'\n'` are characters, `'a` is a lifetime.
    fn character_or_lifetime(&mut self) {
        let text = self.bytes.get(self.at + 1..).unwrap_or_default();
        let letter = String::from_utf8_lossy(text.get(..text.len().min(4)).unwrap_or_default()).chars().next();
        let size = letter.map_or(0, char::len_utf8);
        if self.peek(1) == b'\\' {
            self.keep(1);
            self.blank(2);
            self.blank_while(|masker| masker.peek(0) != b'\'');
            self.keep(usize::from(self.at < self.bytes.len()));
        } else if self.peek(1 + size) == b'\'' {
            self.keep(1);
            self.blank(size);
            self.keep(1);
        } else {
            self.keep(1);
        }
    }

    /// A word, or the prefix of a literal: `r#"`, `b"`, `br"`, `c"`, `b'`.
    fn word(&mut self) {
        let mut size = 0;
        while self.peek(size).is_ascii_alphanumeric() || self.peek(size) == b'_' {
            size += 1;
        }
        let word = self.bytes.get(self.at..self.at + size).unwrap_or_default();
        let is_raw = matches!(word, b"r" | b"br" | b"cr");
        let mut hashes = 0;
        while is_raw && self.peek(size + hashes) == b'#' {
            hashes += 1;
        }
        if is_raw && self.peek(size + hashes) == b'"' {
            self.keep(size + hashes + 1);
            let end = [&b"\""[..], &vec![b'#'; hashes]].concat();
            self.blank_while(|masker| !masker.bytes.get(masker.at..).unwrap_or_default().starts_with(&end));
            self.keep(end.len().min(self.bytes.len() - self.at));
        } else {
            self.keep(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        for (text, expected) in [
            ("a // todo\nb", "a        \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("a \" // b", c)"#, r#"f("         ", c)"#),
            (r##"r#"a " b"# + x"##, r##"r#"     "# + x"##),
            (r#"br"\" + b"x" + c"y""#, r#"br" " + b" " + c" ""#),
            (r"('a', '\'', '\\', '\u{1F}')", r"(' ', '  ', '  ', '      ')"),
            ("fn f<'a>(x: &'a str, y: &'static u8)", "fn f<'a>(x: &'a str, y: &'static u8)"),
            ("'é' + \"é\"", "'  ' + \"  \""),
            ("r#type + br", "r#type + br"),
            ("\"open", "\"    "),
            ("/* open", "       "),
        ] {
            assert_eq!(mask(text), expected, "{text}");
            assert_eq!(mask(text).len(), text.len());
        }
    }
}
