//! Random histories, and the model.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SEEDS: u64 = 1500;
const STEPS: usize = 60;

const EXCHANGES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const QUEUES: u32 = 6;
const KEYS: [&str; 12] = ["", "a", "b", "a.b", "a.*", "#", "*.b", "a.#", "#.b.#", "*.#.*", "a..b", "#.#.a"];
const ARGUMENTS: [&str; 3] = ["", "1", "2"];
const NAMES: [&str; 3] = ["p", "q", "x-r"];
const VALUES: [&[u8]; 4] = [b"b\x01", b"I\0\0\0\x01", b"S\0\0\0\x011", b"t\x01"];

/// Whether a key has the words of a pattern, as the rule says it.
pub(in crate::routing) fn fits(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
    match (pattern, key) {
        ([b"#", rest @ ..], _) => (0..=key.len()).any(|at| fits(rest, &key[at..])),
        ([b"*", rest @ ..], [_, key @ ..]) => fits(rest, key),
        ([word, rest @ ..], [first, key @ ..]) => word == first && fits(rest, key),
        ([], []) => true,
        _ => false,
    }
}

pub(in crate::routing) fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() { Vec::new() } else { text.split(|byte| *byte == b'.').collect() }
}

/// Every binding is looked at each time.
#[derive(Default)]
struct Model {
    exchanges: BTreeMap<Text, ExchangeSettings>,
    bindings: Vec<BindingSpec>,
}

/// Headers of a message.
struct Given(BTreeMap<&'static [u8], &'static [u8]>);

impl Headers for Given {
    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).copied()
    }
}

fn is_same(one: &BindingSpec, other: &BindingSpec) -> bool {
    let without_rule = |spec: &BindingSpec| BindingSpec { rule: None, ..spec.clone() };
    without_rule(one) == without_rule(other)
}

fn has_headers(rule: &HeaderRule, given: &Given) -> bool {
    let is_one = |value: &[u8]| value == b"b\x01" || value == b"I\0\0\0\x01";
    let mut results = Vec::new();
    for (name, value) in &rule.wanted {
        if !rule.with_x && name.starts_with(b"x-") {
            continue;
        }
        results.push(match (given.0.get(&**name), value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(found), Some(value)) => *found == &**value || is_one(found) && is_one(value),
        });
    }
    let count = results.iter().filter(|is_there| **is_there).count();
    if rule.mode == HeaderMode::All { count == results.len() } else { count > 0 }
}

impl Model {
    fn is_match(&self, spec: &BindingSpec, keys: &[&[u8]], given: &Given) -> bool {
        match self.exchanges[&spec.source].kind {
            ExchangeKind::Fanout => true,
            ExchangeKind::Direct => keys.contains(&&*spec.key),
            ExchangeKind::Topic => keys.iter().any(|key| fits(&words(&spec.key), &words(key))),
            ExchangeKind::Headers => spec.rule.as_ref().is_none_or(|rule| has_headers(rule, given)),
        }
    }

    fn route(&self, name: &[u8], keys: &[&[u8]], given: &Given, met: &mut BTreeSet<Text>, out: &mut BTreeSet<u32>) {
        let Some((name, exchange)) = self.exchanges.get_key_value(name) else { return };
        if !met.insert(name.clone()) {
            return;
        }
        let from_here = self.bindings.iter().filter(|spec| spec.source == *name);
        let matching: Vec<_> = from_here.filter(|spec| self.is_match(spec, keys, given)).collect();
        for spec in &matching {
            match &spec.destination {
                Destination::Queue(number) => drop(out.insert(number.0)),
                Destination::Exchange(next) => self.route(next, keys, given, met, out),
            }
        }
        if let Some(alternate) = exchange.alternate.as_ref().filter(|_| matching.is_empty()) {
            self.route(alternate, keys, given, met, out);
        }
    }

    fn depends_on_headers(&self, name: &Text, met: &mut BTreeSet<Text>) -> bool {
        let Some(exchange) = self.exchanges.get(name).filter(|_| met.insert(name.clone())) else { return false };
        let onward =
            self.bindings.iter().filter(|spec| spec.source == *name).filter_map(|spec| match &spec.destination {
                Destination::Exchange(next) => Some(next),
                Destination::Queue(_) => None,
            });
        exchange.kind == ExchangeKind::Headers
            || onward.chain(&exchange.alternate).any(|next| self.depends_on_headers(next, met))
    }

