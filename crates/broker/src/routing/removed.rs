//! What goes, and what goes with it: an exchange takes the bindings from it and to it along, and the last binding from an exchange takes an
//! exchange along that is not to stay without.

use base::QueueNumber;
use format::model::Text;

use super::Router;
use super::binding::{BindingSpec, Chain, Destination};
use super::exchange::ExchangeSettings;
use super::slab::Id;

/// Everything that went, in the order in which it did: an exchange that was to go, and then those that went with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Exchanges by name.
    pub exchanges: Vec<(Text, ExchangeSettings)>,
    /// Bindings.
    pub bindings: Vec<BindingSpec>,
}

impl Router {
    /// Removes an exchange.
    pub fn remove_exchange(&mut self, name: &[u8]) -> Removed {
        let mut removed = Removed::default();
        self.remove_exchanges(vec![name.into()], &mut removed);
        removed
    }

    /// Removes the bindings of a queue.
    pub fn remove_queue(&mut self, number: QueueNumber) -> Removed {
        let first = self.queues.get(&number).copied();
        let bindings = self.arriving(first);
        self.remove_bindings(bindings)
    }

    /// Removes a binding, if it is there.
    pub fn unbind(&mut self, spec: &BindingSpec) -> Option<Removed> {
        let id = self.exchanges.get(&spec.source)?.find(spec, &self.bindings)?;
        Some(self.remove_bindings(vec![id]))
    }

    fn remove_bindings(&mut self, ids: Vec<Id>) -> Removed {
        let (mut removed, mut done) = (Removed::default(), Vec::new());
        for id in ids {
            self.remove_binding(id, &mut removed, &mut done);
        }
        self.remove_exchanges(done, &mut removed);
        removed
    }

    fn remove_exchanges(&mut self, mut names: Vec<Text>, removed: &mut Removed) {
        while let Some(name) = names.pop() {
            let Some(exchange) = self.exchanges.get(&name) else { continue };
            let mut bindings = exchange.bindings();
            bindings.extend(self.arriving(exchange.arriving));
            for id in bindings {
                self.remove_binding(id, removed, &mut names);
            }
            removed
                .exchanges
                .extend(self.exchanges.remove_entry(&name).map(|(name, exchange)| (name, exchange.settings)));
        }
    }

    /// One that is from an exchange to itself may be gone already. `done` gets its exchange, if that is to go too.
    fn remove_binding(&mut self, id: Id, removed: &mut Removed, done: &mut Vec<Text>) {
        let Some(spec) = self.bindings.get(id) else { return };
        if let Some(source) = self.exchanges.get_mut(&spec.source) {
            source.remove(id, &mut self.bindings);
        }
        let links = self.bindings.unlink(Chain::Arriving, id);
        let Some(spec) = self.bindings.remove(id) else { return };
        if links.before.is_none() {
            self.replace_arriving(&spec.destination, links.behind);
        }
        if self.exchanges.get(&spec.source).is_some_and(|source| source.is_done()) {
            done.push(spec.source.clone());
        }
        removed.bindings.push(spec);
    }

    fn arriving(&self, first: Option<Id>) -> Vec<Id> {
        self.bindings.chain(Chain::Arriving, first).map(|(id, _)| id).collect()
    }

    /// Another binding is the first now of those that lead to a place, or none is. Gives the one that was.
    pub(super) fn replace_arriving(&mut self, to: &Destination, first: Option<Id>) -> Option<Id> {
        match (to, first) {
            (Destination::Queue(number), Some(first)) => self.queues.insert(*number, first),
            (Destination::Queue(number), None) => self.queues.remove(number),
            (Destination::Exchange(name), first) => {
                let arriving = &mut self.exchanges.get_mut(name)?.arriving;
                std::mem::replace(arriving, first)
            }
        }
    }
}
