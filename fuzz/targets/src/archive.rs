//! The inputs of a target that are kept: one tar archive, whose bytes are the same for the same inputs.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use tar::{Archive, Builder, Header};

/// Where a target's archive is.
pub fn path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(format!("{target}.tar"))
}

/// The inputs of an archive with their names; none if there is no archive.
pub fn read(path: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let mut archive = Archive::new(bytes.as_slice());
    let inputs = archive.entries().expect("an archive").map(|entry| {
        let mut entry = entry.expect("an input");
        let mut input = Vec::new();
        entry.read_to_end(&mut input).expect("the bytes of an input");
        (entry.path().expect("a name").display().to_string(), input)
    });
    inputs.collect()
}

/// Writes an archive. What is there twice, under whatever name, is kept once.
pub fn write(path: &Path, mut inputs: Vec<(String, Vec<u8>)>) {
    inputs.sort_by(|(a, x), (b, y)| (x, a).cmp(&(y, b)));
    inputs.dedup_by(|(_, a), (_, b)| a == b);
    inputs.sort();
    let mut archive = Builder::new(Vec::new());
    for (name, input) in inputs {
        let mut header = Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(input.len() as u64);
        archive.append_data(&mut header, name, input.as_slice()).expect("an input");
    }
    std::fs::write(path, archive.into_inner().expect("an archive")).expect("a file");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_inputs_make_the_same_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let input = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
        write(&one, vec![input("b", b"2"), input("a", b""), input("c", b"2")]);
        write(&other, vec![input("c", b"2"), input("b", b"2"), input("a", b"")]);
        assert_eq!(read(&one), [input("a", b""), input("b", b"2")]);
        assert_eq!(std::fs::read(&one).expect("bytes"), std::fs::read(&other).expect("bytes"));
        assert_eq!(read(&folder.path().join("none")), []);
    }
}
