//! Text that only makes sense on one machine: paths of homes and workplaces, addresses of package registries.

use super::Finding;
use crate::repository::File;

/// Folders of machines. In pieces, so that this file does not name them.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Hosts packages are fetched from; the tools know them, or are told where they run.
const REGISTRIES: &[&str] = &[
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("repo.maven.apa", "che.org"),
    concat!("repo1.mav", "en.org"),
    concat!("registry.npm", "js.org"),
    concat!("proxy.gol", "ang.org"),
    concat!("pypi.", "org"),
    concat!("files.pythonhos", "ted.org"),
];

/// Parts of the names of private registries.
const PRIVATE: &[&str] = &["artifactory", "nexus", "mirror", ".internal", ".corp", ".local"];

/// Checks one file, text or not: captured bytes carry paths too.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        for folder in FOLDERS.iter().filter(|folder| names_folder(&line, folder)) {
            let remedy = "write a path relative to the repository, or a variable such as $HOME";
            findings.push(Finding::new(&file.path, number + 1, format!("names the machine's folder {folder}"), remedy));
        }
        for host in hosts(&line).filter(|host| is_registry(host)) {
            let remedy = "leave it to the settings of the tool on the machine it runs on";
            findings.push(Finding::new(&file.path, number + 1, format!("names the registry {host}"), remedy));
        }
    }
    findings
}

/// Whether an absolute path begins with `folder`; `target/home/` and the like are none.
fn names_folder(line: &str, folder: &str) -> bool {
    let continues_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '~' | '*' | '/');
    line.match_indices(folder).any(|(at, _)| !line.get(..at).is_some_and(|before| before.ends_with(continues_path)))
}

/// Hosts of the addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).filter_map(|rest| {
        let host = rest.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@'))).next()?;
        Some(host.rsplit('@').next().unwrap_or(host))
    })
}

fn is_registry(host: &str) -> bool {
    REGISTRIES.contains(&host) || PRIVATE.iter().any(|part| host.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_and_registries_are_found() {
        for (text, count) in [
            (concat!("cd /wo", "rk/main"), 1),
            (concat!("\"/ro", "ot/store\""), 1),
            (concat!("HOME=/ho", "me/ann"), 1),
            (concat!("target/ho", "me/x"), 0),
            (concat!("$ROOT/wo", "rk/x ${A}/wo", "rk/x"), 0),
            (concat!("{\"path\":\"/ro", "ot/a\",\"b\":\"/ro", "ot/c\"}\n/ro", "ot/"), 2),
            ("see https://example.org/a", 0),
            (concat!("https://registry.npm", "js.org/a"), 1),
            (concat!("sparse+https://index.cra", "tes.io/"), 1),
            ("registry+https://github.com/rust-lang/crates.io-index", 0),
            (concat!("http://user:x@arti", "factory.example.org/maven"), 0),
            (concat!("http://user@art", "ifactory.example.org/maven"), 1),
            (concat!("http://proxy.build.int", "ernal:8080"), 1),
        ] {
            let file = File { path: "x".to_owned(), bytes: text.as_bytes().to_vec() };
            assert_eq!(check(&file).len(), count, "{text}");
        }
        let bytes = [&b"\0\xFF\n\0/ro"[..], b"ot/x\xFF"].concat();
        assert_eq!(check(&File { path: "x".to_owned(), bytes })[0].line, 2);
    }
}
