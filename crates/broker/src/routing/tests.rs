//! The rules one by one, and random histories held against a model that looks at every binding each time.

pub(super) mod histories;

use super::*;

pub(super) fn text(text: &str) -> Text {
    text.as_bytes().into()
}

pub(super) fn settings(kind: ExchangeKind) -> ExchangeSettings {
    let (durable, auto_delete, internal) = (true, false, false);
    ExchangeSettings { kind, durable, auto_delete, internal, alternate: None, arguments: text("") }
}

fn brief(kind: ExchangeKind) -> ExchangeSettings {
    ExchangeSettings { auto_delete: true, ..settings(kind) }
}

fn with_alternate(kind: ExchangeKind, name: &str) -> ExchangeSettings {
    ExchangeSettings { alternate: Some(text(name)), ..settings(kind) }
}

fn router(exchanges: &[(&str, ExchangeSettings)]) -> Router {
    let mut router = Router::default();
    for (name, settings) in exchanges {
        router.put_exchange(name.as_bytes(), settings.clone());
    }
    router
}

fn to_queue(source: &str, key: &str, number: u32) -> BindingSpec {
    let destination = Destination::Queue(QueueNumber(number));
    BindingSpec { source: text(source), destination, key: text(key), arguments: text(""), rule: None }
}

fn to_exchange(source: &str, key: &str, name: &str) -> BindingSpec {
    BindingSpec { destination: Destination::Exchange(text(name)), ..to_queue(source, key, 0) }
}

fn with_arguments(spec: BindingSpec, arguments: &str) -> BindingSpec {
    BindingSpec { arguments: text(arguments), ..spec }
}

fn bind(router: &mut Router, specs: impl IntoIterator<Item = BindingSpec>) {
    specs.into_iter().for_each(|spec| assert_eq!(router.bind(spec), None));
}

/// `None`: there is no such exchange.
fn routed(router: &Router, exchange: &str, keys: &[&str]) -> Option<Vec<u32>> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let mut out = vec![QueueNumber(99), QueueNumber(1)];
    let routing = router.route(exchange.as_bytes(), &keys, None, &mut out);
    assert_eq!(out[..2], [QueueNumber(99), QueueNumber(1)], "what was there is kept");
    let out: Vec<u32> = out[2..].iter().map(|number| number.0).collect();
    assert_eq!(out.is_empty(), routing != Routing::Routed);
    (routing != Routing::NoSuchExchange).then_some(out)
}

fn names(removed: &Removed) -> Vec<&str> {
    removed.exchanges.iter().map(|(name, _)| str::from_utf8(name).expect("a name")).collect()
}

#[test]
fn each_kind_chooses_in_its_way() {
    use ExchangeKind::{Direct, Fanout, Headers, Topic};
    let mut router = router(&[
        ("direct", settings(Direct)),
        ("fanout", settings(Fanout)),
        ("topic", settings(Topic)),
        ("headers", settings(Headers)),
    ]);
    for exchange in ["direct", "fanout", "topic", "headers"] {
        bind(&mut router, [to_queue(exchange, "a.b", 1), to_queue(exchange, "a.*", 2), to_queue(exchange, "c", 3)]);
    }
    assert_eq!(routed(&router, "direct", &["a.b"]), Some(vec![1]));
    assert_eq!(routed(&router, "direct", &["a.*"]), Some(vec![2]));
    assert_eq!(routed(&router, "direct", &[""]), Some(vec![]));
    assert_eq!(routed(&router, "topic", &["a.b"]), Some(vec![1, 2]));
    assert_eq!(routed(&router, "fanout", &["whatever"]), Some(vec![1, 2, 3]));
    assert_eq!(routed(&router, "headers", &["whatever"]), Some(vec![1, 2, 3]), "nothing is asked for");
    assert_eq!(routed(&router, "other", &["a.b"]), None);
    assert_eq!(routed(&router, "", &["a.b"]), None, "the default exchange is the caller's");
}

