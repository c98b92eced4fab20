//! Where the queues of topics are in the whole cluster, as name servers say: brokers that divide queues among consumers have to divide
//! the same ones.
//!
//! Asked is only for topics that consumers ask about, again and again for as long as they do. Whoever has a connection to a name server
//! takes the next question here, and puts the answer here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::limits::{QUEUES_OF_ROUTE_MAX, ROUTES_MAX};
use base::{Monotonic, Refusal};
use parking_lot::Mutex;

use crate::host::Host;

/// What is known is asked for again after this long.
const KNOWN_MS: u64 = 15_000;

/// What a name server did not know, or has not answered.
const UNKNOWN_MS: u64 = 1000;

/// Nobody asks about a topic any more after this long: consumers ask every 20 s.
const WANTED_MS: u64 = 300_000;

/// Queues of a topic on one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuesAt {
    /// The broker's name.
    pub broker: String,
    /// How many queues consumers may read there, from number 0 on.
    pub count: u32,
}

/// What is known of where a topic's queues are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// This broker is in no cluster: there are its own queues.
    Here,
    /// No name server has said anything yet, or none knows the topic.
    Unknown,
    /// At these brokers.
    At(Arc<[QueuesAt]>),
}

/// The routes.
#[derive(Debug)]
pub struct Routes {
    state: Mutex<State>,
    /// Whether somebody asks name servers.
    are_asked_for: AtomicBool,
    host: Arc<dyn Host>,
}

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Route>,
    /// When which is to be asked for next.
    due: BTreeSet<(Monotonic, String)>,
}

#[derive(Debug)]
struct Route {
    queues: Option<Arc<[QueuesAt]>>,
    wanted_at: Monotonic,
    due: Monotonic,
}

impl State {
    fn put_off(&mut self, topic: &str, until: Monotonic) {
        if let Some(route) = self.topics.get_mut(topic) {
            self.due.remove(&(route.due, topic.to_owned()));
            self.due.insert((until, topic.to_owned()));
            route.due = until;
        }
    }
}

impl Routes {
    pub(crate) fn new(host: &Arc<dyn Host>) -> Self {
        Self { state: Mutex::default(), are_asked_for: AtomicBool::new(false), host: host.clone() }
    }

    /// From now on somebody asks a name server for what is wanted.
    pub fn note_asker(&self) {
        self.are_asked_for.store(true, Ordering::Release);
    }

    /// Where a topic's queues are; has that asked for where it is not known.
    pub fn of(&self, topic: &str, now: Monotonic) -> Result<Whereabouts, Refusal> {
        if !self.are_asked_for.load(Ordering::Acquire) {
            return Ok(Whereabouts::Here);
        }
        let mut state = self.state.lock();
        if !state.topics.contains_key(topic) {
            if state.topics.len() >= ROUTES_MAX {
                return Err(Refusal::Busy(format!(
                    "consumers want to know where the queues of {ROUTES_MAX} topics are, and no more are asked for"
                )));
            }
            state.topics.insert(topic.to_owned(), Route { queues: None, wanted_at: now, due: now });
            state.due.insert((now, topic.to_owned()));
        }
        let Some(route) = state.topics.get_mut(topic) else { return Ok(Whereabouts::Unknown) };
        route.wanted_at = now;
        let (known, is_due) = (route.queues.clone(), route.due <= now);
        drop(state);
        if known.is_none() && is_due {
            self.host.route_wanted();
        }
        Ok(known.map_or(Whereabouts::Unknown, Whereabouts::At))
    }

    /// A topic to ask a name server for now: each is given out once, until an answer is late.
    pub fn next_wanted(&self, now: Monotonic) -> Option<String> {
        let mut state = self.state.lock();
        while let Some((due, topic)) = state.due.first().filter(|(due, _)| *due <= now).cloned() {
            if state.topics.get(&topic).is_some_and(|route| now.ms_since(route.wanted_at) < WANTED_MS) {
                state.put_off(&topic, now.plus_ms(UNKNOWN_MS));
                return Some(topic);
            }
            state.due.remove(&(due, topic.clone()));
            state.topics.remove(&topic);
        }
        None
    }

