//! Promises to those who look for single messages.

use wire::rocketmq::code::{request, response};

use crate::bench::{Bench, START};
use crate::client::{Ask, Client, ask, send};

/// Everything with a key, at most so many.
fn by_key(key: &str, count_max: i32) -> Ask {
    ask(request::QUERY_MESSAGE, &[("topic", "orders"), ("key", key)])
        .with("maxNum", count_max)
        .with("beginTimestamp", 0)
        .with("endTimestamp", START.wall.0 + 1_000_000)
}

/// A client that has sent so many messages, each with one key and one unique id.
fn sender(bench: &Bench, count: usize) -> Client {
    let mut client = bench.client();
    for number in 0..count {
        let keyed = send("orders", &number.to_string()).with("i", "KEYS\u{1}red\u{2}UNIQ_KEY\u{1}id\u{2}");
        client.ask_well(keyed);
    }
    bench.broker.store().index_staged().expect("indexes");
    client
}

#[test]
fn by_key_come_as_many_as_asked_for_up_to_the_bound_and_no_more() {
    let bench = Bench::new();
    let mut client = sender(&bench, 70);
    for (asked, count) in [(1, 1), (5, 5), (33, 33), (64, 64), (65, 64), (1000, 64)] {
        let bodies = client.ask_well(by_key("red", asked)).bodies();
        let newest: Vec<_> = (0..count).map(|back| (69 - back).to_string()).collect();
        assert_eq!(bodies, newest, "{asked}");
    }
    assert_eq!(client.ask(by_key("blue", 5)).code, response::QUERY_NOT_FOUND);
}

#[test]
fn by_unique_id_the_broker_says_how_many() {
    let bench = Bench::new();
    let mut client = sender(&bench, 70);
    for asked in [1, 40, 64] {
        let found = client.ask_well(by_key("id", asked).with("_UNIQUE_KEY_QUERY", true));
        assert_eq!(found.bodies().len(), 32, "{asked}");
    }
}
