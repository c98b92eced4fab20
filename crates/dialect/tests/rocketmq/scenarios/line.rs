//! A line of a scenario: words, and texts in quotes. What follows a `#` is a remark.

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Word(String),
    Text(String),
}

#[derive(Debug)]
pub struct Line(Vec<Part>);

impl Line {
    pub fn of(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let behind = if let Some(quoted) = rest.strip_prefix('"') {
                let (inside, behind) = quoted.split_once('"').ok_or("a text has no end")?;
                parts.push(Part::Text(inside.to_owned()));
                behind
            } else {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                parts.push(Part::Word(word.to_owned()));
                behind
            };
            rest = behind.trim_start();
        }
        Ok(Self(parts))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words, with a quote before each text.
    pub fn words(&self) -> Vec<String> {
        let word = |part: &Part| match part {
            Part::Word(word) => word.clone(),
            Part::Text(text) => format!("\"{text}"),
        };
        self.0.iter().map(word).collect()
    }
}

pub fn text(word: &str) -> Result<&str, String> {
    word.strip_prefix('"').ok_or_else(|| format!("[{word}] is no text: put it in quotes"))
}

pub fn number(word: &str) -> Result<i64, String> {
    word.parse().map_err(|_| format!("[{word}] is no number"))
}

/// Milliseconds of a number and its unit.
pub fn duration(count: &str, unit: &str) -> Result<u64, String> {
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("[{unit}] is no unit of time: ms, s, min or h")),
    };
    Ok(number(count)? as u64 * unit_ms)
}

/// What may follow a step: names with their values, each at most once.
pub struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    pub fn of(words: &[&'a str], known: &[&str]) -> Result<Self, String> {
        let mut options = Vec::new();
        for pair in words.chunks(2) {
            let [name, value] = *pair else { return Err(format!("\"{}\" says nothing more", pair[0])) };
            if !known.contains(&name) {
                return Err(format!("there is no \"{name}\" here: {}", known.join(", ")));
            }
            options.push((name, value));
        }
        Ok(Self(options))
    }

    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub fn number(&self, name: &str, otherwise: i64) -> Result<i64, String> {
        self.get(name).map_or(Ok(otherwise), number)
    }
}