#[test]
fn a_queue_gets_a_message_once_whatever_leads_there() {
    for kind in [ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Fanout] {
        let mut router = router(&[("x", settings(kind)), ("y", settings(ExchangeKind::Fanout))]);
        bind(&mut router, [to_queue("x", "a", 7), to_queue("x", "b", 7), to_queue("x", "b", 3)]);
        bind(&mut router, [with_arguments(to_queue("x", "a", 7), "other"), to_queue("y", "", 7)]);
        bind(&mut router, [to_exchange("x", "a", "y"), to_exchange("x", "b", "y")]);
        assert_eq!(routed(&router, "x", &["a", "b", "a"]), Some(vec![3, 7]));
    }
}

#[test]
fn messages_go_round_once() {
    let mut router = router(&["a", "b", "c"].map(|name| (name, settings(ExchangeKind::Fanout))));
    bind(&mut router, [to_exchange("a", "", "b"), to_exchange("b", "", "c"), to_exchange("c", "", "a")]);
    bind(&mut router, [to_exchange("a", "", "a"), to_queue("a", "", 1), to_queue("c", "", 3)]);
    for exchange in ["a", "b", "c"] {
        assert_eq!(routed(&router, exchange, &["k"]), Some(vec![1, 3]));
    }
    // A long way too, and one with many branches.
    bind(&mut router, [to_queue("b", "", 5)]);
    for at in 0..100 {
        let name = format!("n{at}");
        router.put_exchange(name.as_bytes(), settings(ExchangeKind::Fanout));
        bind(&mut router, [to_exchange(&name, "", "a"), to_exchange("b", "", &name), to_queue(&name, "", 10 + at)]);
    }
    let all: Vec<u32> = [1, 3, 5].into_iter().chain(10..110).collect();
    assert_eq!(routed(&router, "a", &["k"]), Some(all));
}

#[test]
fn the_alternate_exchange_gets_what_nothing_matches() {
    use ExchangeKind::{Direct, Fanout};
    let mut router = router(&[
        ("x", with_alternate(Direct, "y")),
        ("y", with_alternate(Direct, "z")),
        ("z", settings(Fanout)),
        ("dead end", settings(Direct)),
        ("round", with_alternate(Direct, "round")),
        ("lost", with_alternate(Direct, "nobody")),
    ]);
    bind(&mut router, [to_queue("x", "x", 1), to_queue("y", "y", 2), to_queue("z", "", 3)]);
    bind(&mut router, [to_exchange("x", "dead", "dead end")]);
    assert_eq!(routed(&router, "x", &["x"]), Some(vec![1]));
    assert_eq!(routed(&router, "x", &["y"]), Some(vec![2]));
    assert_eq!(routed(&router, "x", &["other"]), Some(vec![3]), "the alternate one of the alternate one");
    assert_eq!(routed(&router, "x", &["x", "y"]), Some(vec![1]), "one key of several matches");
    assert_eq!(routed(&router, "x", &["dead"]), Some(vec![]), "it matches, though it leads nowhere");
    assert_eq!(routed(&router, "round", &["a"]), Some(vec![]));
    assert_eq!(routed(&router, "lost", &["a"]), Some(vec![]));
    router.put_exchange(b"nobody", settings(Fanout));
    bind(&mut router, [to_queue("nobody", "", 9)]);
    assert_eq!(routed(&router, "lost", &["a"]), Some(vec![9]), "it may come later");
    // One on the way has an alternate one of its own.
    router.put_exchange(b"dead end", with_alternate(Direct, "z"));
    assert_eq!(routed(&router, "x", &["dead"]), Some(vec![3]));
}

