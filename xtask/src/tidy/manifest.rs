//! The dependencies a `Cargo.toml` names, with their lines. Only as much TOML as such a file has.

/// One dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// Name.
    pub name: &'a str,
    /// Line, from 1.
    pub line: usize,
    /// What stands after the name.
    pub value: &'a str,
    /// The comment beside it, if there is one.
    pub comment: Option<&'a str>,
}

/// Dependencies in sections whose header satisfies `is_wanted`.
pub fn dependencies<'a>(text: &'a str, is_wanted: impl Fn(&str) -> bool) -> Vec<Dependency<'a>> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let (code, comment) = split_comment(line);
        let code = code.trim();
        if let Some(header) = code.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // `[dependencies.name]` is a section of its own.
            let (section, name) = match header.rsplit_once('.') {
                Some((section, name)) if is_wanted(section) => (section, Some(name)),
                _ => (header, None),
            };
            is_inside = name.is_none() && is_wanted(section);
            found.extend(name.map(|name| Dependency { name, line: number + 1, value: "", comment }));
        } else if is_inside && let Some((key, value)) = code.split_once('=') {
            let (name, setting) = key.trim().split_once('.').unwrap_or((key.trim(), ""));
            let value = if setting.is_empty() { value.trim() } else { setting };
            found.push(Dependency { name: name.trim_matches('"'), line: number + 1, value, comment });
        }
    }
    found
}

/// Whether a section of a package's manifest says what the shipped code needs. Tests may need more.
pub fn is_dependency_section(header: &str) -> bool {
    let section = header.rsplit_once('.').filter(|_| header.starts_with("target.")).map_or(header, |(_, last)| last);
    matches!(section, "dependencies" | "build-dependencies")
}

fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'#' if !is_quoted => {
                let (code, comment) = line.split_at(at);
                let comment = comment.trim_start_matches('#').trim();
                return (code, Some(comment).filter(|comment| !comment.is_empty()));
            }
            _ => {}
        }
    }
    (line, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_every_way_of_writing_them() {
        let text = "\
[package]
name = \"x\" # not a dependency
[dependencies]
base.workspace = true
wire = { path = \"../wire\" } # why
\"quoted\" = \"1#2\"
[target.'cfg(unix)'.dependencies]
unix = \"1\"
[build-dependencies]
build = \"1\"
[dependencies.long]
version = \"1\"
[dev-dependencies]
test = \"1\"
";
        let found = dependencies(text, is_dependency_section);
        let lines: Vec<_> = found.iter().map(|found| (found.name, found.line, found.comment)).collect();
        let expected = [
            ("base", 4, None),
            ("wire", 5, Some("why")),
            ("quoted", 6, None),
            ("unix", 8, None),
            ("build", 10, None),
            ("long", 11, None),
        ];
        assert_eq!(lines, expected);
        assert_eq!((found[0].value, found[1].value), ("workspace", "{ path = \"../wire\" }"));
    }
}
