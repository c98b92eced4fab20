//! A broker's JSON documents, damaged or made by somebody else.

use std::path::Path;

use testkit::at;

use crate::taker::Taker;
use crate::{scratch, session};

/// Documents under `config/`.
const NAMES: &[&str] = &["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"];

/// The broker refuses to start, or it works and starts again from what it wrote.
pub fn run(data: &[u8]) {
    let directory = scratch::directory();
    let mut taker = Taker::new(data);
    let name = *taker.choice(NAMES);
    scratch::write(directory.path(), &Path::new("config").join(name), taker.all());
    let open = || session::open_broker(scratch::store_options(directory.path()));
    let Ok(broker) = open() else { return };
    let now = at(1_700_000_000_000);
    broker.expire(now);
    broker.save(now).expect("documents are written");
    broker.close(now).expect("an orderly stop");
    drop(broker);
    open().expect("a broker that opens what it wrote");
}

/// Documents as official brokers write them.
pub fn seeds() -> Vec<Vec<u8>> {
    let documents = [
        r#"{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":5},"topicConfigTable":{"t":{"attributes":{"+a":"b"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4},"%RETRY%g":{"topicName":null,"perm":2}}}"#,
        r#"{"dataVersion":{"counter":1},"forbiddenTable":{},"subscriptionGroupTable":{"g":{"brokerId":0,"consumeEnable":true,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}}}"#,
        r#"{"dataVersion":{"counter":1},"offsetTable":{"t@g":{0:12,1:-3,"2":9223372036854775807},"x":{}}}"#,
        r#"{"dataVersion":{"counter":1},"offsetTable":{1:0,2:3,"99":5}}"#,
    ];
    let with_name = |(number, text): (usize, &&str)| [&[number as u8], text.as_bytes()].concat();
    documents.iter().enumerate().map(with_name).collect()
}
