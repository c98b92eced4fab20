//! One Rust file as the checks see it: its code without comments and literals, which lines are tests, its functions.

use std::ops::RangeInclusive;

use crate::mask::mask;
use crate::tokens::{Token, body_start, closing, is_name, lines_of, tokens};

/// A Rust file.
pub struct Source {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// The file.
    pub text: String,
    /// The file with comments and literals blanked out.
    pub code: String,
    /// Lines of items that are only compiled for tests.
    tests: Vec<RangeInclusive<usize>>,
    /// Modules in other files that are only compiled for tests.
    pub test_modules: Vec<String>,
    /// Whether the whole file is only compiled for tests.
    pub is_test: bool,
}

/// A function and how long it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of its `fn`.
    pub line: usize,
    /// Lines from its `fn` to its closing brace.
    pub length: usize,
}

impl Source {
    /// Takes a file apart.
    pub fn new(path: &str, text: &str) -> Self {
        let code = mask(text);
        let (tests, test_modules) = test_items(&tokens(&code));
        let in_test_folder = ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder));
        Self { path: path.to_owned(), text: text.to_owned(), code, tests, test_modules, is_test: in_test_folder }
    }

    /// Tokens of the code; with `with_tests` also those of tests.
    pub fn tokens(&self, with_tests: bool) -> Vec<Token<'_>> {
        let mut found = tokens(&self.code);
        found.retain(|token| with_tests || !self.is_test_line(token.line));
        found
    }

    /// Whether a line is only compiled for tests.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Lines that are not tests.
    pub fn length(&self) -> usize {
        (1..=self.text.lines().count()).filter(|&line| !self.is_test_line(line)).count()
    }

    /// Functions that are not tests.
    pub fn functions(&self) -> Vec<Function> {
        let found = self.tokens(false);
        let mut functions = Vec::new();
        for (at, pair) in found.windows(2).enumerate() {
            let [first, name] = pair else { continue };
            if first.text != "fn" || !is_name(name.text) {
                continue;
            }
            let Some(open) = body_start(&found, at).filter(|&open| found.get(open).is_some_and(|t| t.text == "{"))
            else {
                continue;
            };
            let last_line = found.get(closing(&found, open)).map_or(first.line, |close| close.line);
            let length = last_line + 1 - first.line;
            functions.push(Function { name: name.text.to_owned(), line: first.line, length });
        }
        functions
    }

    /// Paths of files whose modules are declared here for tests only.
    pub fn test_files(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let folder = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        self.test_modules.iter().flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]).collect()
    }
}

/// Lines of items under `#[cfg(test)]`, and names of such modules that are in other files.
fn test_items(found: &[Token<'_>]) -> (Vec<RangeInclusive<usize>>, Vec<String>) {
    const MARK: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut lines, mut modules) = (Vec::new(), Vec::new());
    for first_line in lines_of(found, MARK) {
        let after = |token: &&Token<'_>| token.line >= first_line;
        let rest: Vec<Token<'_>> = found.iter().filter(after).copied().collect();
        // Other marks on the line before the item's own are rare; they are part of it.
        let start = rest.windows(MARK.len()).position(|window| window.iter().zip(MARK).all(|(t, m)| t.text == *m));
        let Some(item) = start.map(|start| start + MARK.len()) else { continue };
        let Some(open) = body_start(&rest, item) else { continue };
        let last_line = rest.get(closing(&rest, open)).map_or(first_line, |close| close.line);
        lines.push(first_line..=last_line);
        if let Some([keyword, name, end]) = rest.get(open.saturating_sub(2)..=open)
            && (keyword.text, end.text) == ("mod", ";")
        {
            modules.push(name.text.to_owned());
        }
    }
    (lines, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! Doc.
#[cfg(test)]
mod far;
fn one(x: [u8; 2]) -> u8 {
    // }
    match x { _ => '}' as u8 }
}
#[cfg(test)]
mod tests {
    fn inner() {
        todo!()
    }
}
trait T {
    fn declared(&self);
    fn given(&self) {}
}
";

    #[test]
    fn tests_are_told_from_code() {
        let source = Source::new("crates/x/src/a.rs", TEXT);
        let lines: Vec<_> = (1..=17).filter(|&line| source.is_test_line(line)).collect();
        assert_eq!(lines, [2, 3, 8, 9, 10, 11, 12, 13]);
        assert_eq!(source.length(), 9);
        assert_eq!(source.test_files(), ["crates/x/src/a/far.rs", "crates/x/src/a/far/"]);
        assert!(Source::new("crates/x/tests/a.rs", TEXT).is_test_line(1));
        assert_eq!(Source::new("crates/x/src/lib.rs", TEXT).test_files()[0], "crates/x/src/far.rs");
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let functions = Source::new("crates/x/src/a.rs", TEXT).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.length)).collect();
        assert_eq!(found, [("one", 4, 4), ("given", 16, 1)]);
    }
}
