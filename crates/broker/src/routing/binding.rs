//! Bindings, each in two chains: with those of its exchange that match the same messages, and with those that lead to the same place.
//!
//! **Always holds**: chains end, and are whole: whoever is before a binding in a chain is known to it, and whoever is behind it.

use base::QueueNumber;
use format::model::Text;

use super::headers::HeaderRule;
use super::slab::{Id, Slab};

/// Where a binding leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To a queue.
    Queue(QueueNumber),
    /// To an exchange.
    Exchange(Text),
}

/// A binding. All but its rule says which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingSpec {
    /// From which exchange.
    pub source: Text,
    /// To what.
    pub destination: Destination,
    /// By which key.
    pub key: Text,
    /// In the order of their names, by which it is the same whatever order they came in.
    pub arguments: Text,
    /// What headers it asks for; none: any.
    pub rule: Option<HeaderRule>,
}

impl BindingSpec {
    /// Whether it is the same binding, of the same exchange.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.destination == other.destination && self.key == other.key && self.arguments == other.arguments
    }
}

/// What binds bindings together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chain {
    /// They match the same messages: of one exchange, and by one key where keys count.
    Alike,
    /// They lead to the same place.
    Arriving,
}

/// Who is next to a binding in a chain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    pub(super) before: Option<Id>,
    pub(super) behind: Option<Id>,
}

#[derive(Debug)]
struct Binding {
    spec: BindingSpec,
    alike: Links,
    arriving: Links,
}

impl Binding {
    const fn links(&self, chain: Chain) -> Links {
        match chain {
            Chain::Alike => self.alike,
            Chain::Arriving => self.arriving,
        }
    }

    const fn links_mut(&mut self, chain: Chain) -> &mut Links {
        match chain {
            Chain::Alike => &mut self.alike,
            Chain::Arriving => &mut self.arriving,
        }
    }
}

/// All bindings.
#[derive(Debug, Default)]
pub(super) struct Bindings(Slab<Binding>);

impl Bindings {
    /// Adds one that is in no chain yet.
    pub(super) fn insert(&mut self, spec: BindingSpec) -> Id {
        self.0.insert(Binding { spec, alike: Links::default(), arriving: Links::default() })
    }

    /// Removes one that is in no chain any more.
    pub(super) fn remove(&mut self, id: Id) -> Option<BindingSpec> {
        self.0.remove(id).map(|binding| binding.spec)
    }

    pub(super) fn get(&self, id: Id) -> Option<&BindingSpec> {
        self.0.get(id).map(|binding| &binding.spec)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &BindingSpec> {
        self.0.iter().map(|binding| &binding.spec)
    }

    /// A chain from its first binding on.
    pub(super) fn chain(&self, chain: Chain, first: Option<Id>) -> impl Iterator<Item = (Id, &BindingSpec)> {
        let mut next = first;
        std::iter::from_fn(move || {
            let id = next?;
            let binding = self.0.get(id)?;
            next = binding.links(chain).behind;
            Some((id, &binding.spec))
        })
    }

    /// Puts a binding before the one that was the first.
    pub(super) fn link(&mut self, chain: Chain, id: Id, first: Option<Id>) {
        self.set(chain, Some(id), Links { before: None, behind: first });
        if let Some(links) = self.links_mut(chain, first) {
            links.before = Some(id);
        }
    }

    /// Takes a binding out of its chain. Gives who was next to it.
    pub(super) fn unlink(&mut self, chain: Chain, id: Id) -> Links {
        let links = self.links_mut(chain, Some(id)).map(std::mem::take).unwrap_or_default();
        if let Some(before) = self.links_mut(chain, links.before) {
            before.behind = links.behind;
        }
        if let Some(behind) = self.links_mut(chain, links.behind) {
            behind.before = links.before;
        }
        links
    }

    fn set(&mut self, chain: Chain, id: Option<Id>, new: Links) {
        if let Some(links) = self.links_mut(chain, id) {
            *links = new;
        }
    }

    fn links_mut(&mut self, chain: Chain, id: Option<Id>) -> Option<&mut Links> {
        self.0.get_mut(id?).map(|binding| binding.links_mut(chain))
    }
}
