//! The rules of the house that no lint knows, checked: each breach with its place and its remedy.

mod absences;
mod arrows;
mod dependencies;
mod format;
mod lengths;
mod manifest;
mod roots;
mod texts;

use std::fmt;

use crate::repository::{self, File};
use crate::source::Source;

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl Finding {
    fn new(path: &str, line: usize, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, problem: problem.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: ", self.path)?,
            line => write!(f, "{}:{line}: ", self.path)?,
        }
        write!(f, "{}\n    {}", self.problem, self.remedy)
    }
}

/// Everything the checks look at.
struct House {
    files: Vec<File>,
    sources: Vec<Source>,
}

/// Runs every check and prints what was found.
pub fn run() -> Result<(), String> {
    let files = repository::files()?;
    let sources = repository::sources(&files);
    let house = House { files, sources };
    let mut findings = check(&house);
    findings.extend(format::check()?);
    findings.sort();
    if findings.is_empty() {
        println!("tidy: {} files, nothing to find fault with", house.files.len());
        return Ok(());
    }
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!("{}\ntidy: {} findings", list.join("\n"), findings.len()))
}

fn check(house: &House) -> Vec<Finding> {
    let text_of =
        |path: &str| house.files.iter().find(|file| file.path == path).and_then(File::text).unwrap_or_default();
    let manifests: Vec<(&str, &str)> = house
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
        .filter_map(|file| Some((file.path.as_str(), file.text()?)))
        .collect();
    let mut findings = arrows::check(&manifests);
    findings.extend(dependencies::check("Cargo.toml", text_of("Cargo.toml"), &manifests));
    findings.extend(roots::check(&house.files));
    for source in &house.sources {
        findings.extend(absences::check(source));
        findings.extend(lengths::check(source));
    }
    for file in &house.files {
        findings.extend(texts::check(file));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_its_place_and_its_remedy() {
        let finding = Finding::new("a.rs", 3, "wrong", "mend it");
        assert_eq!(finding.to_string(), "a.rs:3: wrong\n    mend it");
        assert_eq!(Finding { line: 0, ..finding }.to_string(), "a.rs: wrong\n    mend it");
    }

    #[test]
    fn every_check_is_run() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), bytes: text.as_bytes().to_vec() };
        let long = "//\n".repeat(451);
        let files = vec![
            file("Cargo.toml", "[workspace.dependencies]\nx = \"1\"\n"),
            file("crates/base/Cargo.toml", "[dependencies]\nwire.workspace = true\n"),
            file("crates/base/src/a.rs", "#[ignore]\n"),
            file("crates/base/src/b.rs", &long),
            file("docs/x.md", concat!("see /ro", "ot/x")),
        ];
        let sources = repository::sources(&files);
        let findings = check(&House { files, sources });
        let places: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
        let expected =
            ["crates/base/Cargo.toml", "Cargo.toml", "crates/base/src/a.rs", "crates/base/src/b.rs", "docs/x.md"];
        assert_eq!(places, expected);
    }
}
