//! Whether this machine suits a broker with these settings, and what matters about it.
//!
//! **Owns** the judgement ([`judge`], facts in, findings out, nothing else) and the looking ([`gather`], the only part that
//! touches the machine). It changes nothing: its one file has no name, so that even a kill leaves
//! nothing behind. The command line calls [`examine`] and shows the [`Report`].

mod facts;
mod finding;
mod gather;
mod judge;

use serde::Serialize;

use settings::{Role, Settings};

pub use facts::Facts;
pub use finding::{Finding, Mark};

/// What was found, and what it means.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `doctor`.
    pub kind: &'static str,
    /// Whether a broker with these settings can work here.
    pub works: bool,
    /// One for each thing that was looked at.
    pub findings: Vec<Finding>,
    /// The figures behind them.
    pub facts: Facts,
}

/// Looks at the machine; takes a few seconds for the measurements of the disk.
pub fn examine(role: Role, settings: &Settings) -> Report {
    let facts = gather::facts(role, settings);
    let findings = judge::judge(&facts, &gather::wants(settings));
    Report { kind: "doctor", works: findings.iter().all(|finding| finding.mark != Mark::Fail), findings, facts }
}
