//! Defects put back on purpose (`crates/sim/mutations/*.patch`): each must be caught by `sim` within some seeds, or the simulation
//! has gone blind to its kind.
//!
//! Each patch begins with lines that say which defect it brings back. It is applied to a copy of the tree; one that no longer
//! applies is an error: make it anew, or strike it if its code is gone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use crate::repository::{files, root};

/// Where the patches are.
const PATCHES_PATH: &str = "crates/sim/mutations";
/// Where the tree is copied to, and built.
const FOLDER: &str = "target/mutations";
/// Seeds within which a mutation is caught.
const SEEDS: &str = "0..1000";

/// Runs those mutations that are named, or all.
pub fn run(names: &[&str]) -> Result<(), String> {
    let patches = patches(names)?;
    let mut missed = Vec::new();
    let mut told = Vec::new();
    for patch in &patches {
        let name = name_of(patch);
        eprintln!("\n==> {name}");
        match caught(patch)? {
            Some(how) => {
                eprintln!("caught: {how}");
                told.push(format!("{name:45}  {how}"));
            }
            None => {
                eprintln!("not caught");
                missed.push(name);
            }
        }
    }
    println!("\n{}", told.join("\n"));
    // The tree as it is, for the next run and to see that it breaks no rule by itself.
    copy_tree()?;
    build()?;
    match (missed.as_slice(), first_broken()?) {
        (_, Some(broken)) => Err(format!("without any mutation: {broken}")),
        ([], None) => Ok(()),
        (missed, None) => Err(format!("not caught within the seeds {SEEDS}: {}", missed.join(", "))),
    }
}

fn name_of(patch: &Path) -> String {
    patch.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn patches(names: &[&str]) -> Result<Vec<PathBuf>, String> {
    let folder = root().join(PATCHES_PATH);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut patches: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    patches.sort_unstable();
    if let Some(unknown) = names.iter().find(|name| !patches.iter().any(|patch| name_of(patch) == **name)) {
        return Err(format!("there is no mutation {unknown} in {PATCHES_PATH}"));
    }
    patches.retain(|patch| names.is_empty() || names.contains(&name_of(patch).as_str()));
    Ok(patches)
}

/// How a mutation is caught; `None` if it is not.
fn caught(patch: &Path) -> Result<Option<String>, String> {
    copy_tree()?;
    let tree = root().join(FOLDER).join("tree");
    // Outside of any repository, as far as git can tell: else it would look at the index of this one.
    let mut apply = Command::new("git");
    apply.args(["apply", "--whitespace=nowarn"]).arg(patch).current_dir(&tree);
    apply.env("GIT_CEILING_DIRECTORIES", root().join(FOLDER));
    match apply.status() {
        Ok(status) if status.success() => {}
        _ => return Err(format!("{} does not apply any more: make it anew, or strike it", patch.display())),
    }
    build()?;
    first_broken()
}

/// Makes the copy the same as the tree. Files that are the same stay untouched, so that little is built anew.
fn copy_tree() -> Result<(), String> {
    let tree = root().join(FOLDER).join("tree");
    for file in files()?.iter().filter(|file| !file.path.starts_with("fuzz/corpus")) {
        let target = tree.join(&file.path);
        if fs::read(&target).is_ok_and(|bytes| bytes == file.bytes) {
            continue;
        }
        let failed = |error: std::io::Error| format!("{}: {error}", target.display());
        target.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(&target, &file.bytes).map_err(failed)?;
    }
    let kept: HashSet<_> = files()?.iter().map(|file| tree.join(&file.path)).collect();
    remove_others(&tree, &kept).map_err(|error| format!("{}: {error}", tree.display()))
}

/// Removes what an earlier run has copied and the tree no longer has.
fn remove_others(folder: &Path, kept: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn build() -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--quiet", "--release", "--package", "sim", "--target-dir"])
        .arg(root().join(FOLDER).join("build"));
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
    match cargo.env("RUSTFLAGS", "--cap-lints=allow").current_dir(root().join(FOLDER).join("tree")).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("sim cannot be built: {status}")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

/// What the first seed that fails says; `None` if none does.
fn first_broken() -> Result<Option<String>, String> {
    let program = root().join(FOLDER).join("build/release/sim");
    let ran = Command::new(&program).args(["--seeds", SEEDS]).stderr(Stdio::piped()).output();
    let ran = ran.map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&ran.stderr).lines().next().unwrap_or_default().to_owned();
    match (ran.status.success(), said.starts_with("seed ")) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(said)),
        (false, false) => Err(format!("sim: {}: {said}", ran.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_can_be_put_into_the_tree_as_it_is() {
        for patch in patches(&[]).expect("listed") {
            let checked = Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root()).output();
            let told = checked.map(|checked| (checked.status.success(), checked.stderr)).expect("git runs");
            assert!(told.0, "make it anew, or strike it if its code is gone: {}", String::from_utf8_lossy(&told.1));
        }
    }

    #[test]
    fn every_mutation_says_which_defect_it_brings_back_and_there_are_ten() {
        let patches = patches(&[]).expect("listed");
        assert!(patches.len() >= 10, "{patches:?}");
        for patch in patches {
            let text = fs::read_to_string(&patch).expect("a text");
            let said: String = text.lines().take_while(|line| !line.starts_with("---")).collect();
            assert!(said.len() > 30, "{} begins with what it brings back", patch.display());
        }
        assert!(super::patches(&["no-such-mutation"]).is_err());
    }
}
