//! An exchange: its bindings, and which of them match a message.
//!
//! **Always holds**: each of its bindings is known by what makes it the one it is, and is in the chain of those that match the same
//! messages; the first of a chain is found by the key.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use format::model::Text;

use super::binding::{BindingSpec, Bindings, Chain, Destination};
use super::headers::Headers;
use super::slab::Id;
use super::table::Table;
use super::topic::Topics;

/// How an exchange chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// By equal keys.
    Direct,
    /// Everything goes everywhere.
    Fanout,
    /// By patterns of keys.
    Topic,
    /// By headers.
    Headers,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeSettings {
    /// How it chooses.
    pub kind: ExchangeKind,
    /// Whether it outlives a restart.
    pub durable: bool,
    /// Whether it goes with the last of its bindings.
    pub auto_delete: bool,
    /// Whether only exchanges give it messages.
    pub internal: bool,
    /// Which exchange gets what matches none of its bindings.
    pub alternate: Option<Text>,
    /// As they came.
    pub arguments: Text,
}

/// What of a message counts.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) keys: &'a [&'a [u8]],
    pub(super) headers: Option<&'a dyn Headers>,
}

/// Finds the first of each chain.
#[derive(Debug)]
enum Index {
    /// By the key.
    Keys(Table),
    /// By patterns of keys.
    Topics(Box<Topics>),
    /// There is one chain.
    All(Option<Id>),
}

impl Index {
    fn new(kind: ExchangeKind) -> Self {
        match kind {
            ExchangeKind::Direct => Self::Keys(Table::default()),
            ExchangeKind::Topic => Self::Topics(Box::default()),
            ExchangeKind::Fanout | ExchangeKind::Headers => Self::All(None),
        }
    }
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) settings: ExchangeSettings,
    /// Its bindings, by what makes each the one it is.
    known: Table,
    index: Index,
    /// Exchanges that its bindings lead to, each with how many do.
    onward: HashMap<Text, usize>,
    /// The first of the bindings that lead to it.
    pub(super) arriving: Option<Id>,
    hasher: RandomState,
}

impl Exchange {
    pub(super) fn new(settings: ExchangeSettings) -> Self {
        let (index, hasher) = (Index::new(settings.kind), RandomState::default());
        Self { settings, known: Table::default(), index, onward: HashMap::new(), arriving: None, hasher }
    }

    /// Has it be otherwise. Its bindings stay.
    pub(super) fn change(&mut self, settings: ExchangeSettings, bindings: &mut Bindings) {
        let is_other = self.settings.kind != settings.kind;
        self.settings = settings;
        if is_other {
            self.index = Index::new(self.settings.kind);
            self.bindings().into_iter().for_each(|id| self.index_binding(id, bindings));
        }
    }

    pub(super) const fn has_bindings(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether it goes, now that one of its bindings is gone.
    pub(super) const fn is_done(&self) -> bool {
        self.settings.auto_delete && !self.has_bindings()
    }

    /// Its bindings, in an order that is the same each time.
    pub(super) fn bindings(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.known.iter().collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn find(&self, spec: &BindingSpec, bindings: &Bindings) -> Option<Id> {
        self.known.find(self.hash(spec), |id| bindings.get(id).is_some_and(|known| known.is_same(spec)))
    }

    /// Exchanges that get what it gets, if it matches: by bindings, or else.
    pub(super) fn leads_to(&self) -> impl Iterator<Item = &Text> {
        self.onward.keys().chain(&self.settings.alternate)
    }

    /// Adds a binding that it does not have.
    pub(super) fn add(&mut self, id: Id, bindings: &mut Bindings) {
        let Some(spec) = bindings.get(id) else { return };
        self.known.insert(self.hash(spec), id);
        if let Destination::Exchange(name) = &spec.destination {
            match self.onward.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.onward.insert(name.clone(), 1)),
            }
        }
        self.index_binding(id, bindings);
    }

    /// Forgets a binding that it has.
    pub(super) fn remove(&mut self, id: Id, bindings: &mut Bindings) {
        let links = bindings.unlink(Chain::Alike, id);
        let Some(spec) = bindings.get(id) else { return };
        self.known.remove(self.hash(spec), id);
        if let Destination::Exchange(name) = &spec.destination
            && let Some(count) = self.onward.get_mut(name)
        {
            *count -= 1;
            if *count == 0 {
                self.onward.remove(name);
            }
        }
        if links.before.is_none() {
            self.replace_first(&spec.key, id, links.behind);
        }
    }

    /// Tells which bindings match a message. One may be told for each key.
    pub(super) fn matches(&self, message: Message<'_>, bindings: &Bindings, mut found: impl FnMut(&BindingSpec)) {
        let mut chain = |first| bindings.chain(Chain::Alike, first).for_each(|(_, spec)| found(spec));
        match &self.index {
            Index::Keys(table) => {
                for key in message.keys {
                    chain(table.find(self.hasher.hash_one(*key), has_key(key, bindings)));
                }
            }
            Index::Topics(topics) => {
                for key in message.keys {
                    topics.matches(key, |first| chain(Some(first)));
                }
            }
            Index::All(first) if self.settings.kind == ExchangeKind::Fanout => chain(*first),
            Index::All(first) => {
                let all = bindings.chain(Chain::Alike, *first).map(|(_, spec)| spec);
                let is_match =
                    |spec: &&BindingSpec| spec.rule.as_ref().is_none_or(|rule| rule.matches(message.headers));
                all.filter(is_match).for_each(found);
            }
        }
    }

    fn hash(&self, spec: &BindingSpec) -> u64 {
        self.hasher.hash_one((&spec.destination, &spec.key, &spec.arguments))
    }

    /// Puts a binding first into its chain.
    fn index_binding(&mut self, id: Id, bindings: &mut Bindings) {
        let Some(spec) = bindings.get(id) else { return };
        let first = match &mut self.index {
            Index::All(first) => first.replace(id),
            Index::Topics(topics) => topics.put(&spec.key, id),
            Index::Keys(table) => {
                let hash = self.hasher.hash_one(&*spec.key);
                let first = table.find(hash, has_key(&spec.key, bindings));
                match first {
                    Some(first) => table.replace(hash, first, id),
                    None => table.insert(hash, id),
                }
                first
            }
        };
        bindings.link(Chain::Alike, id, first);
    }

    /// The first of a chain is another one now, or there is no such chain any more.
    fn replace_first(&mut self, key: &[u8], old: Id, new: Option<Id>) {
        match (&mut self.index, new) {
            (Index::All(first), new) => *first = new,
            (Index::Topics(topics), Some(new)) => _ = topics.put(key, new),
            (Index::Topics(topics), None) => topics.remove(key),
            (Index::Keys(table), Some(new)) => table.replace(self.hasher.hash_one(key), old, new),
            (Index::Keys(table), None) => table.remove(self.hasher.hash_one(key), old),
        }
    }
}

fn has_key(key: &[u8], bindings: &Bindings) -> impl Fn(Id) -> bool {
    move |id| bindings.get(id).is_some_and(|spec| *spec.key == *key)
}