#[test]
fn the_rule_is_not_part_of_what_a_binding_is() {
    let mut router = router(&[("x", settings(ExchangeKind::Headers))]);
    let rule = HeaderRule { mode: HeaderMode::Any, with_x: false, wanted: vec![(text("a"), None)] };
    let plain = with_arguments(to_queue("x", "k", 1), "arguments");
    let asked = BindingSpec { rule: Some(rule), ..plain.clone() };
    assert_eq!(router.bind(asked.clone()), None);
    assert_eq!(router.binding(&plain), Some(&asked));
    assert_eq!(router.bind(plain.clone()), Some(plain.clone()), "it is there");
    for other in [
        to_queue("x", "k", 1),
        with_arguments(to_queue("x", "l", 1), "arguments"),
        with_arguments(to_queue("x", "k", 2), "arguments"),
        with_arguments(to_queue("y", "k", 1), "arguments"),
        with_arguments(to_exchange("x", "k", "x"), "arguments"),
    ] {
        assert!(router.binding(&other).is_none() && router.unbind(&other).is_none());
    }
    assert_eq!(routed(&router, "x", &["k"]), Some(vec![]));
    struct A;
    impl Headers for A {
        fn get(&self, name: &[u8]) -> Option<&[u8]> {
            (name == b"a").then_some(b"V")
        }
    }
    let mut out = Vec::new();
    assert_eq!((router.route(b"x", &[], Some(&A), &mut out), &*out), (Routing::Routed, &[QueueNumber(1)][..]));
    assert_eq!(router.unbind(&plain), Some(Removed { exchanges: vec![], bindings: vec![asked] }));
    assert_eq!((router.bindings().count(), router.has_bindings(b"x")), (0, false));
}

#[test]
fn a_binding_leads_from_what_is_there_to_what_is_there() {
    let mut router = router(&[("x", settings(ExchangeKind::Fanout))]);
    for spec in [to_queue("y", "", 1), to_exchange("x", "", "y"), to_exchange("y", "", "x")] {
        assert_eq!(router.bind(spec.clone()), Some(spec));
    }
    assert_eq!(router.bindings().count(), 0);
    assert_eq!(router.remove_exchange(b"y"), Removed::default());
    assert_eq!(router.remove_queue(QueueNumber(1)), Removed::default());
}

#[test]
fn an_exchange_takes_its_bindings_along() {
    use ExchangeKind::{Direct, Fanout, Topic};
    let mut router = router(&[("a", settings(Topic)), ("b", settings(Direct)), ("c", settings(Fanout))]);
    let stay = [to_queue("a", "k", 1), to_exchange("c", "", "a")];
    let go =
        [to_exchange("b", "k", "b"), to_exchange("b", "k", "c"), to_queue("b", "l", 2), to_exchange("a", "#", "b")];
    bind(&mut router, stay.iter().chain(&go).cloned());
    let removed = router.remove_exchange(b"b");
    assert_eq!(removed.exchanges, [(text("b"), settings(Direct))]);
    assert!(removed.bindings.len() == go.len() && go.iter().all(|spec| removed.bindings.contains(spec)));
    assert!(router.bindings().eq(&stay));
    assert_eq!(routed(&router, "c", &["k"]), Some(vec![1]));
    assert_eq!((router.exchange(b"b"), router.has_bindings(b"b")), (None, false));
    // What comes under its name is another one.
    router.put_exchange(b"b", settings(Direct));
    assert_eq!(routed(&router, "b", &["l"]), Some(vec![]));
}

#[test]
fn an_exchange_goes_with_its_last_binding_if_it_is_to() {
    use ExchangeKind::Fanout;
    let mut router =
        router(&[("a", brief(Fanout)), ("b", brief(Fanout)), ("c", settings(Fanout)), ("d", brief(Fanout))]);
    bind(
        &mut router,
        [to_queue("a", "", 1), to_queue("a", "", 2), to_exchange("b", "", "a"), to_exchange("c", "", "b")],
    );
    assert_eq!(names(&router.unbind(&to_queue("a", "", 1)).expect("it was there")), [""; 0]);
    let removed = router.remove_queue(QueueNumber(2));
    assert_eq!(names(&removed), ["a", "b"], "one after the other");
    assert_eq!(removed.bindings, [to_queue("a", "", 2), to_exchange("b", "", "a"), to_exchange("c", "", "b")]);
    assert!(router.exchange(b"c").is_some(), "it is to stay");
    assert!(router.exchange(b"d").is_some(), "it never had a binding");
    // Bindings to it do not count.
    bind(&mut router, [to_exchange("c", "", "d")]);
    assert_eq!(names(&router.unbind(&to_exchange("c", "", "d")).expect("it was there")), [""; 0]);
    bind(&mut router, [to_exchange("d", "", "d")]);
    assert_eq!(names(&router.unbind(&to_exchange("d", "", "d")).expect("it was there")), ["d"]);
}

