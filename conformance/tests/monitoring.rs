//! What Prometheus makes of the metrics page: its own tool finds nothing to complain of, the alert rules do what their tests say, and every
//! expression of the dashboard has data once brokers are used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::pair::{member, until};
use conformance::process::Process;
use conformance::sluice::{Setup, Sluice, binary};
use conformance::{free_port, http, program, repository, skip};
use rustix::fs::{Advice, fadvise};
use serde_json::Value;
use wire::rocketmq::code::request;

/// A scrape a second, and rates over a few of them; a loaded machine gets more.
const LIMIT: Duration = Duration::from_secs(120);

/// Prometheus and its tool: of this machine, or unpacked from Debian's package.
fn installed(name: &str) -> Option<Command> {
    let is_there = |command: &mut Command| {
        command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if is_there(&mut Command::new(name)) {
        return Some(Command::new(name));
    }
    let unpack = |folder: &Path| {
        let download = "apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }";
        let line = format!(
            "mkdir -p \"$0\" && cd \"$0\" && {{ {download}; }} && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb"
        );
        let _ = Command::new("sh").args(["-c", &line]).arg(folder).status();
    };
    let folder = program::installed("prometheus", unpack);
    let program = folder.join("usr/bin").join(name);
    if is_there(&mut Command::new(&program)) {
        return Some(Command::new(program));
    }
    // So that the next run tries again.
    let _ = std::fs::remove_dir_all(folder);
    skip("prometheus and promtool are not there: apt-get install prometheus");
    None
}

fn deploy(path: &str) -> String {
    std::fs::read_to_string(repository().join("deploy").join(path)).expect("a file of deploy/")
}

#[test]
fn alert_rules_do_what_their_tests_say() {
    for arguments in [["check", "config", "prometheus.yml"], ["test", "rules", "sluice.rules.test.yml"]] {
        let Some(mut promtool) = installed("promtool") else { return };
        program::run(promtool.args(arguments).current_dir(repository().join("deploy/prometheus")));
    }
    // Each rule fires in one of them.
    let tests = deploy("prometheus/sluice.rules.test.yml");
    for line in deploy("prometheus/sluice.rules.yml").lines() {
        if let Some(name) = line.trim().strip_prefix("- alert: ") {
            let fires = tests.split("- eval_time: ").any(|test| test.contains(name) && test.contains("exp_alerts"));
            assert!(fires, "{name} is not tested");
        }
    }
}

/// A master that speaks AMQP too, and its slave.
struct Brokers {
    name_server: Sluice,
    master: Sluice,
    slave: Sluice,
    used: Used,
}

/// The master, as it is used.
struct Used {
    target: String,
    amqp: String,
    log: PathBuf,
}

impl Brokers {
    fn start(scratch: &Path) -> Self {
        let name_server = Setup::name_server(&scratch.join("names")).start();
        let amqp = free_port();
        let setup = member(&scratch.join("master"), &name_server.name_server, "a", 0, "ASYNC_MASTER")
            .set("amqp.port", amqp)
            .set("retention.check_interval", "500ms");
        let mut master = setup.start();
        let target = format!("rocketmq-broker://{}", master.broker);
        sluice(&["produce", "old", "--create", "--repeat", "2000", "--body", &"x".repeat(1000), "--target", &target]);
        // What was there before a start is in the system's memory at most.
        master.stop();
        let master = setup.start();
        let slave = member(&scratch.join("slave"), &name_server.name_server, "a", 1, "SLAVE").start();
        sluice(&["admin", "queue", "add", "work", "--console", &master.console]);
        sluice(&["admin", "topic", "create", "orders", "--console", &master.console]);
        let amqp = format!("amqp://127.0.0.1:{amqp}");
        Self { name_server, master, slave, used: Used { target, amqp, log: scratch.join("master/commitlog") } }
    }
}

impl Used {
    /// Everything that leaves a trace in some figure.
    fn use_all(&self) {
        self.forget_pages();
        let Self { target, amqp, .. } = self;
        for arguments in [
            &["produce", "orders", "--create", "--repeat", "50", "--body", "new", "--target", target][..],
            &["produce", "popped", "--create", "--repeat", "50", "--body", "new", "--target", target],
            &["produce", "orders", "--delay", "1s", "--body", "later", "--target", target],
            &["consume", "orders", "--group", "billing", "--count", "20", "--target", target],
            &["consume", "old", "--target", target],
            &["produce", "work", "--repeat", "20", "--body", "new", "--target", amqp],
            &["consume", "work", "--count", "5", "--target", amqp],
            &["bench", "pop", "--topic", "popped", "--count", "20", "--target", target],
        ] {
            sluice(arguments);
        }
        let broker = target.trim_start_matches("rocketmq-broker://");
        Connection::open(broker).call(request::GET_MAX_OFFSET, &[("topic", "none"), ("queueId", "0")], &[]);
    }

    /// Has the system forget what it has of the log in memory, so that it must be read from the disk.
    fn forget_pages(&self) {
        for file in std::fs::read_dir(&self.log).expect("a log") {
            let file = std::fs::File::open(file.expect("a segment").path()).expect("opened");
            fadvise(&file, 0, None, Advice::DontNeed).expect("forgotten");
        }
    }

    /// A consumer that waits for messages.
    fn waiting(&self) -> Process {
        let mut command = Command::new(binary());
        command.args(["consume", "orders", "--from", "latest", "--follow", "--target", &self.target]);
        Process::start("consume", command.stderr(Stdio::null()))
    }
}

fn sluice(arguments: &[&str]) {
    program::run(Command::new(binary()).args(arguments));
}

/// A Prometheus that looks at them every second, by the configuration that is shipped.
struct Prometheus {
    _process: Process,
    address: String,
}

impl Prometheus {
    fn start(mut command: Command, folder: &Path, consoles: &[&str]) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let targets = consoles.join("\n          - ");
        let shipped = deploy("prometheus/prometheus.yml");
        assert!(shipped.contains("          - 127.0.0.1:8080\n") && shipped.contains("15s"));
        let configuration = shipped.replace("127.0.0.1:8080", &targets).replace("15s", "1s");
        std::fs::write(folder.join("prometheus.yml"), configuration).expect("written");
        std::fs::write(folder.join("sluice.rules.yml"), deploy("prometheus/sluice.rules.yml")).expect("written");
        let address = format!("127.0.0.1:{}", free_port());
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        command.current_dir(folder).arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data");
        command.arg(format!("--web.listen-address={address}")).stderr(log);
        let process = Process::start("prometheus", &mut command);
        until("Prometheus does not start", || std::net::TcpStream::connect(&address).is_ok());
        Self { _process: process, address }
    }

    /// The figures that an expression gives now.
    fn ask(&self, expression: &str) -> Vec<f64> {
        let path = format!("/api/v1/query?query={}", http::encoded(expression));
        let (_, body) = http::get(&self.address, &path, &[]);
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let results = answer["data"]["result"].as_array().expect("a vector").iter();
        results
            .filter_map(|result| result["value"][1].as_str()?.parse().ok())
            .filter(|value: &f64| !value.is_nan())
            .collect()
    }
}

