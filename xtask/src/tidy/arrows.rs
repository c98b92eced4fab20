//! Which crate may use which: the table, against the manifests.

use super::Finding;
use super::manifest::{dependencies, is_dependency_section};

/// Each crate with the crates it may use. Dependencies of tests are free.
pub const CRATES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("format", &["base"]),
    ("wire", &["base", "format"]),
    ("storage", &["base", "format"]),
    ("inspect", &["base", "format", "storage"]),
    ("broker", &["base", "format", "storage"]),
    ("dialect", &["base", "format", "wire", "broker"]),
    ("cluster", &["base", "format", "wire", "storage"]),
    ("tls", &["base"]),
    ("console", &["base", "format", "broker", "dialect"]),
    ("settings", &["base"]),
    ("doctor", &["base", "settings"]),
    ("server", &["base", "format", "wire", "storage", "broker", "dialect", "cluster", "tls", "console", "settings"]),
    ("client", &["base", "format", "wire", "tls"]),
    ("bench", &["base", "format", "wire", "client"]),
    ("cli", &["server", "settings", "doctor", "inspect", "client", "bench"]),
    ("testkit", &["base", "format", "storage", "broker", "dialect"]),
    (
        "sim",
        &[
            "base", "format", "wire", "storage", "inspect", "broker", "dialect", "cluster", "tls", "settings",
            "doctor", "testkit",
        ],
    ),
];

/// Crates of others that only some of ours may use: what they are for, their names, who may.
const OUTSIDE: &[(&str, &[&str], &[&str])] = &[
    (
        "sockets and tasks",
        &["tokio", "socket2", "hyper", "hyper-util", "axum", "mio", "futures"],
        &["doctor", "server", "console", "bench", "cli"],
    ),
    ("system calls", &["rustix", "libc", "nix"], &["storage", "doctor", "server", "client", "bench", "cli"]),
];

/// Checks manifests, given as path and text.
pub fn check(manifests: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in manifests {
        let Some(crate_name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let Some((_, may_use)) = CRATES.iter().find(|(name, _)| *name == crate_name) else {
            let remedy = "describe the crate in ARCHITECTURE.md and add it to the table in xtask/src/tidy/arrows.rs";
            findings.push(Finding::new(
                path,
                0,
                format!("the crate {crate_name} is not in the table of crates"),
                remedy,
            ));
            continue;
        };
        for dependency in dependencies(text, is_dependency_section) {
            for (what, names, users) in OUTSIDE {
                if names.contains(&dependency.name) && !users.contains(&crate_name) {
                    let problem = format!("{crate_name} must not use {} ({what})", dependency.name);
                    let remedy = "take values and give values; the crate `server` owns the machine";
                    findings.push(Finding::new(path, dependency.line, problem, remedy));
                }
            }
            let is_ours = CRATES.iter().any(|(name, _)| *name == dependency.name);
            if is_ours && !may_use.contains(&dependency.name) {
                let allowed = if may_use.is_empty() { "no other crate".to_owned() } else { may_use.join(", ") };
                let problem = format!("{crate_name} must not use {} (it may use {allowed})", dependency.name);
                let remedy = "move the code to the crate that owns that knowledge; a new arrow needs ARCHITECTURE.md to change first";
                findings.push(Finding::new(path, dependency.line, problem, remedy));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drawn_arrows_are_allowed() {
        for (crate_name, dependency, is_allowed) in [
            ("base", "wire", false),
            ("base", "format", false),
            ("format", "wire", false),
            ("wire", "base", true),
            ("wire", "broker", false),
            ("broker", "storage", true),
            ("broker", "wire", false),
            ("dialect", "storage", false),
            ("cluster", "broker", false),
            ("console", "storage", false),
            ("client", "broker", false),
            ("client", "tls", true),
            ("client", "tokio", false),
            ("bench", "broker", false),
            ("server", "cli", false),
            ("server", "cluster", true),
            ("cli", "base", false),
            ("cli", "storage", false),
            ("storage", "serde", true),
            ("settings", "broker", false),
            ("doctor", "settings", true),
            ("doctor", "server", false),
            ("inspect", "broker", false),
            ("testkit", "server", false),
            ("sim", "dialect", true),
            ("sim", "server", false),
            ("server", "testkit", false),
            ("cluster", "tokio", false),
            ("console", "tokio", true),
            ("broker", "rustix", false),
            ("storage", "rustix", true),
        ] {
            let path = format!("crates/{crate_name}/Cargo.toml");
            let text = format!("[package]\nname = \"{crate_name}\"\n[dependencies]\n{dependency}.workspace = true\n");
            let findings = check(&[(&path, &text)]);
            assert_eq!(findings.is_empty(), is_allowed, "{crate_name} -> {dependency}");
            assert!(findings.iter().all(|finding| finding.line == 4));
            let for_tests = text.replace("[dependencies]", "[dev-dependencies]");
            assert_eq!(check(&[(&path, &for_tests)]), []);
        }
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_eq!(check(&[("crates/attic/Cargo.toml", "")]).len(), 1);
        assert_eq!(check(&[("xtask/Cargo.toml", "[dependencies]\nbase.workspace = true")]), []);
    }
}
