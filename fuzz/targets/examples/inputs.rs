//! Inputs of a target between its archive and a folder, where the engine looks for them: `inputs unpack|pack TARGET FOLDER`.
//!
//! `unpack` writes what is kept into `FOLDER/corpus` and the seeds into `FOLDER/seeds`; `pack` keeps what is in `FOLDER/corpus`.

use std::fs;
use std::path::Path;

use fuzz_targets::{TARGETS, archive};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let known = |name: &str| TARGETS.iter().find(|target| target.name == name);
    match words.as_slice() {
        ["unpack", name, folder] if let Some(target) = known(name) => {
            let seeds = (target.seeds)().into_iter().enumerate();
            write(&Path::new(folder).join("seeds"), seeds.map(|(number, seed)| (format!("seed-{number:04}"), seed)));
            write(&Path::new(folder).join("corpus"), archive::read(&archive::path(name)).into_iter());
        }
        ["pack", name, folder] if known(name).is_some() => {
            let files = fs::read_dir(Path::new(folder).join("corpus")).expect("a folder").flatten();
            let input = |file: fs::DirEntry| {
                (file.file_name().to_string_lossy().into_owned(), fs::read(file.path()).expect("an input"))
            };
            archive::write(&archive::path(name), files.map(input).collect());
        }
        _ => {
            eprintln!("usage: inputs unpack|pack TARGET FOLDER; no such target or task: {}", words.join(" "));
            std::process::exit(2);
        }
    }
}

fn write(folder: &Path, inputs: impl Iterator<Item = (String, Vec<u8>)>) {
    fs::create_dir_all(folder).expect("a folder");
    inputs.for_each(|(name, input)| fs::write(folder.join(name), input).expect("a file"));
}