    /// A name server says where a topic's queues are; `None`: it knows no such topic.
    pub fn note(&self, topic: &str, queues: Option<Vec<QueuesAt>>, now: Monotonic) {
        let count = queues.iter().flatten().map(|at| u64::from(at.count)).sum::<u64>();
        let queues = queues.filter(|_| count <= QUEUES_OF_ROUTE_MAX);
        if count > QUEUES_OF_ROUTE_MAX {
            tracing::warn!(topic, count, "a topic with too many queues in the cluster to be divided among consumers");
        }
        let mut state = self.state.lock();
        let again_ms = if queues.is_some() { KNOWN_MS } else { UNKNOWN_MS };
        if let Some(route) = state.topics.get_mut(topic) {
            route.queues = queues.map(Into::into);
        }
        state.put_off(topic, now.plus_ms(again_ms));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Debug, Default)]
    struct Asked(AtomicU64);

    impl Host for Asked {
        fn log_changed(&self) {}
        fn sync_wanted(&self, _waiting: usize) {}
        fn registration_changed(&self) {}
        fn route_wanted(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn routes() -> (Routes, Arc<Asked>) {
        let asked = Arc::<Asked>::default();
        let host: Arc<dyn Host> = asked.clone();
        let routes = Routes::new(&host);
        routes.note_asker();
        (routes, asked)
    }

    fn at(broker: &str, count: u32) -> QueuesAt {
        QueuesAt { broker: broker.to_owned(), count }
    }

    const START: Monotonic = Monotonic(1000);

    fn of(routes: &Routes, topic: &str, ms: u64) -> Whereabouts {
        routes.of(topic, START.plus_ms(ms)).expect("there is room")
    }

    fn next(routes: &Routes, ms: u64) -> Option<String> {
        routes.next_wanted(START.plus_ms(ms))
    }

    #[test]
    fn without_a_name_server_a_topics_queues_are_here() {
        let host: Arc<dyn Host> = Arc::new(Asked::default());
        assert_eq!(of(&Routes::new(&host), "orders", 0), Whereabouts::Here);
    }

    #[test]
    fn what_somebody_wants_is_asked_for_once_and_again_after_a_while() {
        let (routes, asked) = routes();
        assert_eq!(next(&routes, 0), None);
        assert_eq!(of(&routes, "orders", 0), Whereabouts::Unknown);
        assert_eq!(asked.0.load(Ordering::Relaxed), 1);
        assert_eq!((next(&routes, 0), next(&routes, 0)), (Some("orders".to_owned()), None));
        assert_eq!(of(&routes, "orders", 1), Whereabouts::Unknown);
        assert_eq!(asked.0.load(Ordering::Relaxed), 1, "the answer is on its way");
        routes.note("orders", Some(vec![at("a", 4), at("b", 2)]), START.plus_ms(2));
        let known = Whereabouts::At([at("a", 4), at("b", 2)].into());
        assert_eq!(of(&routes, "orders", 3), known);
        assert_eq!(next(&routes, 2 + KNOWN_MS - 1), None);
        assert_eq!(next(&routes, 2 + KNOWN_MS), Some("orders".to_owned()));
        assert_eq!(of(&routes, "orders", 2 + KNOWN_MS + 60_000), known, "it counts until a name server says otherwise");
    }

    #[test]
    fn what_was_not_answered_or_not_known_is_soon_asked_for_again() {
        let (routes, asked) = routes();
        of(&routes, "orders", 0);
        assert_eq!(next(&routes, 0).as_deref(), Some("orders"));
        assert_eq!(next(&routes, UNKNOWN_MS - 1), None);
        assert_eq!(next(&routes, UNKNOWN_MS).as_deref(), Some("orders"), "the name server is gone");
        routes.note("orders", Some(vec![at("a", 4)]), START.plus_ms(UNKNOWN_MS));
        routes.note("orders", None, START.plus_ms(2000));
        assert_eq!(of(&routes, "orders", 2000), Whereabouts::Unknown);
        assert_eq!((asked.0.load(Ordering::Relaxed), next(&routes, 2000)), (1, None));
        assert_eq!(of(&routes, "orders", 2000 + UNKNOWN_MS), Whereabouts::Unknown);
        assert_eq!(asked.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_nobody_wants_any_more_is_forgotten_and_makes_room() {
        let (routes, _) = routes();
        for number in 0..ROUTES_MAX {
            of(&routes, &format!("topic-{number}"), 0);
        }
        of(&routes, "topic-7", WANTED_MS - 1);
        assert!(matches!(routes.of("one-more", START), Err(Refusal::Busy(_))));
        assert_eq!(next(&routes, WANTED_MS).as_deref(), Some("topic-7"));
        assert_eq!(next(&routes, WANTED_MS), None);
        assert_eq!(of(&routes, "one-more", WANTED_MS), Whereabouts::Unknown);
    }

    #[test]
    fn an_answer_of_too_many_queues_is_not_kept_and_one_that_nobody_wants_neither() {
        let (routes, _) = routes();
        of(&routes, "orders", 0);
        routes.note("orders", Some(vec![at("a", u32::MAX), at("b", u32::MAX)]), START);
        assert_eq!(of(&routes, "orders", 1), Whereabouts::Unknown);
        routes.note("another", Some(vec![at("a", 1)]), START);
        assert_eq!(of(&routes, "another", 1), Whereabouts::Unknown);
    }
}
