//! Every dependency stands once, in the root manifest, with its reason.

use super::Finding;
use super::manifest::{dependencies, is_dependency_section};

/// Packages that share nothing with the product.
const OTHER_WORKSPACES: &[&str] = &["fuzz/Cargo.toml", "conformance/amqp/lapin/Cargo.toml"];

/// Checks the root manifest, and that those of the crates take their versions from it.
pub fn check(root_path: &str, root: &str, manifests: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dependency in dependencies(root, |header| header == "workspace.dependencies") {
        if dependency.comment.is_none() && !dependency.value.contains("path =") {
            let problem = format!("no reason is given for {}", dependency.name);
            findings.push(Finding::new(
                root_path,
                dependency.line,
                problem,
                "say beside it in a few words what it is for: `# reason`",
            ));
        }
    }
    let in_workspace = |path: &&(&str, &str)| !OTHER_WORKSPACES.contains(&path.0);
    for (path, text) in manifests.iter().filter(in_workspace) {
        let is_wanted = |header: &str| is_dependency_section(header) || header == "dev-dependencies";
        for dependency in dependencies(text, is_wanted) {
            if !dependency.value.contains("workspace") {
                let problem = format!("{} is not taken from the workspace", dependency.name);
                let remedy = "state it with its reason in the root Cargo.toml, and here as `name.workspace = true`";
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
    fn a_dependency_has_its_reason_beside_it() {
        let root = "\
[workspace.dependencies]
base = { path = \"crates/base\" }
good = \"1\" # why
bad = \"1\"
worse = { version = \"1\", features = [\"#\"] } #
";
        let lines: Vec<_> = check("Cargo.toml", root, &[]).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 5]);
    }

    #[test]
    fn versions_stand_in_the_root_alone() {
        for (value, is_allowed) in [
            (".workspace = true", true),
            (" = { workspace = true, features = [\"a\"] }", true),
            (" = \"1\"", false),
            (" = { path = \"../x\" }", false),
        ] {
            let text = format!("[dev-dependencies]\nx{value}\n");
            assert_eq!(check("Cargo.toml", "", &[("crates/a/Cargo.toml", &text)]).is_empty(), is_allowed, "{value}");
            assert_eq!(check("Cargo.toml", "", &[("fuzz/Cargo.toml", &text)]), []);
        }
    }
}
