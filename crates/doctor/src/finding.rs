//! One line of the report: what was found, whether it is fine, what matters and what to do.

use serde::Serialize;

/// How good what was found is, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Fine.
    Ok,
    /// Works; worth knowing.
    Note,
    /// Works, but slower or less safe than it should.
    Warn,
    /// Keeps the broker from working.
    Fail,
}

impl Mark {
    /// The mark as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub subject: String,
    /// Whether it is fine.
    pub mark: Mark,
    /// What was found.
    pub found: String,
    /// What matters here, and why.
    pub meaning: String,
    /// What to do, if it is not fine: a command, or a setting.
    pub remedy: Option<String>,
}

impl Finding {
    /// Something that is fine.
    pub fn ok(subject: impl Into<String>, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { subject: subject.into(), mark: Mark::Ok, found: found.into(), meaning: meaning.into(), remedy: None }
    }

    /// The same, but not fine.
    pub fn but(self, mark: Mark, remedy: impl Into<String>) -> Self {
        Self { mark, remedy: Some(remedy.into()), ..self }
    }

    /// The same, worth knowing, with nothing to be done about it.
    pub fn noted(self) -> Self {
        Self { mark: Mark::Note, ..self }
    }
}
