//! Format strings: how a message is printed. They are kcat's, as far as both know the same.

use client::message::Received;

/// What may be told of a message, and how: its letter, and its meaning for the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Body,
    BodySize,
    Key,
    Tag,
    Headers,
    Destination,
    Queue,
    Offset,
    Time,
    Id,
    Exchange,
    RoutingKey,
}

const FIELDS: [(char, Field); 12] = [
    ('s', Field::Body),
    ('S', Field::BodySize),
    ('k', Field::Key),
    ('g', Field::Tag),
    ('h', Field::Headers),
    ('t', Field::Destination),
    ('p', Field::Queue),
    ('o', Field::Offset),
    ('T', Field::Time),
    ('i', Field::Id),
    ('e', Field::Exchange),
    ('r', Field::RoutingKey),
];

/// A format string taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Field(Field),
}

impl Format {
    /// A body a line.
    pub(super) fn lines() -> Self {
        Self(vec![Piece::Field(Field::Body), Piece::Text(b"\n".to_vec())])
    }

    /// Appends a message as it is to be printed; `shown` makes of a body or text what is safe where it goes.
    pub(super) fn print(&self, message: &Received, out: &mut Vec<u8>, body: &dyn Fn(&[u8], &mut Vec<u8>)) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Field(Field::Body) => body(&message.body, out),
                Piece::Field(field) => out.extend_from_slice(field.text(message).as_bytes()),
            }
        }
    }

    fn push(&mut self, byte: &[u8]) {
        if let Some(Piece::Text(text)) = self.0.last_mut() {
            text.extend_from_slice(byte);
        } else {
            self.0.push(Piece::Text(byte.to_vec()));
        }
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut format = Self(Vec::new());
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (letter, letter == '%' || letter == '\\') {
                (_, false) => format.push(letter.encode_utf8(&mut [0; 4]).as_bytes()),
                ('%', _) => match letters.next() {
                    Some('%') => format.push(b"%"),
                    Some(next) => format.0.push(Piece::Field(field(next)?)),
                    None => return Err("it ends with a %; write %% for one".to_owned()),
                },
                _ => format.push(&[escaped(&mut letters)?]),
            }
        }
        Ok(format)
    }
}

fn field(letter: char) -> Result<Field, String> {
    let found = FIELDS.iter().find(|(known, _)| *known == letter).map(|(_, field)| *field);
    let known = || FIELDS.map(|(letter, _)| format!("%{letter}")).join(" ");
    found.ok_or_else(|| format!("there is no %{letter}; there are {} and %%", known()))
}

fn escaped(letters: &mut std::str::Chars<'_>) -> Result<u8, String> {
    match letters.next() {
        Some('n') => Ok(b'\n'),
        Some('t') => Ok(b'\t'),
        Some('r') => Ok(b'\r'),
        Some('0') => Ok(0),
        Some('\\') => Ok(b'\\'),
        Some('x') => {
            let digits: String = letters.by_ref().take(2).collect();
            u8::from_str_radix(&digits, 16)
                .map_err(|_| format!("\\x has two hexadecimal digits behind it, not {digits:?}"))
        }
        other => Err(format!("there is no \\{}; there are \\n \\t \\r \\0 \\xNN and \\\\", other.unwrap_or(' '))),
    }
}

impl Field {
    fn text(self, message: &Received) -> String {
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        match self {
            Self::Body => String::new(),
            Self::BodySize => message.body.len().to_string(),
            Self::Key => text(&message.key),
            Self::Tag => text(&message.tag),
            Self::Headers => headers(message),
            Self::Destination => message.destination.clone(),
            Self::Queue => number(message.queue.map(u64::from)),
            Self::Offset => number(message.offset),
            Self::Time => number(message.time_ms),
            Self::Id => text(&message.id),
            Self::Exchange => text(&message.exchange),
            Self::RoutingKey => text(&message.routing_key),
        }
    }
}

fn headers(message: &Received) -> String {
    let one = |(name, value): &(String, serde_json::Value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    };
    message.headers.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: &str) -> String {
        let message = Received {
            destination: "orders".to_owned(),
            queue: Some(3),
            offset: Some(42),
            key: Some("k1".to_owned()),
            headers: vec![("a".to_owned(), "b".into()), ("n".to_owned(), 5.into())],
            body: b"hello".to_vec(),
            ..Received::default()
        };
        let mut out = Vec::new();
        let body = |body: &[u8], out: &mut Vec<u8>| out.extend_from_slice(body);
        format.parse::<Format>().expect("a format").print(&message, &mut out, &body);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn fields_and_escapes_stand_for_what_they_say() {
        assert_eq!(printed(r"%t[%p]@%o: %k=%s\n"), "orders[3]@42: k1=hello\n");
        assert_eq!(printed(r"%h %S %g%%\t\x41\\"), "a=b,n=5 5 %\tA\\");
        assert_eq!("%s\\n".parse::<Format>(), Ok(Format::lines()));
    }

    #[test]
    fn what_nobody_knows_is_an_error_that_tells_what_there_is() {
        for (wrong, told) in [("%y", "%s %S %k"), ("%", "%%"), (r"\q", r"\n \t"), (r"\xg1", "hexadecimal")] {
            let error = wrong.parse::<Format>().expect_err(wrong);
            assert!(error.contains(told), "{error}");
        }
    }
}
