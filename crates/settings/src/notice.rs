//! What should be known about settings that are accepted.

use std::fmt;

use super::entry::Place;

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing is lost.
    Info,
    /// Something asked for is not done, or not as expected.
    Warning,
}

/// One line for the log about a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// The key as it was written.
    pub key: String,
    /// Where it was written.
    pub place: Place,
    /// What there is to say; completes a sentence that begins with the key.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Default => write!(out, "{} {}", self.key, self.text),
            _ => write!(out, "{}: {} {}", self.place, self.key, self.text),
        }
    }
}
