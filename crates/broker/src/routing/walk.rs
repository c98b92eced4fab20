//! The way of a message from exchange to exchange, each at most once.

use base::QueueNumber;
use smallvec::{SmallVec, smallvec};

use super::Router;
use super::binding::Destination;
use super::exchange::{Exchange, ExchangeKind, Message};
use super::headers::Headers;
use super::seen::Seen;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// There is no such exchange.
    NoSuchExchange,
    /// No queue gets it.
    Nowhere,
    /// Some queue gets it.
    Routed,
}

/// Exchanges that are come to one after the other.
struct Walk<'a> {
    router: &'a Router,
    ahead: SmallVec<[&'a Exchange; 8]>,
    seen: Seen<*const Exchange>,
}

impl<'a> Walk<'a> {
    fn from(router: &'a Router, first: &'a Exchange) -> Self {
        let mut seen = Seen::default();
        seen.add(std::ptr::from_ref(first));
        Self { router, ahead: smallvec![first], seen }
    }

    /// Goes on to an exchange, if it is there and was not come to before.
    fn visit(&mut self, name: &[u8]) {
        if let Some(next) = self.router.exchanges.get(name)
            && self.seen.add(std::ptr::from_ref(next))
        {
            self.ahead.push(next);
        }
    }
}

impl Router {
    /// Adds the queues that a message goes to, sorted and each once, to what `out` has. A message has several keys where it is to go
    /// several ways at once.
    pub fn route(
        &self,
        exchange: &[u8],
        keys: &[&[u8]],
        headers: Option<&dyn Headers>,
        out: &mut Vec<QueueNumber>,
    ) -> Routing {
        let Some(first) = self.exchanges.get(exchange) else { return Routing::NoSuchExchange };
        let (begin, message) = (out.len(), Message { keys, headers });
        let mut walk = Walk::from(self, first);
        while let Some(exchange) = walk.ahead.pop() {
            let mut is_matched = false;
            exchange.matches(message, &self.bindings, |binding| {
                is_matched = true;
                match &binding.destination {
                    Destination::Queue(number) => out.push(*number),
                    Destination::Exchange(name) => walk.visit(name),
                }
            });
            if let Some(alternate) = exchange.settings.alternate.as_ref().filter(|_| !is_matched) {
                walk.visit(alternate);
            }
        }
        sort_from(out, begin);
        if out.len() > begin { Routing::Routed } else { Routing::Nowhere }
    }

    /// Whether the queues that a message goes to may depend on its headers.
    pub fn depends_on_headers(&self, exchange: &[u8]) -> bool {
        let Some(first) = self.exchanges.get(exchange) else { return false };
        let mut walk = Walk::from(self, first);
        while let Some(exchange) = walk.ahead.pop() {
            if exchange.settings.kind == ExchangeKind::Headers {
                return true;
            }
            exchange.leads_to().for_each(|name| walk.visit(name));
        }
        false
    }
}

/// Sorts what lies from `begin` on, and has each there once.
fn sort_from(numbers: &mut Vec<QueueNumber>, begin: usize) {
    let Some(new @ [_, _, ..]) = numbers.get_mut(begin..) else { return };
    new.sort_unstable();
    let mut at = 0;
    let mut last = None;
    numbers.retain(|number| {
        at += 1;
        at <= begin || last.replace(*number) != Some(*number)
    });
}