    fn bind(&mut self, spec: &BindingSpec) -> bool {
        let is_there = |name: &Text| self.exchanges.contains_key(name);
        let leads_somewhere = match &spec.destination {
            Destination::Exchange(name) => is_there(name),
            Destination::Queue(_) => true,
        };
        let is_bound = self.bindings.iter().any(|known| is_same(known, spec));
        let is_taken = leads_somewhere && is_there(&spec.source) && !is_bound;
        if is_taken {
            self.bindings.push(spec.clone());
        }
        is_taken
    }

    /// Removes bindings and exchanges until nothing is left that is to go with them.
    fn remove(&mut self, exchange: Option<&Text>, goes: impl Fn(&BindingSpec) -> bool) -> Removed {
        let mut removed = Removed::default();
        let mut exchanges: Vec<Text> = exchange.into_iter().cloned().collect();
        let mut is_first = true;
        while is_first || !exchanges.is_empty() {
            let is_end = |spec: &BindingSpec| {
                exchanges
                    .iter()
                    .any(|name| spec.source == *name || spec.destination == Destination::Exchange(name.clone()))
            };
            let gone: Vec<_> = self.bindings.extract_if(.., |spec| is_first && goes(spec) || is_end(spec)).collect();
            for name in exchanges.drain(..) {
                removed.exchanges.extend(self.exchanges.remove_entry(&name));
            }
            let done = |name: &Text| {
                self.exchanges.get(name).is_some_and(|exchange| exchange.auto_delete)
                    && self.bindings.iter().all(|spec| spec.source != *name)
            };
            let sources: BTreeSet<Text> = gone.iter().map(|spec| spec.source.clone()).collect();
            exchanges = sources.into_iter().filter(done).collect();
            removed.bindings.extend(gone);
            is_first = false;
        }
        removed
    }
}

fn one<T: Clone>(chance: &mut StdRng, of: &[T]) -> T {
    of[chance.random_range(0..of.len())].clone()
}

fn random_settings(chance: &mut StdRng) -> ExchangeSettings {
    use ExchangeKind::{Direct, Fanout, Headers, Topic};
    ExchangeSettings {
        kind: one(chance, &[Direct, Fanout, Topic, Topic, Headers]),
        durable: chance.random(),
        auto_delete: chance.random_bool(0.3),
        internal: false,
        alternate: chance.random_bool(0.3).then(|| text(one(chance, &EXCHANGES))),
        arguments: text(""),
    }
}

fn random_spec(chance: &mut StdRng) -> BindingSpec {
    let destination = match chance.random_bool(0.3) {
        true => Destination::Exchange(text(one(chance, &EXCHANGES))),
        false => Destination::Queue(QueueNumber(chance.random_range(0..QUEUES))),
    };
    let wanted = (0..chance.random_range(0..3)).map(|_| {
        let value = chance.random_bool(0.6).then(|| one(chance, &VALUES).into());
        (text(one(chance, &NAMES)), value)
    });
    let wanted = wanted.collect();
    let rule = HeaderRule { mode: one(chance, &[HeaderMode::All, HeaderMode::Any]), with_x: chance.random(), wanted };
    BindingSpec {
        source: text(one(chance, &EXCHANGES)),
        destination,
        key: text(one(chance, &KEYS)),
        arguments: text(one(chance, &ARGUMENTS)),
        rule: chance.random_bool(0.7).then_some(rule),
    }
}

fn sorted(mut removed: Removed) -> Removed {
    removed.exchanges.sort_by_key(|(name, _)| name.clone());
    removed.bindings.sort_by_key(|spec| format!("{spec:?}"));
    removed
}

