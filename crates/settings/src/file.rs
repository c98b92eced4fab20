//! A settings file: which of the two formats it has, and its entries.

use std::path::{Path, PathBuf};

use super::entry::{Entry, Found, Place};
use super::error::Error;
use super::{document, properties, rocketmq, table::Scope};

/// A settings file that has been read but not understood yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it came from; its ending says the format.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Format of a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Sluice's own: TOML with Sluice's names.
    Toml,
    /// RocketMQ's: a property file with RocketMQ's names, Sluice's being welcome too.
    Properties,
}

/// Reads a settings file. Text that is not UTF-8 is taken as ISO-8859-1, as RocketMQ does.
#[expect(clippy::disallowed_methods, reason = "the one file of the crate that is read")]
pub fn load_file(path: &Path) -> Result<File, Error> {
    let unreadable = |why: std::io::Error| Error::Unreadable { path: path.to_owned(), why: why.to_string() };
    let bytes = std::fs::read(path).map_err(unreadable)?;
    Ok(File { path: path.to_owned(), text: decode(bytes) })
}

fn decode(bytes: Vec<u8>) -> String {
    let latin = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
    let text = String::from_utf8(bytes).unwrap_or_else(|error| latin(error.as_bytes()));
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

impl File {
    /// The format: by the ending of the path, else by what the text can be.
    pub fn format(&self) -> Format {
        let ending = self.path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("toml") => Format::Toml,
            Some("properties" | "conf") => Format::Properties,
            _ => self.guess(),
        }
    }

    /// `listenPort=10911` is valid in both formats; RocketMQ's name then decides.
    fn guess(&self) -> Format {
        let foreign = |entry: &Entry| rocketmq::keys().any(|key| key == entry.key);
        let headed = |line: &str| line.trim_start().starts_with('[');
        match document::parse(&self.path, &self.text) {
            Ok(entries) if entries.iter().any(foreign) => Format::Properties,
            Ok(_) => Format::Toml,
            Err(_) if self.text.lines().any(headed) => Format::Toml,
            Err(_) => Format::Properties,
        }
    }

    pub(super) fn entries(&self) -> Result<Vec<Entry>, Error> {
        if self.format() == Format::Toml {
            return document::parse(&self.path, &self.text);
        }
        let place = |line| Place::File { path: self.path.clone(), line };
        let properties =
            properties::parse(&self.text).map_err(|(line, why)| Error::Syntax { place: place(line), why })?;
        let entry = |property: properties::Property| Entry {
            key: property.key,
            found: Found::Word(property.value),
            place: place(property.line),
        };
        Ok(properties.into_iter().map(entry).collect())
    }
}

/// Which process a file is for: RocketMQ's `listenPort` is its broker's or its name server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything in one process; a RocketMQ file is a broker's.
    Serve,
    /// A name server alone.
    NameServer,
    /// A broker alone.
    Broker,
}

impl Role {
    pub(super) fn scope(self) -> Scope {
        match self {
            Role::NameServer => Scope::NameServer,
            Role::Serve | Role::Broker => Scope::Broker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(path: &str, text: &str) -> Format {
        File { path: PathBuf::from(path), text: text.to_owned() }.format()
    }

    #[test]
    fn the_ending_decides_the_format() {
        assert_eq!(format("a.toml", "listenPort=1"), Format::Toml);
        assert_eq!(format("a.conf", "[log]"), Format::Properties);
        assert_eq!(format("a.PROPERTIES", ""), Format::Properties);
    }

    #[test]
    fn without_an_ending_the_text_decides() {
        assert_eq!(format("broker", "brokerName=broker-a"), Format::Properties);
        assert_eq!(format("broker", "listenPort=10911"), Format::Properties);
        assert_eq!(format("broker", "rocketmq.port = 10911"), Format::Toml);
        assert_eq!(format("broker", "[log]\nlevel = info"), Format::Toml);
        assert_eq!(format("broker", ""), Format::Toml);
    }

    #[test]
    fn text_that_is_not_utf8_is_latin() {
        assert_eq!(decode(b"regionId=M\xfcnchen".to_vec()), "regionId=M\u{fc}nchen");
        assert_eq!(decode("\u{feff}a=\u{e9}".as_bytes().to_vec()), "a=\u{e9}");
    }
}
