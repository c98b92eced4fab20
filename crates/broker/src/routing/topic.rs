//! Patterns of topics: words with dots between them, where `*` stands for one word and `#` for any number of words, none too.
//!
//! A tree of words finds what matches a key: its cost is that of the patterns that begin as the key does, not of all there are. An empty
//! word is a word; an empty key has none. **Always holds**: what is in the tree leads to a pattern; a key comes to each place of the tree
//! at most once after each of its words, so that patterns with many `#` cost no more than their length times the key's.

use std::hash::BuildHasher as _;
use std::mem;

use foldhash::quality::RandomState;
use smallvec::SmallVec;

use super::seen::Seen;
use super::slab::{Id, Slab};
use super::table::Table;

/// Where every pattern begins.
const ROOT: Id = Id::FIRST;

/// One place in the tree: the end of the beginning of some patterns.
#[derive(Debug)]
struct Node {
    /// The root is its own.
    parent: Id,
    /// The last word, unless it is `*` or `#`. Mostly short, and then without memory of its own.
    word: SmallVec<[u8; 16]>,
    /// What the pattern that ends here stands for.
    value: Option<Id>,
    /// What follows with `*`.
    one: Option<Id>,
    /// What follows with `#`.
    many: Option<Id>,
    /// How many places follow with a word.
    words: u32,
}

impl Node {
    fn new(parent: Id, word: &[u8]) -> Self {
        Self { parent, word: SmallVec::from_slice(word), value: None, one: None, many: None, words: 0 }
    }

    /// Whether a pattern goes on with something that takes a word.
    const fn takes_word(&self) -> bool {
        self.words > 0 || self.one.is_some()
    }

    const fn is_bare(&self) -> bool {
        self.value.is_none() && self.many.is_none() && !self.takes_word()
    }
}

/// Part of a pattern.
enum Step<'a> {
    Word(&'a [u8]),
    One,
    Many,
}

/// A word of a key, and its hash: it may be looked for in many places.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a [u8],
    hash: u64,
}

fn words_of(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    key.split(|byte| *byte == b'.').skip(usize::from(key.is_empty()))
}

fn steps_of(pattern: &[u8]) -> impl Iterator<Item = Step<'_>> {
    words_of(pattern).map(|word| match word {
        b"*" => Step::One,
        b"#" => Step::Many,
        word => Step::Word(word),
    })
}

/// Patterns, each with a number that it stands for.
#[derive(Debug)]
pub(super) struct Topics {
    nodes: Slab<Node>,
    /// Places by the one before and the word.
    table: Table,
    hasher: RandomState,
}

impl Default for Topics {
    fn default() -> Self {
        let mut nodes = Slab::default();
        nodes.insert(Node::new(ROOT, b""));
        Self { nodes, table: Table::default(), hasher: RandomState::default() }
    }
}

impl Topics {
    /// Has a pattern stand for a number. Gives the one it stood for.
    pub(super) fn put(&mut self, pattern: &[u8], value: Id) -> Option<Id> {
        let end = steps_of(pattern).fold(ROOT, |at, step| self.child_made(at, &step));
        self.nodes.get_mut(end)?.value.replace(value)
    }

    /// Forgets a pattern, and all that leads to nothing without it.
    pub(super) fn remove(&mut self, pattern: &[u8]) {
        let Some(mut at) = steps_of(pattern).try_fold(ROOT, |at, step| self.child(at, &step)) else { return };
        if let Some(node) = self.nodes.get_mut(at) {
            node.value = None;
        }
        while let Some(bare) = self.nodes.get(at).filter(|node| node.is_bare()) {
            if at == ROOT {
                *self = Self::default();
                return;
            }
            let parent = bare.parent;
            self.remove_node(at);
            at = parent;
        }
    }

    /// Tells what the patterns stand for that match a key, each once.
    pub(super) fn matches(&self, key: &[u8], found: impl FnMut(Id)) {
        let (here, next, lasting) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
        let mut walk = Walk { topics: self, here, next, lasting, seen: Seen::default(), found };
        walk.arrive(ROOT, false);
        mem::swap(&mut walk.here, &mut walk.next);
        for word in words_of(key) {
            if walk.is_over() {
                return;
            }
            walk.take(self.hashed(word));
        }
        walk.end();
    }

