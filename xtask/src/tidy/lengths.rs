//! How long files and functions may be: a limit, and a ratchet for what was longer when the limit came.
//!
//! An entry of the ratchet is a line `file PATH LINES` or `function PATH NAME LINES`. What has an entry may not grow;
//! when it shrinks, its entry shrinks with it.

use std::collections::BTreeMap;

use super::Finding;
use crate::source::Source;

/// Where the ratchet is.
pub const RATCHET_PATH: &str = "xtask/ratchet.txt";

/// Lines of a file, tests not counted.
const FILE_LINES_MAX: usize = 450;

/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// How many of the longest are reported.
const REPORTED: usize = 10;

/// Something that has a length.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    File { path: String },
    Function { path: String, name: String },
}

impl Thing {
    fn path(&self) -> &str {
        match self {
            Self::File { path } | Self::Function { path, .. } => path,
        }
    }

    const fn limit(&self) -> usize {
        match self {
            Self::File { .. } => FILE_LINES_MAX,
            Self::Function { .. } => FUNCTION_LINES_MAX,
        }
    }

    const fn remedy(&self) -> &'static str {
        match self {
            Self::File { .. } => "give a noun of its own a file of its own",
            Self::Function { .. } => "give a step with a name of its own a function of its own",
        }
    }
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path } => write!(f, "file {path}"),
            Self::Function { path, name } => write!(f, "function {path} {name}"),
        }
    }
}

/// Where something is and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    line: usize,
    length: usize,
}

/// Compares every length with its limit and the ratchet.
pub fn check(sources: &[Source], ratchet: &str) -> Vec<Finding> {
    let measured = measure(sources);
    let (entries, mut findings) = read_ratchet(ratchet);
    for (thing, found) in &measured {
        let allowed = entries.get(thing).map_or(thing.limit(), |entry| entry.length.max(thing.limit()));
        if found.length > allowed {
            let problem = match entries.get(thing) {
                Some(_) => format!("`{thing}` grew to {} lines; the ratchet allows {allowed}", found.length),
                None => format!("`{thing}` has {} lines; at most {allowed} are allowed", found.length),
            };
            findings.push(Finding::new(thing.path(), found.line, problem, thing.remedy()));
        }
    }
    for (thing, entry) in &entries {
        let length = measured.get(thing).map_or(0, |found| found.length);
        if length <= thing.limit() {
            let problem = format!("`{thing}` is within the limit, or gone");
            findings.push(Finding::new(RATCHET_PATH, entry.line, problem, "remove the entry"));
        } else if length < entry.length {
            let problem = format!("`{thing}` shrank from {} to {length} lines", entry.length);
            findings.push(Finding::new(RATCHET_PATH, entry.line, problem, format!("lower the entry to {length}")));
        }
    }
    findings
}

/// The longest files and functions.
pub fn report(sources: &[Source]) -> String {
    let mut measured: Vec<(Thing, Measured)> = measure(sources).into_iter().collect();
    measured.sort_by_key(|(_, found)| std::cmp::Reverse(found.length));
    let mut text = String::new();
    for kind in ["function", "file"] {
        text.push_str(&format!("longest {kind}s:\n"));
        let of_kind = measured.iter().filter(|(thing, _)| thing.to_string().starts_with(&format!("{kind} ")));
        for (thing, found) in of_kind.take(REPORTED) {
            let name = match thing {
                Thing::File { path } => path.clone(),
                Thing::Function { path, name } => format!("{path}:{} {name}", found.line),
            };
            text.push_str(&format!("  {:>4} of {}  {name}\n", found.length, thing.limit()));
        }
    }
    text
}

/// Lengths of all files and functions that are not tests. Functions of one name in one file share their entry.
fn measure(sources: &[Source]) -> BTreeMap<Thing, Measured> {
    let mut measured = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let path = source.path.clone();
        measured.insert(Thing::File { path: path.clone() }, Measured { line: 0, length: source.length() });
        for function in source.functions() {
            let found = Measured { line: function.line, length: function.length };
            let entry = measured.entry(Thing::Function { path: path.clone(), name: function.name }).or_insert(found);
            if found.length > entry.length {
                *entry = found;
            }
        }
    }
    measured
}

fn read_ratchet(text: &str) -> (BTreeMap<Thing, Measured>, Vec<Finding>) {
    let (mut entries, mut findings) = (BTreeMap::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (thing, length) = match words.as_slice() {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            ["file", path, length] => (Thing::File { path: (*path).to_owned() }, length.parse()),
            ["function", path, name, length] => {
                (Thing::Function { path: (*path).to_owned(), name: (*name).to_owned() }, length.parse())
            }
            _ => (Thing::File { path: String::new() }, "".parse()),
        };
        let Ok(length) = length else {
            let remedy = "write `file PATH LINES` or `function PATH NAME LINES`";
            findings.push(Finding::new(RATCHET_PATH, number + 1, format!("`{line}` is no entry"), remedy));
            continue;
        };
        entries.insert(thing, Measured { line: number + 1, length });
    }
    (entries, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    ();\n".repeat(lines - 2))
    }

    fn problems(text: &str, ratchet: &str) -> Vec<String> {
        let findings = check(&[Source::new("a.rs", text)], ratchet);
        findings.iter().map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.problem)).collect()
    }

    #[test]
    fn limits_hold_and_the_ratchet_only_turns_one_way() {
        let long = function(80);
        for (text, ratchet, expected) in [
            (function(70), "", None),
            (function(71), "", Some("a.rs:1 `function a.rs long` has 71 lines; at most 70 are allowed")),
            (long.clone(), "# why\n\nfunction a.rs long 80", None),
            (
                long.clone(),
                "function a.rs long 79",
                Some("a.rs:1 `function a.rs long` grew to 80 lines; the ratchet allows 79"),
            ),
            (
                long,
                "function a.rs long 81",
                Some("xtask/ratchet.txt:1 `function a.rs long` shrank from 81 to 80 lines"),
            ),
            (
                function(70),
                "function a.rs long 71",
                Some("xtask/ratchet.txt:1 `function a.rs long` is within the limit, or gone"),
            ),
            (
                String::new(),
                "function b.rs gone 71",
                Some("xtask/ratchet.txt:1 `function b.rs gone` is within the limit, or gone"),
            ),
            ("//\n".repeat(450), "", None),
            ("//\n".repeat(451), "", Some("a.rs:0 `file a.rs` has 451 lines; at most 450 are allowed")),
            ("//\n".repeat(451), "file a.rs 451", None),
            (format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "//\n".repeat(450), "//\n".repeat(99)), "", None),
            (String::new(), "file a.rs many", Some("xtask/ratchet.txt:1 `file a.rs many` is no entry")),
            (String::new(), "whatever", Some("xtask/ratchet.txt:1 `whatever` is no entry")),
        ] {
            assert_eq!(problems(&text, ratchet), Vec::from_iter(expected), "{ratchet}");
        }
    }

    #[test]
    fn tests_may_be_long() {
        assert_eq!(check(&[Source::new("x/tests/a.rs", &"//\n".repeat(999))], ""), []);
    }

    #[test]
    fn the_report_begins_with_the_longest() {
        let sources = [Source::new("a.rs", &function(5)), Source::new("b.rs", &function(9))];
        let expected = "\
longest functions:
     9 of 70  b.rs:1 long
     5 of 70  a.rs:1 long
longest files:
     9 of 450  b.rs
     5 of 450  a.rs
";
        assert_eq!(report(&sources), expected);
    }
}
