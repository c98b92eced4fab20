//! Where a report goes: a table for people on standard output, JSON for programs where it was asked for.

use std::path::{Path, PathBuf};

use super::Outcome;
use crate::say;

/// What every subcommand with a report takes.
#[derive(clap::Args, Debug)]
pub struct ReportTo {
    /// Writes everything as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl ReportTo {
    /// Whether standard output is for JSON alone.
    pub fn is_json_printed(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Tells a report in the forms that were asked for.
    pub fn publish(&self, table: String, json: String) -> Outcome {
        if self.is_json_printed() {
            return say::line(json);
        }
        // The file is written whatever becomes of the table.
        let printed = say::line(table);
        self.json.as_deref().map_or(Ok(()), |path| write(path, &(json + "\n")))?;
        printed
    }
}

/// Writes a file of a report.
pub fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
