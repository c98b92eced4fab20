//! How long files may be. Functions are measured by clippy (`too_many_lines`).

use super::Finding;
use crate::source::Source;

/// Lines of a file, tests not counted.
const FILE_LINES_MAX: usize = 450;

/// Checks one file.
pub fn check(source: &Source) -> Option<Finding> {
    let length = source.shipped().count();
    let problem = format!("has {length} lines; at most {FILE_LINES_MAX} are allowed");
    let finding = Finding::new(&source.path, 0, problem, "give a noun of its own a file of its own");
    (length > FILE_LINES_MAX).then_some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_limit_and_tests_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    //\n".repeat(99));
        for (path, lines, is_allowed) in [("a.rs", 450, true), ("a.rs", 451, false), ("x/tests/a.rs", 999, true)] {
            let source = Source::new(path, &format!("{}{tests}", "//\n".repeat(lines)));
            assert_eq!(check(&source).is_none(), is_allowed, "{path} {lines}");
        }
    }
}
