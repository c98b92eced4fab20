//! Marks of unfinished work, and output that is nobody's business.

use super::Finding;
use crate::source::Source;
use crate::tokens::lines_of;

/// Marks of unfinished or switched-off work; tests have none either.
const UNFINISHED: &[(&[&str], &str)] = &[
    (&["todo", "!"], "do it, or return a refusal that says it is not supported"),
    (&["unimplemented", "!"], "do it, or return a refusal that says it is not supported"),
    (&["dbg", "!"], "remove it, or write a log line with tracing"),
    (
        &["#", "[", "ignore"],
        "mend the test or remove it; a test that needs more than a checkout says so when it is skipped",
    ),
];

/// What writes to the standard streams.
const PRINTS: &[&[&str]] = &[&["println", "!"], &["print", "!"], &["eprintln", "!"], &["eprint", "!"]];

/// Crates whose business is to write there.
const TALKERS: &[&str] = &["crates/cli/", "crates/bench/", "benches/", "xtask/", "fuzz/", "conformance/"];

/// The crate that writes one line: that it is ready.
const READY_ROOM: &str = "crates/server/";

/// Checks one file.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let all = source.tokens(true);
    for (pattern, remedy) in UNFINISHED {
        let found = lines_of(&all, pattern).into_iter();
        findings.extend(found.map(|line| Finding::new(&source.path, line, format!("`{}`", pattern.concat()), *remedy)));
    }
    if TALKERS.iter().any(|folder| source.path.starts_with(folder)) {
        return findings;
    }
    let code = source.tokens(false);
    for pattern in PRINTS {
        let is_ready_line = source.path.starts_with(READY_ROOM) && *pattern == ["println", "!"];
        for line in lines_of(&code, pattern).into_iter().skip(usize::from(is_ready_line)) {
            let problem = format!("`{}` outside of the command line", pattern.concat());
            let remedy = "write a log line with tracing; only the server's ready line goes to standard output";
            findings.push(Finding::new(&source.path, line, problem, remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_where_they_must_not_be() {
        for (path, text, count) in [
            ("crates/base/src/a.rs", "todo!(\"later\")", 1),
            ("crates/base/src/a.rs", "unimplemented!()", 1),
            ("crates/base/src/a.rs", "// todo!()\n\"dbg!\"", 0),
            ("crates/base/tests/a.rs", "#[test]\n#[ignore]\nfn f() { dbg!(1) }", 2),
            ("crates/base/tests/a.rs", "#[ignore = \"slow\"]", 1),
            ("crates/base/tests/a.rs", "println!()", 0),
            ("crates/base/src/a.rs", "println!(); eprintln!()", 2),
            ("crates/cli/src/a.rs", "println!(); eprintln!()", 0),
            ("crates/bench/src/a.rs", "print!()", 0),
            ("crates/server/src/a.rs", "println!(\"ready\")", 0),
            ("crates/server/src/a.rs", "println!(\"ready\"); println!()", 1),
            ("crates/server/src/a.rs", "eprintln!()", 1),
            ("crates/base/src/a.rs", "writeln!(f)", 0),
        ] {
            assert_eq!(check(&Source::new(path, text)).len(), count, "{path}: {text}");
        }
    }
}
