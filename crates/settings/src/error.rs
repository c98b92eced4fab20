//! What can be wrong with settings, said so that it can be put right.

use std::path::PathBuf;

use super::entry::Place;
use super::nearest::described;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "fields are a place, a key, what was found and what is expected")]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {why}")]
    Unreadable { path: PathBuf, why: String },
    /// The text is not of its format.
    #[error("{place}: {why}")]
    Syntax { place: Place, why: String },
    /// Nobody knows the key.
    #[error("{place}: unknown setting `{key}`; {}", advice(.nearest))]
    Unknown {
        place: Place,
        key: String,
        /// Known names that look like it, the best first.
        nearest: Vec<&'static str>,
    },
    /// The value is of the wrong type, out of range or otherwise unusable.
    #[error("{place}: `{key}` is {found}; expected {expected}")]
    Invalid { place: Place, key: String, found: String, expected: String },
    /// A RocketMQ key in a TOML file.
    #[error("{place}: `{key}` is {}", foreign(*.setting))]
    Foreign {
        place: Place,
        key: String,
        /// The setting that it means, if it means one.
        setting: Option<&'static str>,
    },
    /// Two keys of one file mean the same setting and differ.
    #[error(
        "{}: {}, but {} at {}; both mean `{setting}`",
        .claims[0].place, .claims[0].text(), .claims[1].text(), .claims[1].place
    )]
    Contradiction {
        setting: &'static str,
        /// The later one, then the earlier one.
        claims: Box<[Claim; 2]>,
    },
    /// Two ports of the process are the same.
    #[error("{first} and {second} are both {port}; expected different ports")]
    SamePort { first: String, second: String, port: u16 },
    /// Two settings that exclude each other, with the places of both.
    #[error("`{first}` ({}) and `{second}` ({}) are both set; expected one of them", .places[0], .places[1])]
    NotBoth { first: &'static str, second: &'static str, places: Box<[Place; 2]> },
    /// The value asks for a feature that is not there, and going on without it would be unsafe.
    #[error(
        "{place}: `{key}` is {found}, which asks for {feature}: that comes later, and going on without it would be unsafe"
    )]
    NotYet { place: Place, key: String, found: String, feature: &'static str },
    /// A row of the table of settings does not fit its field: a mistake of this program.
    #[error("the table of settings is inconsistent at `{setting}`")]
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

/// Everything that is wrong, in the order of the sources; shown one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Error::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Errors(pub Vec<Error>);

impl Claim {
    fn text(&self) -> String {
        format!("`{}` is {}", self.key, self.found)
    }
}

fn advice(nearest: &[&str]) -> String {
    match nearest {
        [] => "`sluice config --default` lists all settings".to_owned(),
        [one] => format!("did you mean {}?", described(one)),
        many => {
            let many: Vec<_> = many.iter().map(|name| described(name)).collect();
            format!("the nearest known are {}", many.join(", "))
        }
    }
}

fn foreign(setting: Option<&str>) -> String {
    match setting {
        Some(setting) => format!("RocketMQ's name; a TOML file says `{setting}`"),
        None => "a RocketMQ key; it belongs in a .properties or .conf file".to_owned(),
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Errors(vec![error])
    }
}
