//! Where messages go that a connection publishes, as it was looked up for those before.
//!
//! **Always holds**: what is remembered takes no more than [`SIZE_MAX`] bytes, is as the virtual host and the permissions are now, and is
//! forgotten after a while, so that a connection which publishes no more keeps no queue that has gone.

use std::collections::HashMap;
use std::sync::Arc;

use base::Monotonic;
use broker::MessageQueue;

/// Bytes of routes that a connection remembers: those of a thousand keys, one queue each.
const SIZE_MAX: usize = 128 * 1024;

/// What a route takes beside its key and its queues, bytes.
const ROUTE_SIZE: usize = size_of::<(Box<[u8]>, Route)>() + 32;

/// How long the oldest is remembered, ms.
const REMEMBERED_MS: u64 = 60_000;

/// Where messages of a key go, and what has to be looked at for each.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) queues: Arc<[Arc<MessageQueue>]>,
    /// The queues depend on more than the key.
    pub(super) by_headers: bool,
}

/// What one connection remembers.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By exchange and key.
    known: HashMap<Box<[u8]>, Route>,
    /// Bytes of these.
    size: usize,
    /// Of what they were looked up in.
    generations: (u64, u64),
    /// Exchange and key of the last, as they are looked up.
    place: Vec<u8>,
    last: Option<Route>,
    /// When all are forgotten.
    forgotten_at: Option<Monotonic>,
}

impl Routes {
    /// The route of an exchange and a key, if it is known as of these generations.
    pub(super) fn get(&mut self, exchange: &[u8], key: &[u8], generations: (u64, u64)) -> Option<Route> {
        if generations != self.generations {
            self.forget();
            self.generations = generations;
        }
        let is_last = self.place.split_first().is_some_and(|(length, place)| {
            usize::from(*length) == exchange.len() && place.split_at_checked(exchange.len()) == Some((exchange, key))
        });
        if !is_last || self.last.is_none() {
            self.place.clear();
            self.place.push(exchange.len() as u8);
            self.place.extend_from_slice(exchange);
            self.place.extend_from_slice(key);
            self.last = self.known.get(&*self.place).cloned();
        }
        self.last.clone()
    }

    /// Remembers the route that was asked for last and not known, unless it alone is too much.
    pub(super) fn put(&mut self, route: &Route, now: Monotonic) {
        let size = ROUTE_SIZE + self.place.len() + size_of_val(&*route.queues);
        if size > SIZE_MAX {
            return;
        }
        if self.size + size > SIZE_MAX {
            self.known.clear();
            self.size = 0;
        }
        self.size += size;
        self.known.insert(self.place.as_slice().into(), route.clone());
        self.last = Some(route.clone());
        self.forgotten_at.get_or_insert(now.plus_ms(REMEMBERED_MS));
    }

    fn forget(&mut self) {
        (self.known, self.size) = (HashMap::new(), 0);
        (self.last, self.forgotten_at) = (None, None);
    }

    /// Forgets all when it is time for that.
    pub(super) fn forget_old(&mut self, now: Monotonic) {
        if self.forgotten_at.is_some_and(|at| at <= now) {
            self.forget();
        }
    }

    /// When it is.
    pub(super) const fn deadline(&self) -> Option<Monotonic> {
        self.forgotten_at
    }

    /// Bytes that they take.
    pub(super) const fn size(&self) -> usize {
        self.size
    }
}
