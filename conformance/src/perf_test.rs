//! PerfTest, the load generator of RabbitMQ's team, as processes; and what became of a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::program::{amqp_programs, installed, run};

/// The version whose flags are tried.
pub const VERSION: &str = "2.22.1";

/// Its runs are short.
const JAVA: [&str; 4] = ["-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// A run that has not ended.
#[derive(Debug)]
pub struct PerfTest {
    process: Process,
    /// Where it writes its samples and its errors.
    folder: PathBuf,
}

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Whether its exit code was 0.
    pub is_success: bool,
    /// What it said, errors last.
    pub said: String,
    samples: Vec<Sample>,
}

/// Messages that PerfTest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Sent by its producers.
    Sent,
    /// Sent back, since they go to no queue.
    Returned,
    /// Confirmed by `basic.ack`.
    Confirmed,
    /// Refused by `basic.nack`.
    Nacked,
    /// Received by its consumers, each as often as it came.
    Received,
}

/// A line of its CSV file: about how many messages a second, up to then since the line before.
#[derive(Debug)]
struct Sample {
    seconds: f64,
    rates: [f64; 5],
}

impl Sample {
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(',').skip(1);
        let seconds = fields.next()?.parse().ok()?;
        // What this run does not count is empty.
        let rates = std::array::from_fn(|_| fields.next().and_then(|field| field.parse().ok()).unwrap_or_default());
        Some(Self { seconds, rates })
    }
}

/// A `java` that finds PerfTest, which is fetched once.
fn program() -> Command {
    let jars = installed(&format!("perf-test-{VERSION}"), |folder| {
        let mut fetching = Command::new("mvn");
        fetching.current_dir(amqp_programs().join("perf-test")).args(["-q", "dependency:copy-dependencies"]);
        fetching.arg(format!("-DperfTestVersion={VERSION}"));
        run(fetching.arg(format!("-DoutputDirectory={}", folder.display())));
    });
    let mut command = Command::new("java");
    command.args(JAVA).arg("-cp").arg(jars.join("*"));
    command
}

impl PerfTest {
    /// Starts it with these flags and properties of the Java system; `folder`, which is made, has what it writes.
    pub fn start(folder: &Path, properties: &[String], flags: &[String]) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let errors = std::fs::File::create(folder.join("errors")).expect("a file");
        let mut command = program();
        command.args(properties).arg("com.rabbitmq.perf.PerfTest").args(flags).stderr(errors);
        Self { process: Process::start("PerfTest", &mut command), folder: folder.to_owned() }
    }

    /// The flag that has its samples written, without which none are known.
    pub fn samples_flag(folder: &Path) -> [String; 2] {
        ["-o".to_owned(), folder.join("samples.csv").display().to_string()]
    }

    /// Waits for a line that has `text`.
    pub fn wait_for(&mut self, limit: Duration, text: &str) {
        self.process.wait_for_line(limit, |line| line.contains(text));
    }

    /// Waits for its end; one that takes longer is killed, which is no success.
    pub fn end(mut self, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        while self.process.is_running() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.process.kill();
        let (status, lines) = self.process.rest_of_output(limit);
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let said = format!("{}\n{}", lines.join("\n"), read("errors"));
        let samples = read("samples.csv").lines().filter_map(Sample::read).collect();
        Outcome { is_success: status.success(), said, samples }
    }
}

/// All flags that this version says it has, by their short names where they have one.
pub fn flags() -> Vec<String> {
    let output = program().args(["com.rabbitmq.perf.PerfTest", "--help"]).output().expect("Java is installed");
    let usage = String::from_utf8(output.stdout).expect("text");
    let first_words = usage.lines().filter(|line| line.starts_with(" -") || line.starts_with("    --"));
    first_words.filter_map(|line| line.trim().split([',', ' ']).next()).map(str::to_owned).collect()
}

impl Outcome {
    /// Why it says it stopped.
    pub fn why_it_stopped(&self) -> &str {
        self.said.lines().find_map(|line| line.strip_prefix("test stopped (")?.strip_suffix(')')).unwrap_or_default()
    }

    /// About how many messages its samples count after so many seconds. The last part of a second is in no sample.
    pub fn count_after(&self, seconds: f64, counter: Counter) -> u64 {
        let mut begin = 0.0;
        let mut count = 0.0;
        for sample in &self.samples {
            if begin >= seconds {
                count += sample.rates[counter as usize] * (sample.seconds - begin);
            }
            begin = sample.seconds;
        }
        count.round() as u64
    }

    /// About how many messages its samples count.
    pub fn count(&self, counter: Counter) -> u64 {
        self.count_after(0.0, counter)
    }

    /// Whether it has said that something went wrong that it did not expect. What it merely warns of is its own: of sockets that it has
    /// closed twice, of certificates that nobody verifies.
    pub fn has_complained(&self) -> bool {
        [" ERROR ", "Exception in thread"].iter().any(|word| self.said.contains(word))
    }
}
