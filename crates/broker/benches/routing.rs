//! Routing alone: how many bindings a virtual host takes and gives up in a second of one core's time, whatever else runs on the machine,
//! how many messages find their queues, and the memory of a binding, with what it was told and the entry of its queue.
//!
//! `cargo bench -p broker --bench routing`

#![allow(missing_docs, clippy::expect_used, reason = "a measurement: what goes wrong ends it")]

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;

use base::QueueNumber;
use broker::{
    BindingSpec, Destination, ExchangeKind, ExchangeSettings, HeaderMode, HeaderRule, Headers, Router, Routing,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXCHANGE: &[u8] = b"measured";
const BINDINGS: u32 = 1_000_000;
const MESSAGES: u32 = 2_000_000;
/// Messages go to so many queues in all, if they go to many each.
const QUEUES_MAX: usize = 20_000_000;
/// Queues of a small exchange.
const FEW: u32 = 10;
/// Bindings made at once, and keys: as few as count for nothing in memory.
const BATCH: u32 = 10_000;

type Pattern = fn(u32) -> String;

/// Each runs in a process of its own: memory that another one has had would be taken again.
const LARGE: &[(&str, ExchangeKind, Pattern)] = &[
    ("direct, a key for each queue", ExchangeKind::Direct, device_key),
    ("topic, 5 words, no wildcards", ExchangeKind::Topic, device_key),
    ("topic, a tenth each with *, with # at the end, with both", ExchangeKind::Topic, device_pattern),
    ("topic, 1 M unlike first words", ExchangeKind::Topic, |at| format!("{at:x}.state")),
    ("topic, 1000 patterns of 1000 queues each", ExchangeKind::Topic, |at| format!("shop.*.order-{}.#", at % 1000)),
];

fn main() {
    let case = std::env::args().find_map(|argument| argument.strip_prefix("--case=")?.parse::<usize>().ok());
    if let Some(case) = case {
        return large(LARGE[case]);
    }
    println!(
        "{:<58} {:>8} {:>10} {:>9} {:>9} {:>7}",
        "1 M bindings", "M bind/s", "M unbind/s", "M route/s", "bytes", "queues"
    );
    for case in 0..LARGE.len() {
        let mut own = Command::new(std::env::current_exe().expect("this program"));
        assert!(own.arg(format!("--case={case}")).status().expect("it starts").success());
    }
    println!("\n{:<58} {:>9} {:>7}", "few bindings", "M route/s", "queues");
    small("direct, 10 queues, each by its key", ExchangeKind::Direct, FEW, |at| format!("key-{at}"));
    small("direct, 10 queues by one key", ExchangeKind::Direct, FEW, |_| "key-0".to_owned());
    small("topic, 10 queues by *.key.#", ExchangeKind::Topic, FEW, |_| "*.key.#".to_owned());
    for queues in [1, 10, 100, 1000] {
        small(&format!("fanout, {queues} queues"), ExchangeKind::Fanout, queues, |_| String::new());
    }
    for rules in [1, 10, 100, 1000] {
        headers(rules);
    }
}

/// As millions a second.
fn rate(count: u32, took: Duration) -> f64 {
    f64::from(count) / took.as_secs_f64() / 1e6
}

/// One core's time for something.
fn time(act: impl FnOnce()) -> Duration {
    let began = core_time();
    act();
    core_time() - began
}

fn chance(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) as u32
}

fn settings(kind: ExchangeKind) -> ExchangeSettings {
    let (durable, auto_delete, internal) = (true, false, false);
    ExchangeSettings { kind, durable, auto_delete, internal, alternate: None, arguments: Box::default() }
}

fn binding(at: u32, key: &str, rule: Option<HeaderRule>) -> BindingSpec {
    let (destination, key) = (Destination::Queue(QueueNumber(at)), key.as_bytes().into());
    BindingSpec { source: EXCHANGE.into(), destination, key, arguments: Box::default(), rule }
}

fn device_key(at: u32) -> String {
    format!("region-{}.site-{}.device.{at}.{}", at % 10, at % 1000, ["state", "alarm"][(at % 2) as usize])
}

fn device_pattern(at: u32) -> String {
    let key = device_key(at);
    match at % 10 {
        0 => key.replace("device", "*"),
        1 => key.replace("state", "#").replace("alarm", "#"),
        2 => key.replace("device", "*").replace("state", "#").replace("alarm", "#"),
        _ => key,
    }
}