    fn hashed<'a>(&self, text: &'a [u8]) -> Word<'a> {
        Word { text, hash: self.hasher.hash_one(text) }
    }

    fn child(&self, at: Id, step: &Step<'_>) -> Option<Id> {
        match step {
            Step::Word(text) => self.next(at, self.hashed(text)),
            Step::One => self.nodes.get(at)?.one,
            Step::Many => self.nodes.get(at)?.many,
        }
    }

    fn next(&self, at: Id, word: Word<'_>) -> Option<Id> {
        let is_it = |id| self.nodes.get(id).is_some_and(|node| node.parent == at && *node.word == *word.text);
        self.table.find(self.hash(at, word), is_it)
    }

    fn hash(&self, parent: Id, word: Word<'_>) -> u64 {
        self.hasher.hash_one((parent, word.hash))
    }

    fn child_made(&mut self, at: Id, step: &Step<'_>) -> Id {
        if let Some(child) = self.child(at, step) {
            return child;
        }
        let text = if let Step::Word(text) = step { *text } else { b"" };
        let made = self.nodes.insert(Node::new(at, text));
        let Some(node) = self.nodes.get_mut(at) else { return made };
        match step {
            Step::One => node.one = Some(made),
            Step::Many => node.many = Some(made),
            Step::Word(_) => {
                node.words += 1;
                self.table.insert(self.hash(at, self.hashed(text)), made);
            }
        }
        made
    }

    fn remove_node(&mut self, id: Id) {
        let Some(gone) = self.nodes.remove(id) else { return };
        let Some(parent) = self.nodes.get_mut(gone.parent) else { return };
        if parent.one == Some(id) {
            parent.one = None;
        } else if parent.many == Some(id) {
            parent.many = None;
        } else {
            parent.words -= 1;
            self.table.remove(self.hash(gone.parent, self.hashed(&gone.word)), id);
        }
    }
}

/// The way of one key through the tree, word by word.
struct Walk<'a, F> {
    topics: &'a Topics,
    /// Places where the words so far lead, each with whether a `#` came before. Each is there once: only behind a `#` a place is come to
    /// after different numbers of words, and once after each.
    here: SmallVec<[(Id, bool); 16]>,
    /// The same after the next word.
    next: SmallVec<[(Id, bool); 16]>,
    /// Places behind a `#` that was come to: it may stand for all words from there on, so they last.
    lasting: SmallVec<[Id; 16]>,
    /// Places behind a second `#`, which may be come to again.
    seen: Seen<Id>,
    found: F,
}

