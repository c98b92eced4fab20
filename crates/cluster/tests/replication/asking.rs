//! What a slave asks its master, and tells it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use base::session::Session;
use base::{LogOffset, Now, QueueOffset};
use bytes::{Bytes, BytesMut};
use cluster::replication::{FollowerState, MasterSession, Newest, Owed, Place, Settled};
use format::document::GroupDocument;
use format::master_tables::MasterTables;
use format::model::{ModelChange, VirtualHostSettings};
use format::state::{self, StateChange};
use format::state_documents::StateDocuments;
use parking_lot::Mutex;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{self, Command, FLAG_RESPONSE, Form, Header, Language};

use crate::{START, Woken};

#[derive(Default)]
struct Slave {
    end: AtomicU64,
    newest: Option<Newest>,
    owed: Mutex<VecDeque<Owed>>,
    taken: Mutex<Vec<MasterTables>>,
    told: Mutex<Vec<Settled>>,
    ready: Mutex<Vec<Range<LogOffset>>>,
}

impl FollowerState for Slave {
    fn end(&self) -> LogOffset {
        LogOffset(self.end.load(Ordering::SeqCst))
    }

    fn newest(&self) -> Result<Option<Newest>, String> {
        Ok(self.newest.clone())
    }

    fn owed(&self, _tables: &StateDocuments) -> Owed {
        self.owed.lock().pop_front().unwrap_or_default()
    }

    fn note_told(&self, told: &[Settled]) -> Result<(), String> {
        self.told.lock().extend_from_slice(told);
        Ok(())
    }

    fn take_tables(&self, tables: MasterTables) -> Result<(), String> {
        self.taken.lock().push(tables);
        Ok(())
    }

    fn note_ready(&self, masters: Range<LogOffset>) {
        self.ready.lock().push(masters);
    }
}

/// A request as the master reads it.
struct Asked {
    code: i32,
    opaque: i32,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

/// The slave's connection to a master of the test's.
struct Connected {
    session: MasterSession,
    woken: Arc<Woken>,
    now: Now,
}

impl Connected {
    fn of(slave: &Arc<Slave>) -> Self {
        let woken = Arc::<Woken>::default();
        let session = MasterSession::new(slave.clone(), Waker::from(woken.clone()));
        Self { session, woken, now: START }
    }

    /// What the slave asks next, once it has done what it can do by itself.
    fn asked(&mut self) -> Option<Asked> {
        self.session.wake(self.now);
        while let Some(job) = self.session.take_job() {
            job();
            assert!(self.woken.0.swap(false, Ordering::SeqCst));
            self.session.wake(self.now);
        }
        let bytes = self.session.output().take_all();
        if bytes.is_empty() {
            return None;
        }
        let command = Command::decode(&bytes).expect("one request");
        let fields = command.fields.pairs().expect("fields");
        let header = &command.header;
        Some(Asked { code: header.code, opaque: header.opaque, fields, body: command.body.to_vec() })
    }

    fn answer(&mut self, asked: &Asked, code: i32, fields: &[(&str, &str)], body: &[u8]) {
        // So a master of Java says that a table is empty.
        self.reply(asked, (code, "No subscription group in this broker"), fields, body);
    }

    fn refuse(&mut self, asked: &Asked, code: i32, remark: &str) {
        self.reply(asked, (code, remark), &[], b"");
    }

    fn reply(&mut self, asked: &Asked, (code, remark): (i32, &str), fields: &[(&str, &str)], body: &[u8]) {
        let header = Header {
            code,
            language: Language::JAVA,
            version: 493,
            opaque: asked.opaque,
            flag: FLAG_RESPONSE,
            remark: Some(remark.to_owned().into()),
        };
        let mut out = BytesMut::new();
        let write = |sink: &mut wire::rocketmq::field::FieldSink<'_>| {
            fields.iter().for_each(|(name, value)| sink.text(name, value));
        };
        frame::encode(&mut out, Form::Json, &header, write, body);
        drop(self.session.receive(&mut out, self.now));
    }