/// One change to both. Gives what was removed, in the router's order.
fn change(chance: &mut StdRng, router: &mut Router, model: &mut Model) -> Removed {
    let (removed, expected) = match chance.random_range(0..100) {
        0..12 => {
            let (name, settings) = (text(one(chance, &EXCHANGES)), random_settings(chance));
            router.put_exchange(&name, settings.clone());
            model.exchanges.insert(name, settings);
            Default::default()
        }
        12..70 => {
            let spec = random_spec(chance);
            assert_eq!(router.bind(spec.clone()).is_none(), model.bind(&spec));
            Default::default()
        }
        70..92 => {
            let spec = match model.bindings.is_empty() || chance.random_bool(0.1) {
                true => random_spec(chance),
                false => BindingSpec { rule: None, ..one(chance, &model.bindings) },
            };
            let known = model.bindings.iter().find(|known| is_same(known, &spec));
            assert_eq!(router.binding(&spec), known);
            let is_known = known.is_some();
            let removed = router.unbind(&spec);
            assert_eq!(removed.is_some(), is_known);
            (removed.unwrap_or_default(), model.remove(None, |known| is_same(known, &spec)))
        }
        92..97 => {
            let number = QueueNumber(chance.random_range(0..QUEUES));
            let is_to = |spec: &BindingSpec| spec.destination == Destination::Queue(number);
            (router.remove_queue(number), model.remove(None, is_to))
        }
        _ => {
            let name = text(one(chance, &EXCHANGES));
            (router.remove_exchange(&name), model.remove(Some(&name), |_| false))
        }
    };
    assert_eq!(sorted(removed.clone()), sorted(expected));
    removed
}

fn check(chance: &mut StdRng, router: &Router, model: &Model) {
    assert!(router.exchanges().eq(model.exchanges.iter().map(|(name, settings)| (&**name, settings))));
    let bindings = |all: Vec<BindingSpec>| sorted(Removed { exchanges: vec![], bindings: all }).bindings;
    assert_eq!(bindings(router.bindings().cloned().collect()), bindings(model.bindings.clone()));
    let keys: Vec<&[u8]> = (0..chance.random_range(0..3)).map(|_| one(chance, &KEYS).as_bytes()).collect();
    let given = (0..chance.random_range(0..3)).map(|_| (one(chance, &NAMES).as_bytes(), one(chance, &VALUES)));
    let given = Given(given.collect());
    for name in EXCHANGES {
        let (mut out, mut expected) = (Vec::new(), BTreeSet::new());
        let routing = router.route(name.as_bytes(), &keys, Some(&given), &mut out);
        model.route(name.as_bytes(), &keys, &given, &mut BTreeSet::new(), &mut expected);
        assert_eq!(routing == Routing::NoSuchExchange, !model.exchanges.contains_key(name.as_bytes()));
        assert_eq!(routing == Routing::Routed, !expected.is_empty());
        assert!(
            out.iter().map(|number| number.0).eq(expected.iter().copied()),
            "{name} {keys:?}: {out:?} {expected:?}"
        );
        let name = text(name);
        assert_eq!(router.depends_on_headers(&name), model.depends_on_headers(&name, &mut BTreeSet::new()));
        assert_eq!(router.has_bindings(&name), model.bindings.iter().any(|spec| spec.source == name));
    }
}

/// What a history leads to, in the order in which it is told.
fn history(seed: u64) -> (Vec<Removed>, Vec<BindingSpec>) {
    let mut chance = StdRng::seed_from_u64(seed);
    let (mut router, mut model) = (Router::default(), Model::default());
    let mut removed = Vec::new();
    for name in EXCHANGES {
        let settings = random_settings(&mut chance);
        router.put_exchange(name.as_bytes(), settings.clone());
        model.exchanges.insert(text(name), settings);
    }
    for _ in 0..STEPS {
        removed.push(change(&mut chance, &mut router, &mut model));
        check(&mut chance, &router, &model);
    }
    (removed, router.bindings().cloned().collect())
}

#[test]
fn random_histories_lead_where_the_model_says() {
    (0..SEEDS).for_each(|seed| {
        // So that the seed is known where a history breaks.
        let told = std::panic::catch_unwind(|| history(seed));
        assert!(told.is_ok(), "seed {seed}");
    });
}

#[test]
fn equal_histories_are_told_in_equal_order() {
    (0..100).for_each(|seed| assert_eq!(history(seed), history(seed), "seed {seed}"));
}