impl<F: FnMut(Id)> Walk<'_, F> {
    fn is_over(&self) -> bool {
        self.here.is_empty() && self.lasting.is_empty()
    }

    /// Goes on by one word.
    fn take(&mut self, word: Word<'_>) {
        let lasting = self.lasting.len();
        while let Some((at, is_behind)) = self.here.pop() {
            self.leave(at, word, is_behind);
        }
        for index in 0..lasting {
            if let Some(at) = self.lasting.get(index).copied() {
                self.leave(at, word, true);
            }
        }
        mem::swap(&mut self.here, &mut self.next);
    }

    fn leave(&mut self, at: Id, word: Word<'_>, is_behind: bool) {
        let Some(node) = self.topics.nodes.get(at) else { return };
        if node.words > 0
            && let Some(child) = self.topics.next(at, word)
        {
            self.arrive(child, is_behind);
        }
        if let Some(child) = node.one {
            self.arrive(child, is_behind);
        }
    }

    fn arrive(&mut self, at: Id, is_behind: bool) {
        self.next.push((at, is_behind));
        let mut is_behind = is_behind;
        let mut many = self.topics.nodes.get(at).and_then(|node| node.many);
        // A `#` may stand for nothing, so the next one begins here too.
        while let Some(id) = many {
            let Some(node) = self.topics.nodes.get(id) else { return };
            if is_behind && !self.seen.add(id) {
                return;
            }
            if let Some(value) = node.value {
                (self.found)(value);
            }
            if node.takes_word() {
                self.lasting.push(id);
            }
            (many, is_behind) = (node.many, true);
        }
    }

    /// The key has no more words.
    fn end(&mut self) {
        while let Some((at, _)) = self.here.pop() {
            if let Some(value) = self.topics.nodes.get(at).and_then(|node| node.value) {
                (self.found)(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::tests::histories::{fits, words};
    use super::*;

    fn found(topics: &Topics, key: &[u8]) -> Vec<Id> {
        let mut found = Vec::new();
        topics.matches(key, |id| found.push(id));
        found
    }

    fn is_match(pattern: &str, key: &str) -> bool {
        let mut topics = Topics::default();
        topics.put(pattern.as_bytes(), ROOT);
        match found(&topics, key.as_bytes()).len() {
            0 => false,
            1 => true,
            _ => panic!("{pattern} matched {key} more than once"),
        }
    }

    #[test]
    fn stars_stand_for_one_word_and_hashes_for_any_number() {
        let rules: [(&str, &[&str], &[&str]); 14] = [
            ("a.b", &["a.b"], &["a", "a.b.c", "b.a", "a.", "", "ab", "A.b"]),
            ("a.*", &["a.b", "a.", "a.*", "a.#"], &["a", "a.b.c", "b.a"]),
            ("*", &["a", "*", "#"], &["", ".", "a.b"]),
            ("*.*", &["a.b", ".", "a."], &["", "a", "a.b.c"]),
            ("#", &["", "a", ".", "a.b.c"], &[]),
            ("a.#", &["a", "a.", "a.b.c"], &["", "b.a", "aa"]),
            ("#.a", &["a", ".a", "b.c.a", "a.a"], &["", "a.b"]),
            ("a.#.b", &["a.b", "a.c.b", "a.b.b", "a..b"], &["a", "b", "a.b.c"]),
            ("#.*", &["a", "a.b", "."], &[""]),
            ("*.#.*", &["a.b", "a.b.c", "."], &["", "a"]),
            ("#.#", &["", "a", "a.b"], &[]),
            ("", &[""], &["a", "."]),
            ("a..b", &["a..b"], &["a.b", "a.c.b"]),
            ("a*.#b", &["a*.#b"], &["ac.b", "a.b"]),
        ];
        for (pattern, matching, others) in rules {
            assert!(matching.iter().all(|key| is_match(pattern, key)), "{pattern}");
            assert!(!others.iter().any(|key| is_match(pattern, key)), "{pattern}");
        }
    }

    #[test]
    fn random_patterns_match_as_the_rule_has_it_and_leave_nothing_behind() {
        let text = |chance: &mut StdRng, words: &[&str]| {
            let count = chance.random_range(0..7);
            (0..count).map(|_| words[chance.random_range(0..words.len())]).collect::<Vec<_>>().join(".")
        };
        for seed in 0..3000 {
            let mut chance = StdRng::seed_from_u64(seed);
            let (mut topics, mut known, mut slab) = (Topics::default(), BTreeMap::new(), Slab::default());
            for _ in 0..30 {
                let pattern = text(&mut chance, &["a", "b", "", "*", "#", "#"]);
                if chance.random_bool(0.7) {
                    let value = slab.insert(());
                    assert_eq!(topics.put(pattern.as_bytes(), value), known.insert(pattern, value), "{seed}");
                } else {
                    topics.remove(pattern.as_bytes());
                    known.remove(&pattern);
                }
                let key = text(&mut chance, &["a", "b", "c", "", "*"]);
                let is_match = |pattern: &str| {
                    let [pattern, key] = [pattern, &key].map(|text| words(text.as_bytes()));
                    fits(&pattern, &key)
                };
                let mut expected: Vec<Id> =
                    known.iter().filter(|(pattern, _)| is_match(pattern)).map(|(_, value)| *value).collect();
                expected.sort_unstable();
                let mut found = found(&topics, key.as_bytes());
                found.sort_unstable();
                assert_eq!(found, expected, "seed {seed}: {key} in {known:?}");
            }
            for pattern in known.keys() {
                topics.remove(pattern.as_bytes());
            }
            assert_eq!((topics.nodes.iter().count(), topics.table.is_empty()), (1, true), "{seed}");
        }
    }

    #[test]
    fn many_hashes_cost_no_more_than_pattern_times_key() {
        let key = vec!["a"; 128].join(".");
        let dots = ".".repeat(255);
        let mut topics = Topics::default();
        let mut slab = Slab::default();
        let mut expected = 0;
        for pattern in ["#", "#.a", "#.*", "*.#", "a.#.*.#", "#.a.#.b"] {
            for count in 1..=255 / (pattern.len() + 1) {
                topics.put(vec![pattern; count].join(".").as_bytes(), slab.insert(()));
                expected += usize::from(pattern != "#.a.#.b");
            }
        }
        topics.put(vec!["#"; 128].join(".").as_bytes(), slab.insert(()));
        let began = std::time::Instant::now();
        assert_eq!(found(&topics, key.as_bytes()).len(), expected + 1);
        assert!(!found(&topics, dots.as_bytes()).is_empty());
        assert!(!found(&topics, vec!["b"; 128].join(".").as_bytes()).is_empty());
        assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    }
}