/// Expressions of the dashboard, each with the panel it is in.
fn expressions() -> BTreeMap<String, String> {
    let dashboard: Value = serde_json::from_str(&deploy("grafana/sluice.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let all = panels.flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| {
            let expression = target["expr"].as_str().expect("an expression");
            let expression = expression.replace("$__rate_interval", "5s");
            (expression.replace("$job", ".*").replace("$instance", ".*"), title.clone())
        })
    });
    all.collect()
}

#[test]
fn prometheus_reads_the_metrics_and_the_dashboard_has_data() {
    let Some(command) = installed("prometheus") else { return };
    let scratch = tempfile::tempdir().expect("directory");
    let brokers = Brokers::start(scratch.path());
    let consoles = [&*brokers.name_server.console, &brokers.master.console, &brokers.slave.console];
    let prometheus = Prometheus::start(command, &scratch.path().join("prometheus"), &consoles);
    let waiting = brokers.used.waiting();
    let mut missing = expressions();
    assert!(missing.len() > 40, "{missing:?}");
    let (deadline, is_done) = (Instant::now() + LIMIT, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (used, is_done) = (&brokers.used, &is_done);
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                used.use_all();
            }
        });
        // An expression about rates has data while something happens, so each is asked until it once had some.
        while !missing.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_secs(1));
            missing.retain(|expression, _| prometheus.ask(expression).is_empty());
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(missing.is_empty(), "no data: {missing:#?}");
    drop(waiting);
    assert_eq!(prometheus.ask("up"), [1.0; 3]);
    assert_eq!(prometheus.ask("max(scrape_samples_scraped > 100) > bool 0"), [1.0]);
    let (_, alerts) = http::get(&prometheus.address, "/api/v1/alerts", &[]);
    let alerts: Value = serde_json::from_str(&alerts).expect("JSON");
    assert_eq!(alerts["data"]["alerts"], Value::Array(Vec::new()), "all is well");
    for console in consoles {
        complains_of_nothing(&http::get(console, "/metrics", &[]).1, scratch.path());
        let (_, page) = http::get(console, "/metrics", &["Accept: application/openmetrics-text; version=1.0.0"]);
        assert!(page.ends_with("\n# EOF\n"), "{page}");
    }
}

/// Asks Prometheus's own tool.
fn complains_of_nothing(page: &str, scratch: &Path) {
    let file = scratch.join("page");
    std::fs::write(&file, page).expect("written");
    let page = std::fs::File::open(&file).expect("opened");
    let mut promtool = installed("promtool").expect("it was there");
    let output = promtool.args(["check", "metrics"]).stdin(page).output().expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}
