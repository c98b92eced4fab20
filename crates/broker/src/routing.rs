//! Routing of one virtual host: which queues get a message that an exchange is given.
//!
//! **Owns** exchanges and bindings. **Always holds**: a binding leads from an exchange that is there, and if to an exchange, to one that is
//! there; equal histories give equal answers, in the same order. Messages go:
//!
//! - by equal keys ([`ExchangeKind::Direct`]), everywhere, by patterns of keys ([`topic`]), or by what their headers say ([`headers`]);
//! - on from exchange to exchange, to each once, and to a queue once whatever leads there;
//! - to the alternate exchange of one of whose bindings none matches, whether what matches leads to a queue or not;
//! - an exchange that is not to stay without bindings goes with the last one from it; one that never had any stays.
//!
//! The default exchange, which has every queue bound by its name, is the caller's. Queues are numbers here: the caller knows which are
//! there. Nothing outlives the process, and nothing waits: whoever makes a change has the router alone, and many may route at once.
//!
//! What a change costs depends on the words of its key, and on how much goes with it; not on how many bindings there are. What a message
//! costs depends on the bindings that match it; with headers, on all bindings of the exchange.

mod binding;
mod exchange;
mod headers;
mod removed;
mod seen;
mod slab;
mod table;
mod topic;
mod walk;

#[cfg(test)]
mod tests;

use base::QueueNumber;
use foldhash::HashMap;
use format::model::Text;

use binding::{Bindings, Chain};
use exchange::Exchange;
use slab::Id;

pub use binding::{BindingSpec, Destination};
pub use exchange::{ExchangeKind, ExchangeSettings};
pub use headers::{HeaderMode, HeaderRule, Headers};
pub use removed::Removed;
pub use walk::Routing;

/// Exchanges and bindings of a virtual host.
#[derive(Debug, Default)]
pub struct Router {
    exchanges: HashMap<Text, Exchange>,
    bindings: Bindings,
    /// The first of the bindings that lead to a queue.
    queues: HashMap<QueueNumber, Id>,
}

impl Router {
    /// An exchange's settings.
    pub fn exchange(&self, name: &[u8]) -> Option<&ExchangeSettings> {
        self.exchanges.get(name).map(|exchange| &exchange.settings)
    }

    /// Has an exchange there. One that is there already is as told from now on, and keeps its bindings.
    pub fn put_exchange(&mut self, name: &[u8], settings: ExchangeSettings) {
        match self.exchanges.get_mut(name) {
            Some(exchange) => exchange.change(settings, &mut self.bindings),
            None => drop(self.exchanges.insert(name.into(), Exchange::new(settings))),
        }
    }

    /// Whether bindings lead from an exchange.
    pub fn has_bindings(&self, name: &[u8]) -> bool {
        self.exchanges.get(name).is_some_and(Exchange::has_bindings)
    }

    /// Every exchange, sorted by name.
    pub fn exchanges(&self) -> impl Iterator<Item = (&[u8], &ExchangeSettings)> {
        let mut all: Vec<_> = self.exchanges.iter().map(|(name, exchange)| (&**name, &exchange.settings)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// Every binding.
    pub fn bindings(&self) -> impl Iterator<Item = &BindingSpec> {
        self.bindings.iter()
    }

    /// The binding that is meant, whatever its rule.
    pub fn binding(&self, spec: &BindingSpec) -> Option<&BindingSpec> {
        let id = self.exchanges.get(&spec.source)?.find(spec, &self.bindings)?;
        self.bindings.get(id)
    }

    /// Has a binding there. Gives it back if it is there already, or if an exchange is not that it leads from or to.
    pub fn bind(&mut self, spec: BindingSpec) -> Option<BindingSpec> {
        let leads_nowhere = match &spec.destination {
            Destination::Exchange(name) => !self.exchanges.contains_key(name),
            Destination::Queue(_) => false,
        };
        if leads_nowhere || !self.exchanges.contains_key(&spec.source) || self.binding(&spec).is_some() {
            return Some(spec);
        }
        let to = spec.destination.clone();
        let id = self.bindings.insert(spec);
        let source = self.bindings.get(id).and_then(|spec| self.exchanges.get_mut(&spec.source));
        if let Some(source) = source {
            source.add(id, &mut self.bindings);
        }
        let first = self.replace_arriving(&to, Some(id));
        self.bindings.link(Chain::Arriving, id, first);
        None
    }
}
