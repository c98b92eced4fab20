//! Checks the data directories of several brokers: none inside another, none moved within `storage.dirs`.
//!
//! A broker's name and port depend on the position of its directory in that list. After a reordering, consumers would apply the
//! offsets of one broker to the queues of another. So each directory records its position (from 1) in `config/place.json` as
//! `{"place": 1}`, and a start with another order is refused. The file keeps its name: earlier versions wrote it.

use std::path::{Path, PathBuf};

use settings::OneBroker;
use storage::disk::Disk;

use crate::error::StartError;

/// Refuses directories that are the same, lie in each other or have changed position. A single directory has position 1.
pub(crate) fn check(brokers: &[OneBroker]) -> Result<(), StartError> {
    let mut earlier: Vec<(&Path, PathBuf)> = Vec::new();
    for one in brokers {
        let directory = one.settings.storage.directory.as_path();
        let real = real_path(directory);
        for (other, other_real) in &earlier {
            let (this, that) = (directory.display(), other.display());
            if real == *other_real {
                return Err(refused(format!("{this} and {that} are one directory; each broker needs its own")));
            }
            if real.starts_with(other_real) || other_real.starts_with(&real) {
                return Err(refused(format!(
                    "{this} and {that} lie in each other; each broker needs its own directory"
                )));
            }
        }
        check_position(directory, one.position.unwrap_or(1))?;
        earlier.push((directory, real));
    }
    Ok(())
}

/// Records the position of an open directory, unless it is recorded already.
pub(crate) fn record_position(directory: &Path, position: Option<usize>) -> Result<(), StartError> {
    let Some(position) = position.filter(|_| !position_document(directory).exists()) else { return Ok(()) };
    let text = serde_json::json!({ "place": position }).to_string();
    Ok(Disk::real().replace_file(&position_document(directory), text.as_bytes())?)
}

fn check_position(directory: &Path, position: usize) -> Result<(), StartError> {
    let document = position_document(directory);
    let Some(text) = Disk::real().read_file(&document)? else { return Ok(()) };
    let recorded = serde_json::from_slice::<serde_json::Value>(&text).ok().and_then(|value| value["place"].as_u64());
    if recorded == Some(position as u64) {
        return Ok(());
    }
    let recorded = recorded.map_or_else(|| "an unreadable one".to_owned(), |position| position.to_string());
    Err(refused(format!(
        "{} is at position {position}, but its recorded position is {recorded}; a broker's name and port depend on the \
         position. Keep the order, replace a directory that is taken out by \"\", and add new ones at the end. To move it \
         all the same, stop its consumers and remove {}",
        directory.display(),
        document.display()
    )))
}

fn position_document(directory: &Path) -> PathBuf {
    directory.join("config").join("place.json")
}

fn refused(problem: String) -> StartError {
    StartError::Setting { name: "storage.dirs", problem }
}

/// The path with symbolic links resolved, as far as it exists.
fn real_path(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let existing = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = existing else { return absolute };
    absolute.strip_prefix(above).map_or(absolute.clone(), |rest| real.join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::{Role, Settings, load};

    fn brokers(directories: &[PathBuf]) -> Vec<OneBroker> {
        let texts: Vec<_> = directories.iter().map(|one| one.display().to_string()).collect();
        let set = [format!("storage.dirs={}", texts.join(";"))];
        let settings: Settings = load(Role::Serve, None, &set, &[]).expect("settings").settings;
        settings.brokers()
    }

    fn refusal(directories: &[PathBuf]) -> String {
        check(&brokers(directories)).expect_err("it is refused").to_string()
    }

    #[test]
    fn the_same_directory_twice_is_refused_whatever_it_is_called() {
        let scratch = tempfile::tempdir().expect("directory");
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("one")).expect("makes");
        std::os::unix::fs::symlink(at("one"), at("link")).expect("links");
        for other in ["one", "one/", "./one", "link"] {
            let text = refusal(&[at("one"), at(other)]);
            assert!(text.starts_with("storage.dirs: ") && text.contains("are one directory"), "{other}: {text}");
        }
        // Of those that are not made yet as well.
        assert!(refusal(&[at("one/new"), at("link/new")]).contains("are one directory"));
    }

    #[test]
    fn directories_in_each_other_are_refused_and_neighbours_are_not() {
        let scratch = tempfile::tempdir().expect("directory");
        let at = |name: &str| scratch.path().join(name);
        assert!(refusal(&[at("one"), at("one/two")]).contains("lie in each other"));
        assert!(refusal(&[at("one/two"), at("three"), at("one")]).contains("lie in each other"));
        check(&brokers(&[at("one"), at("one-more"), at("two/one")])).expect("each is its own");
    }

    #[test]
    fn a_directory_keeps_its_position() {
        let scratch = tempfile::tempdir().expect("directory");
        let at = |name: &str| scratch.path().join(name);
        let all = [at("one"), at("two"), at("three")];
        for (position, directory) in (1..).zip(&all) {
            std::fs::create_dir_all(directory.join("config")).expect("makes");
            record_position(directory, Some(position)).expect("records");
        }
        check(&brokers(&all)).expect("as they were");
        check(&brokers(&[PathBuf::new(), at("two"), at("three"), at("four")])).expect("one out, one more");
        let text = refusal(&[at("two"), at("three")]);
        assert!(
            text.contains("two is at position 1, but its recorded position is 2")
                && text.contains("two/config/place.json"),
            "{text}"
        );
        std::fs::write(position_document(&at("one")), "{}").expect("writes");
        assert!(refusal(&all).contains("an unreadable one"));
    }

    #[test]
    fn a_directory_alone_records_nothing_and_may_be_any_but_a_later_one_of_several() {
        let scratch = tempfile::tempdir().expect("directory");
        let directory = scratch.path();
        let alone = || {
            let set = [format!("storage.directory={}", directory.display())];
            check(&load(Role::Serve, None, &set, &[]).expect("settings").settings.brokers())
        };
        alone().expect("new");
        record_position(directory, None).expect("nothing to do");
        assert_eq!(std::fs::read_dir(directory).expect("lists").count(), 0);
        std::fs::create_dir(directory.join("config")).expect("makes");
        record_position(directory, Some(1)).expect("records");
        alone().expect("the first");
        std::fs::write(position_document(directory), "{\"place\":2}").expect("writes");
        assert!(alone().expect_err("the second").to_string().contains("its recorded position is 2"));
    }
}
