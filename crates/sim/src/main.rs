//! `sim --seeds 0..10000` runs seeds, `sim --seed N` tells the story of one.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program for developers; its worlds read no clock and have one thread each"
)]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use sim::{QueueStory, Story, Trace, Violation, check_seed, outcome, shrink, tell};

/// Runs random stories of a node on virtual clocks and disks.
#[derive(Parser)]
struct Arguments {
    /// Seeds to run, as FROM..TO.
    #[arg(long, value_parser = range, conflicts_with = "seed", default_value = "0..200")]
    seeds: Range<u64>,
    /// The one seed whose story is told, and made short if it fails.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads, each with worlds of its own.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Tells a failing story as it is.
    #[arg(long)]
    whole: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write it as 0..1000")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("[{text}]: {error}"));
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic of the product is a broken rule like any other, and told as one.
    std::panic::set_hook(Box::new(|_| ()));
    match arguments.seed {
        Some(seed) => tell_seed(seed, arguments.whole),
        None => run_seeds(&arguments),
    }
}

fn run_seeds(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let next = AtomicU64::new(arguments.seeds.start);
    let failed: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds.end {
                        return;
                    }
                    if let Err(violation) = check_seed(seed) {
                        // Nobody begins another.
                        next.store(u64::MAX / 2, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        if failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                            *failed = Some((seed, violation));
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some((seed, violation)) => {
            eprintln!("seed {seed}: {violation}\ncargo run --release -p sim -- --seed {seed} tells its story");
            ExitCode::FAILURE
        }
        None => {
            let count = arguments.seeds.end.saturating_sub(arguments.seeds.start);
            println!("{count} seeds, no rule broken, {} s", began.elapsed().as_secs());
            ExitCode::SUCCESS
        }
    }
}

/// The other story of a seed: that of message queues.
fn tell_queues(seed: u64, whole: bool) -> ExitCode {
    let story = QueueStory::of(seed);
    let story = if whole { story } else { story.shrunk() };
    println!("{story}");
    let (trace, ended) = story.tell(Trace::kept());
    trace.lines().iter().for_each(|line| println!("{line}"));
    // Each has one trace, too.
    match ended.and_then(|()| check_seed(seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}

fn tell_seed(seed: u64, whole: bool) -> ExitCode {
    let story = Story::of(seed);
    let broken = outcome(&story).err();
    let told = match &broken {
        Some(violation) if !whole => shrink(&story, violation.rule),
        _ => story,
    };
    println!("{told}");
    let (trace, ended) = tell(&told, Trace::kept());
    trace.lines().iter().for_each(|line| println!("{line}"));
    match ended.err().or(broken) {
        Some(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
        None => tell_queues(seed, whole),
    }
}