/// Has something done with every binding, in the order of these numbers.
fn each_batch(order: &[u32], pattern: Pattern, act: impl Fn(Vec<BindingSpec>)) -> Duration {
    let batches = order.chunks(BATCH as usize);
    let specs = batches.map(|batch| batch.iter().map(|at| binding(*at, &pattern(*at), None)).collect());
    specs.map(|specs| time(|| act(specs))).sum()
}

fn large((what, kind, pattern): (&str, ExchangeKind, Pattern)) {
    let mut state = 7;
    let mut order: Vec<u32> = (0..BINDINGS).collect();
    let mut router = Router::default();
    router.put_exchange(EXCHANGE, settings(kind));
    let before = resident_size();
    let router = RefCell::new(router);
    let bind = |specs: Vec<_>| specs.into_iter().for_each(|spec| assert!(router.borrow_mut().bind(spec).is_none()));
    let bind = each_batch(&order, pattern, bind);
    let size = (resident_size() - before) / f64::from(BINDINGS);

    let (mut out, mut queues, mut count, mut route) = (Vec::new(), 0, 0, Duration::ZERO);
    while count < MESSAGES && queues < QUEUES_MAX {
        let keys: Vec<_> = (0..BATCH).map(|_| message_key(&pattern(chance(&mut state) % BINDINGS))).collect();
        route += time(|| {
            for key in &keys {
                out.clear();
                assert_eq!(router.borrow().route(EXCHANGE, &[key.as_bytes()], None, &mut out), Routing::Routed);
                queues += out.len();
            }
        });
        count += BATCH;
    }

    for at in (1..order.len()).rev() {
        order.swap(at, chance(&mut state) as usize % (at + 1));
    }
    let unbind = |specs: Vec<_>| assert!(specs.iter().all(|spec| router.borrow_mut().unbind(spec).is_some()));
    let unbind = each_batch(&order, pattern, unbind);
    let (bind, unbind, route) = (rate(BINDINGS, bind), rate(BINDINGS, unbind), rate(count, route));
    let queues = queues as f64 / f64::from(count);
    println!("{what:<58} {bind:>8.2} {unbind:>10.2} {route:>9.3} {size:>9.0} {queues:>7.1}");
}

/// A key that a pattern matches.
fn message_key(pattern: &str) -> String {
    pattern.replace('*', "any").replace('#', "some.more")
}

fn small(what: &str, kind: ExchangeKind, queues: u32, pattern: impl Fn(u32) -> String) {
    let mut router = Router::default();
    router.put_exchange(EXCHANGE, settings(kind));
    for at in 0..queues {
        assert!(router.bind(binding(at, &pattern(at), None)).is_none());
    }
    let key = message_key(&pattern(0));
    report(what, &router, key.as_bytes(), None, queues);
}

fn report(what: &str, router: &Router, key: &[u8], headers: Option<&dyn Headers>, cost: u32) {
    let (mut out, mut queues) = (Vec::new(), 0);
    let count = MESSAGES / cost.div_ceil(10);
    let took = time(|| {
        for _ in 0..count {
            out.clear();
            router.route(EXCHANGE, &[std::hint::black_box(key)], headers, &mut out);
            queues += out.len();
        }
    });
    println!("{what:<58} {:>9.3} {:>7.1}", rate(count, took), queues as f64 / f64::from(count));
}

struct Given(Vec<(&'static [u8], Vec<u8>)>);

impl Headers for Given {
    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }
}

/// Rules that ask for two headers, of which one message has both of one rule.
fn headers(rules: u32) {
    let number = |at: u32| [b"I", &at.to_be_bytes()[..]].concat();
    let mut router = Router::default();
    router.put_exchange(EXCHANGE, settings(ExchangeKind::Headers));
    for at in 0..rules {
        let wanted = vec![(b"kind"[..].into(), None), (b"customer"[..].into(), Some(number(at).into()))];
        let rule = HeaderRule { mode: HeaderMode::All, with_x: false, wanted };
        assert!(router.bind(binding(at, "", Some(rule))).is_none());
    }
    let given = Given(vec![(b"other", number(1)), (b"kind", b"t\x01".to_vec()), (b"customer", number(rules / 2))]);
    report(&format!("headers, {rules} rules of two headers each"), &router, b"", Some(&given), rules);
}

/// For how long this process, which has one thread, was on a core.
fn core_time() -> Duration {
    let status = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    Duration::from_nanos(status.split(' ').next().and_then(|time| time.parse().ok()).expect("a number"))
}

/// Bytes of this process that are in memory.
fn resident_size() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
}
