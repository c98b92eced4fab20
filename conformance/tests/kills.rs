//! `kill -9` at random moments under load: nothing acknowledged is lost, and clients recover by themselves.

use std::time::{Duration, Instant};

use conformance::java::{result_of, run_program, start_program};
use conformance::sluice::Setup;
use rand::RngExt;

const KILLS: usize = 20;

#[test]
fn twenty_kills_under_load_lose_nothing_acknowledged() {
    let scratch = tempfile::tempdir().expect("directory");
    let setup = Setup::serve(&scratch.path().join("data")).set("storage.segment_size", "64MiB");
    let mut sluice = setup.start();
    let name_server = sluice.name_server.clone();
    let acked = scratch.path().join("acked");
    let acked = acked.display().to_string();
    let count = "200000";
    let producer = start_program(
        "5.4.0",
        "Produce",
        &name_server,
        scratch.path(),
        &[
            ("topic", "killed"),
            ("count", count),
            ("size", "1024"),
            ("threads", "4"),
            ("mode", "ordered"),
            ("retry-forever", ""),
            ("acked-file", &acked),
            ("pace", "4000"),
            ("limit-seconds", "600"),
        ],
    );
    let mut random = rand::rng();
    for kill in 0..KILLS {
        std::thread::sleep(Duration::from_millis(random.random_range(200..2500)));
        sluice.kill();
        let started = Instant::now();
        sluice = setup.start();
        println!("kill {}: ready again after {:?}", kill + 1, started.elapsed());
    }
    let produced = result_of(producer, scratch.path(), Duration::from_secs(600));
    println!("{produced}");
    let consumed = run_program(
        "5.4.0",
        "Consume",
        &name_server,
        scratch.path(),
        &[
            ("topic", "killed"),
            ("group", "after_kills"),
            ("acked-file", &acked),
            ("from", "first"),
            ("idle-seconds", "5"),
            ("limit-seconds", "600"),
        ],
    );
    println!("{consumed}");
}
