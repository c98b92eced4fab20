//! A run of PerfTest and what it promises, and a broker that runs are made with.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use conformance::certificates::Authority;
use conformance::free_port;
use conformance::perf_test::{Counter, Outcome, PerfTest};
use conformance::sluice::{Setup, Sluice};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(90);
const PASSWORD: &str = "a-secret";
/// What runs may read.
const FILES: [(&str, &str); 3] =
    [("text", "some text"), ("json", "{\"a\":1}"), ("queues", "from-file-1\nfrom-file-2\n")];

/// One run. In its flags `{uri}` stands for the broker's, `{secure}` for that by TLS, and `{files}` for a folder with `text`, `json` and
/// `queues`.
#[derive(Clone, Debug)]
pub struct Run {
    pub flags: &'static str,
    ends: &'static str,
    counts: Vec<(Counter, RangeInclusive<u64>)>,
    confirms_but: Option<u64>,
    says: Vec<&'static str>,
}

/// A run that ends for this reason, and of whose messages none is refused or sent back unless it says so.
pub fn ending(ends: &'static str, flags: &'static str) -> Run {
    Run { flags, ends, counts: Vec::new(), confirms_but: None, says: Vec::new() }
}

/// A run with `-C` and `-D`, which ends by itself only if all that is to be sent was sent, and all that is to be received came.
pub fn counted(flags: &'static str) -> Run {
    ending("Producer reached message limit, Consumer reached message limit", flags)
}

/// A run with `-C` and without consumers.
pub fn produced(flags: &'static str) -> Run {
    ending("Producer reached message limit", flags)
}

/// A run with `-z`, which counts so many messages sent and received: how many in a second is the machine's business.
pub fn timed(moved: RangeInclusive<u64>, flags: &'static str) -> Run {
    ending("Reached time limit", flags).counts(Counter::Sent, moved.clone()).counts(Counter::Received, moved)
}

impl Run {
    /// It counts about so many messages.
    pub fn counts(mut self, counter: Counter, range: RangeInclusive<u64>) -> Self {
        self.counts.retain(|(other, _)| *other != counter);
        self.counts.push((counter, range));
        self
    }

    /// What it sends is confirmed, but for so many that may be on their way at the end.
    pub fn confirms_but(mut self, on_their_way: u64) -> Self {
        self.confirms_but = Some(on_their_way);
        self
    }

    /// It says this.
    pub fn says(mut self, text: &'static str) -> Self {
        self.says.push(text);
        self
    }

    /// Its flags as PerfTest gets them, with where it writes its samples.
    pub fn words(&self, uri: &str, folder: &Path) -> Vec<String> {
        let names_broker = self.flags.split_whitespace().any(|flag| flag == "-h" || flag == "-H");
        let broker = if names_broker { "" } else { "-h {uri} " };
        let files = folder.parent().expect("the broker's folder").display().to_string();
        let secure = uri.replace("amqp://", "amqps://");
        let flags = format!("{broker}{}", self.flags);
        let flags = flags.replace("{uri}", uri).replace("{secure}", &secure).replace("{files}", &files);
        flags.split_whitespace().map(str::to_owned).chain(PerfTest::samples_flag(folder)).collect()
    }

    /// What of its promises does not hold.
    fn broken(&self, outcome: &Outcome) -> Vec<String> {
        let mut broken = Vec::new();
        let mut expect = |holds: bool, what: String| broken.extend((!holds).then_some(what));
        for text in &self.says {
            expect(outcome.said.contains(text), format!("does not say {text:?}"));
        }
        expect(outcome.is_success, "fails".to_owned());
        expect(!outcome.has_complained(), "complains".to_owned());
        // Of several producers it says how many of them: `Producer reached message limit [2]`.
        let reasons = outcome.why_it_stopped().split(", ").map(|reason| reason.split(" [").next().unwrap_or_default());
        let ends = reasons.collect::<Vec<_>>().join(", ");
        expect(ends == self.ends, format!("ends for another reason: {ends:?}"));
        let nothing = [Counter::Returned, Counter::Nacked].map(|counter| (counter, 0..=0));
        let is_promised = |counter| self.counts.iter().any(|(other, _)| *other == counter);
        for (counter, range) in
            nothing.into_iter().filter(|(counter, _)| !is_promised(*counter)).chain(self.counts.clone())
        {
            let count = outcome.count(counter);
            expect(range.contains(&count), format!("{counter:?}: {count} is not within {range:?}"));
        }
        if let Some(on_their_way) = self.confirms_but {
            let (sent, confirmed) = (outcome.count(Counter::Sent), outcome.count(Counter::Confirmed));
            expect(sent.abs_diff(confirmed) <= on_their_way, format!("{confirmed} of {sent} are confirmed"));
        }
        broken
    }
}

