//! Known names that look like an unknown one.

use super::rocketmq::{self, Disposition};
use super::table::{self, Scope};

/// Names less alike than this (1 is the same) are not worth naming.
const LIKENESS_MIN: f64 = 0.6;

/// Names this much less alike than the best are noise beside it.
const LIKENESS_SPREAD: f64 = 0.1;

const NAMES_MAX: usize = 3;

/// Likeness of two names of the same words: as good as no difference.
const SAME_WORDS: f64 = 0.99;

/// The known names nearest to a key, the best first.
pub(super) fn nearest(key: &str) -> Vec<&'static str> {
    let names = table::rows().map(|row| row.name).chain(rocketmq::keys());
    let mut scored: Vec<(f64, &'static str)> = names.map(|name| (likeness(key, name), name)).collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    scored.dedup_by_key(|(_, name)| *name);
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    let least = LIKENESS_MIN.max(best - LIKENESS_SPREAD);
    let near = scored.into_iter().take_while(|(score, _)| *score >= least);
    near.map(|(_, name)| name).take(NAMES_MAX).collect()
}

/// Letter case does not count, nor the order of words, and the section of a dotted name may be missing.
fn likeness(key: &str, name: &str) -> f64 {
    if words(key) == words(name) {
        return SAME_WORDS;
    }
    let (key, name) = (key.to_lowercase(), name.to_lowercase());
    let key = key.as_str();
    let whole = strsim::normalized_damerau_levenshtein(key, &name);
    let noun = name.rsplit_once('.').map_or(0.0, |(_, noun)| 0.95 * strsim::normalized_damerau_levenshtein(key, noun));
    whole.max(noun)
}

/// The words of a name, sorted: `aclEnable`, `enable_acl` and `enable.acl` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words.sort_unstable();
    words
}

/// A name with what there is to know before it is used: that it belongs to a feature which is not there.
pub(super) fn described(name: &str) -> String {
    let known = [Scope::Broker, Scope::NameServer].into_iter().find_map(|scope| rocketmq::disposition(name, scope));
    match known {
        Some(Disposition::Later { feature, .. }) => format!("`{name}` ({feature}, not supported yet)"),
        _ => format!("`{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_meant_comes_first() {
        for (typed, meant) in [
            ("brokerClusterNam", "brokerClusterName"),
            ("flushdisktype", "flushDiskType"),
            ("mapedFileSizeComitLog", "mapedFileSizeCommitLog"),
            ("storage.flsh", "storage.flush"),
            ("storag.segment_size", "storage.segment_size"),
            ("segment_size", "storage.segment_size"),
            ("enableAcl", "aclEnable"),
            ("disk_flush_type", "flushDiskType"),
        ] {
            assert_eq!(nearest(typed).first(), Some(&meant), "{typed}");
        }
        assert!(nearest("xyzzyplugh").is_empty());
    }
}