    /// Answers what is asked as a master does whose log is this long and has `newest`. Gives the codes of the requests.
    fn run(&mut self, master: &Master) -> Vec<i32> {
        let mut codes = Vec::new();
        while let Some(asked) = self.asked() {
            codes.push(asked.code);
            let position = master.position.map(|position| position.to_string());
            let fields: Vec<_> = position.iter().map(|position| ("sluiceLogPosition", position.as_str())).collect();
            match asked.code {
                request::GET_BROKER_RUNTIME_INFO => {
                    let (first, last) = master.log;
                    let table =
                        format!(r#"{{"table":{{"commitLogMinOffset":"{first}","commitLogMaxOffset":"{last}"}}}}"#);
                    self.answer(&asked, 0, &[], table.as_bytes());
                }
                request::VIEW_MESSAGE_BY_ID => match master.newest {
                    Some(record) => self.answer(&asked, 0, &[], record),
                    None => self.answer(&asked, response::SYSTEM_ERROR, &[], b""),
                },
                request::GET_ALL_TOPIC_CONFIG => {
                    self.answer(&asked, 0, &fields, br#"{"topicConfigTable":{"orders":{"readQueueNums":3}}}"#);
                }
                request::GET_ALL_CONSUMER_OFFSET => {
                    self.answer(&asked, 0, &fields, br#"{"offsetTable":{"orders@billing":{0:7}}}"#);
                }
                request::GET_ALL_DELAY_OFFSET => self.answer(&asked, 0, &fields, br#"{"offsetTable":{1:5}}"#),
                request::GET_ALL_MESSAGE_REQUEST_MODE if master.is_of_4_9 => {
                    self.answer(&asked, response::REQUEST_CODE_NOT_SUPPORTED, &[], b"");
                }
                request::GET_ALL_MESSAGE_REQUEST_MODE => {
                    let modes =
                        br#"{"messageRequestModeMap":{"orders":{"billing":{"mode":"POP","popShareQueueNum":2}}}}"#;
                    self.answer(&asked, 0, &fields, modes);
                }
                // So a master of Java says that there are none.
                request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG => {
                    self.answer(&asked, response::SYSTEM_ERROR, &fields, b"");
                }
                request::GET_ALL_UNDOCUMENTED_STATE => self.tell_state(&asked, master, &fields),
                _ => self.answer(&asked, 0, &[], b""),
            }
        }
        codes
    }

    /// A master of Java does not know the request.
    fn tell_state(&mut self, asked: &Asked, master: &Master, fields: &[(&str, &str)]) {
        let field = |name: &str| {
            let found = asked.fields.iter().find(|(known, _)| known == name);
            found.map(|(_, text)| text.parse::<u32>().expect("a number"))
        };
        let Some(parts) = master.parts else {
            return self.answer(asked, response::REQUEST_CODE_NOT_SUPPORTED, &[], b"");
        };
        let part = field("part").expect("a part");
        assert_eq!(field("parts"), (part > 0).then_some(parts), "how many there are the first answer says");
        let changes: Vec<_> = changes().into_iter().filter(|change| change.part_of(parts) == part).collect();
        let parts = parts.to_string();
        self.answer(asked, 0, &[fields, &[("parts", &parts)]].concat(), &state::encode(&changes));
    }

    fn problem(&self) -> Option<String> {
        self.session.close_reason().map(|reason| reason.0)
    }
}

#[derive(Clone, Copy)]
struct Master {
    log: (u64, u64),
    newest: Option<&'static [u8]>,
    position: Option<u64>,
    is_of_4_9: bool,
    /// In how many parts a master of ours tells its state.
    parts: Option<u32>,
}

/// What no table tells.
fn changes() -> Vec<StateChange> {
    let host = |number| ModelChange::Host(format!("host {number}"), VirtualHostSettings::default());
    (0..9).map(|number| StateChange::Model(Box::new(host(number)))).collect()
}

const MASTER: Master =
    Master { log: (1000, 9000), newest: Some(b"record"), position: None, is_of_4_9: false, parts: None };

const ROUND: [i32; 6] = [
    request::GET_ALL_TOPIC_CONFIG,
    request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG,
    request::GET_ALL_CONSUMER_OFFSET,
    request::GET_ALL_DELAY_OFFSET,
    request::GET_ALL_MESSAGE_REQUEST_MODE,
    request::GET_ALL_UNDOCUMENTED_STATE,
];

fn slave(end: u64, newest: Option<&'static [u8]>) -> Slave {
    let newest = newest.map(|record| Newest { start: LogOffset(end - 1), record: Bytes::from_static(record) });
    Slave { end: end.into(), newest, ..Slave::default() }
}

#[test]
fn a_slave_without_a_log_takes_the_tables_and_hears_which_part_of_its_log_the_master_has() {
    let slave = Arc::new(slave(0, None));
    let mut connected = Connected::of(&slave);
    let codes = connected.run(&MASTER);
    assert_eq!(codes, [&[request::GET_BROKER_RUNTIME_INFO][..], &ROUND].concat());
    assert_eq!(*slave.ready.lock(), [LogOffset(1000)..LogOffset(9000)]);
    let MasterTables { documents: tables, undocumented, position } = slave.taken.lock()[0].clone();
    assert_eq!((position, undocumented), (None, None), "no master of Java has more");
    assert_eq!(tables.topics.expect("topics").topic_config_table["orders"].read_queue_nums, 3);
    assert_eq!(tables.offsets.expect("offsets")["orders@billing"], [(0, 7)].into());
    assert_eq!((tables.delay, tables.groups), (Some([(1, 5)].into()), None));
    assert_eq!(tables.request_modes.expect("modes")["orders"]["billing"].pop_share_queue_num, 2);
}

#[test]
fn a_master_of_4_9_tells_of_no_request_modes_and_of_everything_else() {
    let slave = Arc::new(slave(0, None));
    let mut connected = Connected::of(&slave);
    connected.run(&Master { is_of_4_9: true, ..MASTER });
    assert_eq!(connected.problem(), None);
    let tables = slave.taken.lock()[0].documents.clone();
    assert_eq!((tables.delay, tables.request_modes), (Some([(1, 5)].into()), None));
}

#[test]
fn tables_are_asked_for_again_every_10_s() {
    let slave = Arc::new(slave(0, None));
    let mut connected = Connected::of(&slave);
    connected.run(&MASTER);
    connected.now = connected.now.plus_ms(9_999);
    assert_eq!(connected.run(&MASTER), [0; 0]);
    connected.now = connected.now.plus_ms(1);
    let again = &ROUND[..5];
    assert_eq!(
        connected.run(&MASTER),
        [&[request::GET_BROKER_RUNTIME_INFO][..], again].concat(),
        "the log tells the rest"
    );
    assert_eq!(slave.taken.lock().len(), 2);
}

#[test]
fn what_no_table_tells_comes_in_as_many_parts_as_the_master_says() {
    for parts in [1, 3, 20] {
        let slave = Arc::new(slave(0, None));
        let mut connected = Connected::of(&slave);
        let codes = connected.run(&Master { position: Some(8000), parts: Some(parts), ..MASTER });
        assert_eq!(connected.problem(), None);
        assert_eq!(codes.iter().filter(|code| **code == request::GET_ALL_UNDOCUMENTED_STATE).count(), parts as usize);
        let mut told = slave.taken.lock()[0].undocumented.clone().expect("told");
        told.sort_by_key(ToString::to_string);
        assert_eq!(told, changes());
    }
}

#[test]
fn tables_of_a_sluice_master_say_which_part_of_the_log_is_in_them() {
    let slave = Arc::new(slave(0, None));
    Connected::of(&slave).run(&Master { position: Some(8000), ..MASTER });
    assert_eq!(slave.taken.lock()[0].position, Some(LogOffset(8000)));
}

#[test]
fn only_the_log_that_the_master_has_is_followed() {
    let same = (slave(5000, Some(b"record")), MASTER);
    let other = (slave(5000, Some(b"another")), MASTER);
    let gone = (slave(5000, Some(b"record")), Master { newest: None, ..MASTER });
    let ahead = (slave(9001, Some(b"record")), MASTER);
    let behind = (slave(999, Some(b"record")), MASTER);
    // Its newest message is older than what the master still has, and what comes behind is not.
    let quiet = (slave(5000, Some(b"record")), Master { newest: None, log: (5000, 9000), ..MASTER });
    for ((slave, master), expected) in [
        (same, None),
        (quiet, None),
        (other, Some("not the one that the master has there")),
        (gone, Some("the master does not give the message at 4999")),
        (ahead, Some("the master's log ends at 9000, and this one at 9001")),
        (behind, Some("the master's log begins at 1000 by now, and this one ends at 999")),
    ] {
        let slave = Arc::new(slave);
        let mut connected = Connected::of(&slave);
        connected.run(&master);
        match expected {
            None => assert_eq!((connected.problem(), slave.ready.lock().len()), (None, 1)),
            Some(expected) => {
                let problem = connected.problem().expect("it is told");
                assert!(problem.contains(expected) && problem.to_lowercase().contains("empt"), "{problem}");
                assert!(slave.ready.lock().is_empty() && slave.taken.lock().is_empty());
            }
        }
    }
}

/// Its log goes on over another connection while the master is asked, which removes what both had of it before.
#[test]
fn a_slave_that_goes_on_meanwhile_is_not_behind_and_not_ahead() {
    for (moved_to, problem) in [(1000, None), (9500, None), (999, Some("this one ends at 999"))] {
        let slave = Arc::new(slave(998, Some(b"record")));
        let mut connected = Connected::of(&slave);
        let asked = connected.asked().expect("for its part of the log");
        slave.end.store(moved_to, Ordering::SeqCst);
        connected.answer(&asked, 0, &[], br#"{"table":{"commitLogMinOffset":"1000","commitLogMaxOffset":"9000"}}"#);
        connected.run(&MASTER);
        let told = connected.problem();
        assert_eq!(told.is_some(), problem.is_some(), "{told:?}");
        assert!(problem.is_none_or(|problem| told.is_some_and(|told| told.contains(problem))));
    }
}

/// What a master says of a group: how far it is, and how it answers when it is told; and of the queue.
struct Group {
    offset: Option<i64>,
    answer: i32,
    queue: (i32, &'static str),
}

/// The slave's newest message in the queue, and what a master says that has it too.
const NEWEST: Place = Place { queue_offset: QueueOffset(80), log_offset: LogOffset(4000) };
const SAME_QUEUE: (i32, &str) = (
    response::SUCCESS,
    r#"{"maxQueueIndex":99,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":4000,"physicSize":177,"tagsCode":0}]}"#,
);

/// A slave that owes an offset, of 70, and its group, to such a master. Gives what it asked besides the tables.
fn tell(slave: &Arc<Slave>, group: &Group) -> Vec<i32> {
    tell_of(slave, group, 70, Some(NEWEST))
}

fn tell_of(slave: &Arc<Slave>, group: &Group, settled: i64, newest: Option<Place>) -> Vec<i32> {
    let of = settled.to_string();
    let settled = Settled { topic: "orders".to_owned(), group: "new".to_owned(), queue: 2, offset: settled, newest };
    let document = GroupDocument { group_name: "new".to_owned(), ..GroupDocument::default() };
    // It would owe the same again: the master may not have taken it.
    let owed = Owed { groups: vec![document], offsets: vec![settled] };
    slave.owed.lock().extend([owed.clone(), owed]);
    let mut connected = Connected::of(slave);
    let mut asked_for = Vec::new();
    while let Some(asked) = connected.asked() {
        asked_for.push(asked.code);
        let field = |name: &str| asked.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let fields = ["topic", "consumerGroup", "queueId", "commitOffset"].map(field);
        let [topic, group_name, queue, offset] = fields.each_ref().map(Option::as_deref);
        match asked.code {
            request::GET_BROKER_RUNTIME_INFO => connected.answer(&asked, 0, &[], br#"{"table":{}}"#),
            request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP => {
                assert!(String::from_utf8_lossy(&asked.body).contains(r#""groupName":"new""#));
                connected.answer(&asked, 0, &[], b"");
            }
            request::QUERY_CONSUME_QUEUE => {
                let (index, count) = (field("index"), field("count"));
                assert_eq!((topic, queue), (Some("orders"), Some("2")));
                assert_eq!((index.as_deref(), count.as_deref()), (Some("80"), Some("1")));
                connected.answer(&asked, group.queue.0, &[], group.queue.1.as_bytes());
            }
            request::QUERY_CONSUMER_OFFSET => {
                assert_eq!((topic, group_name, queue), (Some("orders"), Some("new"), Some("2")));
                match group.offset.map(|offset| offset.to_string()) {
                    Some(offset) => connected.answer(&asked, 0, &[("offset", &offset)], b""),
                    None => connected.answer(&asked, response::QUERY_NOT_FOUND, &[], b""),
                }
            }
            request::UPDATE_CONSUMER_OFFSET => {
                assert_eq!((topic, group_name, queue, offset), (Some("orders"), Some("new"), Some("2"), Some(&*of)));
                assert_eq!(field("sluiceOnlyForward").as_deref(), Some("true"));
                connected.answer(&asked, group.answer, &[], b"");
            }
            request::GET_ALL_UNDOCUMENTED_STATE => {
                connected.answer(&asked, response::REQUEST_CODE_NOT_SUPPORTED, &[], b"");
            }
            _ => connected.answer(&asked, 0, &[], b"{}"),
        }
        assert!(slave.taken.lock().is_empty());
    }
    assert_eq!((slave.taken.lock().len(), slave.owed.lock().len()), (1, 1), "once a round");
    asked_for
}

#[test]
fn what_the_master_does_not_know_it_is_told_before_its_tables_are_taken() {
    for offset in [None, Some(69)] {
        for answer in [response::SUCCESS, response::TOPIC_NOT_EXIST] {
            let slave = Arc::new(slave(0, None));
            let asked = tell(&slave, &Group { offset, answer, queue: SAME_QUEUE });
            let told = [
                request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP,
                request::QUERY_CONSUME_QUEUE,
                request::QUERY_CONSUMER_OFFSET,
                request::UPDATE_CONSUMER_OFFSET,
            ];
            assert_eq!(asked, [&[request::GET_BROKER_RUNTIME_INFO][..], &ROUND, &told, &ROUND].concat());
            assert_eq!(slave.told.lock().len(), 1);
        }
    }
}

#[test]
fn what_is_told_lowers_nothing_that_a_consumer_committed_at_the_master_meanwhile() {
    for offset in [70, 71] {
        let slave = Arc::new(slave(0, None));
        let asked = tell(&slave, &Group { offset: Some(offset), answer: response::SUCCESS, queue: SAME_QUEUE });
        assert!(!asked.contains(&request::UPDATE_CONSUMER_OFFSET), "{asked:?}");
        assert_eq!(slave.told.lock().len(), 1, "the master is further");
    }
}

#[test]
fn what_the_master_is_too_busy_to_take_stays_owed() {
    for answer in [response::SYSTEM_BUSY, response::SYSTEM_ERROR, response::NO_PERMISSION] {
        let slave = Arc::new(slave(0, None));
        tell(&slave, &Group { offset: None, answer, queue: SAME_QUEUE });
        assert_eq!(*slave.told.lock(), []);
        let slave = Arc::new(self::slave(0, None));
        let asked = tell(&slave, &Group { offset: None, answer: response::SUCCESS, queue: (answer, "") });
        assert!(!asked.contains(&request::UPDATE_CONSUMER_OFFSET) && slave.told.lock().is_empty());
    }
}

#[test]
fn what_was_settled_in_a_queue_that_is_another_by_now_is_not_told_and_forgotten() {
    let elsewhere = r#"{"maxQueueIndex":99,"minQueueIndex":0,"queueData":[{"physicOffset":4100,"physicSize":177}]}"#;
    // So Java says that it has no such entry, and Sluice.
    let none = [r#"{"maxQueueIndex":0,"minQueueIndex":0}"#, r#"{"maxQueueIndex":3,"minQueueIndex":0,"queueData":[]}"#];
    let others = [elsewhere, none[0], none[1]].map(|body| (response::SUCCESS, body));
    for queue in others.into_iter().chain([(response::TOPIC_NOT_EXIST, "")]) {
        let slave = Arc::new(slave(0, None));
        let asked = tell(&slave, &Group { offset: None, answer: response::SUCCESS, queue });
        assert!(!asked.contains(&request::UPDATE_CONSUMER_OFFSET), "{queue:?}");
        assert_eq!(slave.told.lock().len(), 1, "{queue:?}");
    }
}

#[test]
fn where_the_slave_has_no_message_of_a_queue_to_compare_the_master_is_told_of_nothing_but_0() {
    for (settled, is_told) in [(70, false), (0, true)] {
        let slave = Arc::new(slave(0, None));
        let group = Group { offset: None, answer: response::SUCCESS, queue: SAME_QUEUE };
        let asked = tell_of(&slave, &group, settled, None);
        assert!(!asked.contains(&request::QUERY_CONSUME_QUEUE));
        assert_eq!(asked.contains(&request::UPDATE_CONSUMER_OFFSET), is_told);
        assert_eq!(slave.told.lock().len(), 1);
    }
}

#[test]
fn a_table_that_cannot_be_had_is_not_taken_for_an_empty_one() {
    let slave = Arc::new(slave(0, None));
    let mut connected = Connected::of(&slave);
    while let Some(asked) = connected.asked() {
        match asked.code {
            request::GET_BROKER_RUNTIME_INFO => connected.answer(&asked, 0, &[], br#"{"table":{}}"#),
            request::GET_ALL_CONSUMER_OFFSET => connected.refuse(&asked, response::SYSTEM_ERROR, "java.lang.Error"),
            _ => connected.answer(&asked, 0, &[], b"{}"),
        }
    }
    assert!(connected.problem().is_some_and(|problem| problem.contains("java.lang.Error")));
    assert!(slave.taken.lock().is_empty());
}

#[test]
fn a_master_that_refuses_or_does_not_answer_is_left() {
    let slave = Arc::new(slave(0, None));
    let mut connected = Connected::of(&slave);
    let asked = connected.asked().expect("a request");
    connected.answer(&asked, response::NO_PERMISSION, &[], b"");
    let problem = connected.problem().expect("it is told");
    assert!(problem.starts_with("the master refused with code 16"), "{problem}");
    let mut silent = Connected::of(&slave);
    silent.asked().expect("a request");
    silent.now = silent.now.plus_ms(60_000);
    assert!(silent.asked().is_none());
    assert_eq!(silent.problem().as_deref(), Some("no answer"));
}
