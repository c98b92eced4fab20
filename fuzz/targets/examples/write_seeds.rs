//! Writes a target's seeds as files into a folder: `write_seeds TARGET FOLDER`.

use std::path::PathBuf;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(folder)) = (arguments.next(), arguments.next().map(PathBuf::from)) else {
        eprintln!("usage: write_seeds TARGET FOLDER");
        std::process::exit(2);
    };
    let Some(target) = fuzz_targets::TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("no target {name}");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&folder).expect("a folder");
    for (number, seed) in (target.seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:04}")), seed).expect("a file");
    }
}
