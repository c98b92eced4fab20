//! What a source says: a key, what was found for it, and where.

use std::fmt;
use std::path::PathBuf;

/// Where an entry was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, on a line counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// In a `--set key=value`.
    Set,
    /// In a flag of its own.
    Flag,
    /// In a change that was asked for while the process ran.
    Running,
    /// Nowhere: it is the default.
    Default,
}

impl Place {
    /// The line, if the entry comes from a file.
    pub fn line(&self) -> Option<usize> {
        match self {
            Place::File { line, .. } => Some(*line),
            _ => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line } => write!(out, "{}:{line}", path.display()),
            Place::Set => out.write_str("--set"),
            Place::Flag => out.write_str("command line"),
            Place::Running => out.write_str("changed while running"),
            Place::Default => out.write_str("default"),
        }
    }
}

/// What was found for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Text of a source without types: a property file or the command line.
    Word(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(String),
    /// A TOML boolean.
    Boolean(bool),
    /// A TOML array of strings or integers.
    List(Vec<String>),
    /// Anything else of TOML, with its article and name.
    Other(&'static str),
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Word(text) if text.trim().is_empty() => out.write_str("nothing"),
            Found::Word(text) => out.write_str(text),
            Found::Text(text) => write!(out, "the text {text:?}"),
            Found::Integer(digits) => write!(out, "the number {digits}"),
            Found::Boolean(on) => write!(out, "{on}"),
            Found::List(items) => write!(out, "the array {items:?}"),
            Found::Other(noun) => out.write_str(noun),
        }
    }
}

/// One key of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) found: Found,
    pub(super) place: Place,
}