#[test]
fn a_long_row_of_exchanges_goes_at_once() {
    let name = |at: u32| format!("x{at}");
    let mut router = Router::default();
    for at in 0..100_000 {
        router.put_exchange(name(at).as_bytes(), brief(ExchangeKind::Fanout));
    }
    bind(&mut router, (1..100_000).map(|at| to_exchange(&name(at), "", &name(at - 1))));
    bind(&mut router, [to_queue("x0", "", 1)]);
    assert_eq!(routed(&router, "x99999", &[""]), Some(vec![1]));
    let removed = router.remove_queue(QueueNumber(1));
    assert_eq!((removed.exchanges.len(), removed.bindings.len()), (100_000, 100_000));
    assert_eq!((router.exchanges().count(), router.bindings().count()), (0, 0));
}

#[test]
fn what_is_told_again_keeps_its_bindings() {
    let mut router = router(&[("x", settings(ExchangeKind::Fanout))]);
    bind(
        &mut router,
        [to_queue("x", "a", 1), to_queue("x", "b", 2), to_queue("x", "*", 3), to_exchange("x", "a", "x")],
    );
    for (kind, expected) in [
        (ExchangeKind::Fanout, vec![1, 2, 3]),
        (ExchangeKind::Direct, vec![1]),
        (ExchangeKind::Topic, vec![1, 3]),
        (ExchangeKind::Headers, vec![1, 2, 3]),
    ] {
        router.put_exchange(b"x", with_alternate(kind, "y"));
        assert_eq!(router.exchange(b"x"), Some(&with_alternate(kind, "y")));
        assert_eq!(routed(&router, "x", &["a"]), Some(expected));
    }
    assert_eq!(router.remove_exchange(b"x").bindings.len(), 4);
}

#[test]
fn headers_count_if_they_do_anywhere_on_the_way() {
    use ExchangeKind::{Direct, Headers, Topic};
    let mut router = router(&[
        ("a", settings(Direct)),
        ("b", settings(Topic)),
        ("c", with_alternate(Direct, "h")),
        ("h", settings(Headers)),
    ]);
    let depends = |router: &Router| ["a", "b", "c", "h", "none"].map(|name| router.depends_on_headers(name.as_bytes()));
    assert_eq!(depends(&router), [false, false, true, true, false]);
    let twice = with_arguments(to_exchange("b", "k", "c"), "again");
    bind(
        &mut router,
        [to_exchange("a", "k", "b"), to_exchange("b", "k", "a"), to_exchange("b", "k", "c"), twice.clone()],
    );
    assert_eq!(depends(&router), [true, true, true, true, false]);
    assert!(router.unbind(&twice).is_some());
    assert_eq!(depends(&router), [true, true, true, true, false]);
    assert!(router.unbind(&to_exchange("b", "k", "c")).is_some());
    assert_eq!(depends(&router), [false, false, true, true, false]);
    router.remove_exchange(b"h");
    assert_eq!(depends(&router), [false; 5]);
}

#[test]
fn exchanges_are_sorted_and_many_threads_may_route() {
    const fn shared<T: Send + Sync>() {}
    const { shared::<Router>() };
    let router = router(&["b", "", "a.b", "a"].map(|name| (name, settings(ExchangeKind::Topic))));
    assert!(router.exchanges().map(|(name, _)| name).eq([&b""[..], b"a", b"a.b", b"b"]));
}