/// What runs go to, and what they read and write.
pub struct Target {
    uri: String,
    scratch: TempDir,
    /// Properties of the Java machines.
    properties: Vec<String>,
}

impl Target {
    /// Starts a run; `name` is that of the folder for what it writes.
    pub fn begin(&self, name: &str, run: &Run) -> PerfTest {
        let folder = self.scratch.path().join(name);
        PerfTest::start(&folder, &self.properties, &run.words(&self.uri, &folder))
    }

    /// Makes the runs of a row one after another; gives what of their promises does not hold.
    fn judge(&self, number: usize, row: &[Run]) -> Vec<String> {
        let mut broken = Vec::new();
        for (step, run) in row.iter().enumerate() {
            let outcome = self.begin(&format!("{number}-{step}"), run).end(LIMIT);
            let faults = run.broken(&outcome).join("; ");
            if !faults.is_empty() {
                broken.push(format!("{}\n  {faults}\n{}", run.flags, outcome.said));
            }
        }
        broken
    }
}

fn make(command: &mut Command) {
    let output = command.output();
    assert!(output.as_ref().is_ok_and(|output| output.status.success()), "{command:?}: {output:?}");
}

/// A broker that speaks AMQP.
pub struct Broker {
    setup: Setup,
    sluice: Option<Sluice>,
    pub target: Target,
}

impl Broker {
    pub fn start() -> Self {
        Self::begin(Vec::new(), |setup| setup)
    }

    /// One whose certificate the Java machines verify, and that verifies theirs, which says that they are `guest`.
    pub fn with_certificate(authority: &Authority) -> Self {
        ["server", "guest"].iter().for_each(|name| authority.sign(name));
        let path = |name: &str| authority.path(name).display().to_string();
        let (trusted, own) = (path("trusted.p12"), path("guest.p12"));
        make(
            Command::new("keytool")
                .args(["-importcert", "-noprompt", "-storetype", "PKCS12", "-storepass", PASSWORD])
                .args(["-file", &path("ca.pem"), "-keystore", &trusted]),
        );
        make(
            Command::new("openssl")
                .args(["pkcs12", "-export", "-passout", &format!("pass:{PASSWORD}"), "-out", &own])
                .args(["-in", &path("guest.pem"), "-inkey", &path("guest.key")]),
        );
        let properties = [("trustStore", &trusted), ("keyStore", &own)].map(|(name, path)| {
            [format!("-Djavax.net.ssl.{name}={path}"), format!("-Djavax.net.ssl.{name}Password={PASSWORD}")]
        });
        Self::begin(properties.concat(), |setup| {
            setup
                .set("tls.certificate", path("server.pem"))
                .set("tls.key", path("server.key"))
                .set("tls.client_auth", "optional")
                .set("tls.client_ca", path("ca.pem"))
        })
    }

    fn begin(properties: Vec<String>, change: impl FnOnce(Setup) -> Setup) -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        for (name, content) in FILES {
            std::fs::write(scratch.path().join(name), content).expect("a file");
        }
        let port = free_port();
        let setup = change(Setup::serve(&scratch.path().join("data")).set("amqp.port", port));
        let sluice = Some(setup.start());
        Self { setup, sluice, target: Target { uri: format!("amqp://127.0.0.1:{port}"), scratch, properties } }
    }

    /// The broker ends as `end` has it, and comes again.
    pub fn restart(&mut self, end: impl FnOnce(&mut Sluice)) {
        end(self.sluice.as_mut().expect("it runs"));
        self.sluice = None;
        self.sluice = Some(self.setup.start());
    }

    /// Makes the runs of all rows, so many rows at once. All their promises have to hold.
    pub fn judge(mut self, rows: &[Vec<Run>], at_once: usize) {
        let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let target = &self.target;
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(row) = rows.get(number) else { return };
                let faults = target.judge(number, row);
                broken.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
            }
        };
        std::thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
        let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(broken.is_empty(), "{} runs do not keep what they promise:\n{}", broken.len(), broken.join("\n\n"));
        assert!(self.sluice.as_mut().expect("it runs").stop().success());
    }
}
