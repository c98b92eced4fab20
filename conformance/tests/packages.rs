//! What `deploy/` gives to installers: Sluice takes the settings that stand there, and Helm the chart. `cargo xtask try-package` tries the
//! package for Debian.

use std::path::PathBuf;
use std::process::Command;

use conformance::sluice::binary;
use conformance::{program, repository, skip};

const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.18.4";

fn deploy(path: &str) -> PathBuf {
    repository().join("deploy").join(path)
}

/// What counts with these arguments.
fn settings(arguments: &[&str]) -> String {
    program::run(Command::new(binary()).arg("config").args(arguments))
}

#[test]
fn settings_of_packages_are_taken() {
    for (file, host) in [("debian/sluice.toml", "127.0.0.1"), ("container/sluice.toml", "0.0.0.0")] {
        let path = deploy(file).display().to_string();
        let effective = settings(&["--config", &path]);
        for wanted in [host, "/var/lib/sluice", &path] {
            assert!(effective.contains(wanted), "{file}: {wanted} in\n{effective}");
        }
    }
}

/// Helm, which Go makes of its source.
fn helm() -> Option<Command> {
    let has_go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    if !has_go {
        skip("Go is not on the path, of which Helm is made");
        return None;
    }
    let folder = program::installed(&HELM.replace('/', "-"), |folder| {
        program::run(Command::new("go").args(["install", HELM]).env("GOBIN", folder).env("GOFLAGS", ""));
    });
    Some(Command::new(folder.join("helm")))
}

/// Arguments of the container, one a line, with what Kubernetes puts in.
fn arguments(rendered: &str) -> Vec<String> {
    let lines = rendered.lines().filter_map(|line| line.trim().strip_prefix("- --set="));
    lines.map(|line| line.replace("$(POD_NAME)", "shop-sluice-0").replace("$(POD_IP)", "10.0.0.7")).collect()
}

#[test]
fn helm_takes_the_chart_and_sluice_what_it_says() {
    let few = ["--set", "settings=[retention]\nage = \"48h\""];
    let many = ["--set", "replicas=3,ports.amqp=null,serviceMonitor.enabled=true,service.type=LoadBalancer"];
    for values in [few, many] {
        let Some(mut helm_lint) = helm() else { return };
        program::run(helm_lint.args(["lint", "--strict", "."]).args(values).current_dir(deploy("helm/sluice")));
        let Some(mut helm_template) = helm() else { return };
        helm_template.args(["template", "shop", ".", "--kube-version", "1.30.0"]).args(values);
        let rendered = program::run(helm_template.current_dir(deploy("helm/sluice")));
        let told = arguments(&rendered);
        assert!(told.len() >= 7, "{rendered}");
        let flags: Vec<_> = told.iter().flat_map(|setting| ["--set", setting]).collect();
        let effective = settings(&flags);
        assert!(effective.contains("shop-sluice-0") && effective.contains("10.0.0.7"), "{effective}");
        let several = "shop-sluice-2.shop-sluice-pods.default.svc:9876";
        assert_eq!(effective.contains(several), values == many, "{effective}");
    }
    let Some(mut refused) = helm() else { return };
    refused
        .args(["template", ".", "--kube-version", "1.30.0", "--set", "replica=3"])
        .current_dir(deploy("helm/sluice"));
    assert!(!refused.output().expect("it runs").status.success(), "a value that the chart does not know");
}
