//! What can be wrong with settings, said so that it can be put right.

use std::fmt;
use std::path::PathBuf;

use super::entry::Place;
use super::nearest::described;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are a place, a key, what was found and what is expected")]
pub enum Error {
    /// The file cannot be read.
    Unreadable { path: PathBuf, why: String },
    /// The text is not of its format.
    Syntax { place: Place, why: String },
    /// Nobody knows the key.
    Unknown {
        place: Place,
        key: String,
        /// Known names that look like it, the best first.
        nearest: Vec<&'static str>,
    },
    /// The value is of the wrong type, out of range or otherwise unusable.
    Invalid { place: Place, key: String, found: String, expected: String },
    /// A RocketMQ key in a TOML file.
    Foreign {
        place: Place,
        key: String,
        /// The setting that it means, if it means one.
        setting: Option<&'static str>,
    },
    /// Two keys of one file mean the same setting and differ.
    Contradiction {
        setting: &'static str,
        /// The later one, then the earlier one.
        claims: Box<[Claim; 2]>,
    },
    /// Two ports of the process are the same.
    SamePort { first: String, second: String, port: u16 },
    /// Two settings that exclude each other, with the places of both.
    NotBoth { first: &'static str, second: &'static str, places: Box<[Place; 2]> },
    /// The value asks for a feature that is not there, and going on without it would be unsafe.
    NotYet { place: Place, key: String, found: String, feature: &'static str },
    /// A row of the table of settings does not fit its field: a mistake of this program.
    Table { setting: &'static str },
}

/// What one entry says, for comparison with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where it was found.
    pub place: Place,
    /// The key as it was written.
    pub key: String,
    /// What was found for it.
    pub found: String,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { path, why } => {
                write!(out, "{}: cannot be read: {why}", path.display())
            }
            Error::Syntax { place, why } => write!(out, "{place}: {why}"),
            Error::Unknown { place, key, nearest } => {
                write!(out, "{place}: unknown setting `{key}`")?;
                match nearest.as_slice() {
                    [] => out.write_str("; `sluice config --default` lists all settings"),
                    [one] => write!(out, "; did you mean {}?", described(one)),
                    many => {
                        let many: Vec<_> = many.iter().map(|name| described(name)).collect();
                        write!(out, "; the nearest known are {}", many.join(", "))
                    }
                }
            }
            Error::Invalid { place, key, found, expected } => {
                write!(out, "{place}: `{key}` is {found}; expected {expected}")
            }
            Error::Foreign { place, key, setting: Some(setting) } => {
                write!(out, "{place}: `{key}` is RocketMQ's name; a TOML file says `{setting}`")
            }
            Error::Foreign { place, key, setting: None } => {
                write!(out, "{place}: `{key}` is a RocketMQ key; it belongs in a .properties or .conf file")
            }
            Error::Contradiction { setting, claims } => {
                let [later, earlier] = claims.as_ref();
                write!(out, "{}: `{}` is {}, but ", later.place, later.key, later.found)?;
                write!(out, "`{}` is {} at {}; ", earlier.key, earlier.found, earlier.place)?;
                write!(out, "both mean `{setting}`")
            }
            Error::SamePort { first, second, port } => {
                write!(out, "{first} and {second} are both {port}; expected different ports")
            }
            Error::NotBoth { first, second, places } => {
                let [place, other] = places.as_ref();
                write!(out, "`{first}` ({place}) and `{second}` ({other}) are both set; expected one of them")
            }
            Error::NotYet { place, key, found, feature } => write!(
                out,
                "{place}: `{key}` is {found}, which asks for {feature}: that comes later, and going \
                 on without it would be unsafe"
            ),
            Error::Table { setting } => {
                write!(out, "the table of settings is inconsistent at `{setting}`")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Everything that is wrong, in the order of the sources; shown one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>);

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Errors(vec![error])
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
