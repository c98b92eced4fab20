//! One Rust file as the checks see it: which lines are shipped and which are only compiled for tests, by rustfmt's layout.

/// A Rust file.
pub struct Source {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// The file.
    pub text: String,
    /// Lines outside of items that are only compiled for tests, with their numbers from 1.
    lines: Vec<(usize, String)>,
    /// Modules in other files that are only compiled for tests.
    test_modules: Vec<String>,
    /// Whether the whole file is only compiled for tests.
    pub is_test: bool,
}

impl Source {
    /// Takes a file apart.
    pub fn new(path: &str, text: &str) -> Self {
        let is_test = ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder));
        let (mut shipped, mut test_modules) = (Vec::new(), Vec::new());
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let Some(indent) = line.strip_suffix("#[cfg(test)]").filter(|indent| indent.trim().is_empty()) else {
                shipped.push((number, line.to_owned()));
                continue;
            };
            // The item ends on the first line as far to the right as its mark that is whole, or closes it.
            let ends = |line: &str| {
                let beside =
                    line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(|c: char| !c.is_whitespace()));
                beside && line.ends_with([';', ',', '}'])
            };
            let last = lines.by_ref().find(|(line, _)| ends(line)).map_or("", |(line, _)| line.trim());
            test_modules.extend(
                last.strip_suffix(';').and_then(|item| item.split_once("mod ")).map(|(_, name)| name.to_owned()),
            );
        }
        Self { path: path.to_owned(), text: text.to_owned(), lines: shipped, test_modules, is_test }
    }

    /// Lines that are not tests, with their numbers.
    pub fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.lines.iter().filter(|_| !self.is_test);
        lines.map(|(number, line)| (*number, line.as_str()))
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

/// Names, keywords and numbers of a line, each with where it begins.
pub fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let texts = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    texts.filter(|word| !word.is_empty()).map(|word| (word.as_ptr().addr() - line.as_ptr().addr(), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! Doc.
#[cfg(test)]
mod far;
fn one(x: [u8; 2]) -> u8 {
    #[cfg(test)]
    let x = [
        1,
    ];
    match x { _ => '}' as u8 }
}
#[cfg(test)]
#[allow(missing_docs)]
mod tests {
    fn inner() {
    }
}
trait T {
}
";

    #[test]
    fn tests_are_told_from_code() {
        let source = Source::new("crates/x/src/a.rs", TEXT);
        let lines: Vec<_> = source.shipped().map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 4, 9, 10, 17, 18]);
        assert_eq!(source.test_files(), ["crates/x/src/a/far.rs", "crates/x/src/a/far/"]);
        assert_eq!(Source::new("crates/x/tests/a.rs", TEXT).shipped().count(), 0);
        assert_eq!(Source::new("crates/x/src/lib.rs", TEXT).test_files()[0], "crates/x/src/far.rs");
    }

    #[test]
    fn words_have_their_places() {
        assert_eq!(words("use a_b::{é1};").collect::<Vec<_>>(), [(0, "use"), (4, "a_b"), (10, "é1")]);
    }
}
