//! Requests that a client of another connection answers, as when an administrator asks a consumer what it is doing. They go to the other
//! session by its mailbox, and the answer comes back by the asker's.
//!
//! **Always holds**: each that is taken is answered once: by the client, when its connection goes, or when its time is over.

use std::collections::HashMap;
use std::sync::Arc;

use base::budget::Held;
use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::{LogOffset, Monotonic, Refusal};
use broker::{Mailbox, Signal, Word};
use bytes::{Bytes, BytesMut};
use format::record::log_offset_of_message_id;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command, Form, Header, Language};
use wire::rocketmq::header::CallRequest;

use super::answer::{Answer, Asked, header, response_header};
use super::call::{Call, CallOutcome};
use super::connection::{Connection, Done};
use super::version::VERSION;

/// Calls of one connection, and calls to one, that may wait for their answers at once.
const CALLS_MAX: usize = 64;

/// How long a client has for its answer, as in RocketMQ.
const LIMIT_MS: u64 = 10_000;

/// Bytes of a message that is read for a call, mostly.
const MESSAGE_SIZE: usize = 64 * 1024;

/// An answer on its way back.
struct Returned {
    number: u64,
    code: i32,
    remark: Option<String>,
    fields: Vec<(String, String)>,
    body: Bytes,
    _held: Option<Held>,
}

/// A call of this connection's that waits.
struct Waiting {
    asked: Asked,
    group: String,
    client_id: String,
    until: Monotonic,
}

/// A call that this connection's client has to answer.
struct PassedOn {
    asker: Arc<Mailbox>,
    number: u64,
    until: Monotonic,
}

/// The calls of one connection, and those to its client.
#[derive(Default)]
pub(super) struct Calls {
    waiting: HashMap<u64, Waiting>,
    last_number: u64,
    /// By the number of the request to the client.
    passed_on: HashMap<i32, PassedOn>,
}

impl Calls {
    /// Takes a request for another connection's client.
    pub(super) fn call(&mut self, command: &Command<'_>, asked: Asked, connection: &mut Connection) {
        if let Err(refusal) = self.begin(command, asked, connection) {
            connection.refuse(asked, &refusal);
        }
    }

    fn begin(&mut self, command: &Command<'_>, asked: Asked, connection: &mut Connection) -> Result<(), Refusal> {
        let called: CallRequest<'_> = header(command)?;
        connection.check_room()?;
        if self.waiting.len() >= CALLS_MAX {
            let problem = format!("this connection waits for {CALLS_MAX} answers of consumers already");
            return Err(Refusal::Busy(problem));
        }
        let mut fields = command.fields.pairs().map_err(|error| Refusal::BadRequest(error.to_string()))?;
        let message = if command.header.code == request::CONSUME_MESSAGE_DIRECTLY {
            let id = called.message_id.as_deref().unwrap_or_default();
            let no_id = || Refusal::BadRequest(format!("the header field <msgId> is [{id}]; expected a message's id"));
            fields.retain(|(name, _)| name != "brokerName");
            fields.push(("brokerName".to_owned(), connection.broker.options().broker_name.clone()));
            Some(log_offset_of_message_id(id).ok_or_else(no_id)?)
        } else {
            None
        };
        self.last_number += 1;
        let number = self.last_number;
        let until = connection.now.monotonic.plus_ms(LIMIT_MS);
        let (group, client_id) = (called.consumer_group.into_owned(), called.client_id.into_owned());
        self.waiting.insert(number, Waiting { asked, group, client_id, until });
        let call = Call {
            code: command.header.code,
            fields,
            body: Bytes::copy_from_slice(command.body),
            asker: connection.peer.mailbox.clone(),
            number,
            held: Held::taken(connection.budget.clone(), command.body.len()),
        };
        match message {
            Some(offset) => with_message(call, offset, connection),
            None => self.send(call, connection),
        }
        Ok(())
    }

    /// Sends a call to the client it is for.
    fn send(&mut self, call: Call, connection: &mut Connection) {
        let Some(waiting) = self.waiting.get(&call.number) else { return };
        match connection.broker.groups.member(&waiting.group, &waiting.client_id) {
            Some(member) => member.mailbox.send(Signal::Told(Word::new(call))),
            None => {
                let remark = format!("The Consumer <{}> <{}> not online", waiting.group, waiting.client_id);
                self.finish(&failed(call.number, remark), connection);
            }
        }
    }

    /// A call has its message, or cannot have it.
    pub(super) fn go_on(&mut self, outcome: CallOutcome, connection: &mut Connection) {
        match outcome {
            Ok(call) => self.send(call, connection),
            Err((number, refusal)) => {
                if let Some(waiting) = self.waiting.remove(&number) {
                    connection.refuse(waiting.asked, &refusal);
                }
            }
        }
    }

    /// Another connection has told something.
    pub(super) fn hear(&mut self, word: &Word, form: Form, connection: &mut Connection) {
        if let Some(call) = word.read::<Call>() {
            self.pass_on(call, form, connection);
        } else if let Some(returned) = word.read::<Returned>() {
            self.finish(returned, connection);
        }
    }

    /// Asks this connection's client.
    fn pass_on(&mut self, call: &Call, form: Form, connection: &mut Connection) {
        let now = connection.now.monotonic;
        self.passed_on.retain(|_, passed_on| passed_on.until > now);
        if self.passed_on.len() >= CALLS_MAX || connection.output.size() >= OUTPUT_BACKLOG_SIZE_MAX {
            let remark = "the consumer is asked more than it answers; try again later".to_owned();
            return call.asker.send(Signal::Told(Word::new(failed(call.number, remark))));
        }
        let opaque = connection.next_opaque();
        let header =
            Header { code: call.code, language: Language::JAVA, version: VERSION, opaque, flag: 0, remark: None };
        let mut out = BytesMut::new();
        frame::encode(&mut out, form, &header, |sink| write(&call.fields, sink), &call.body);
        connection.output.push(out.freeze());
        let passed_on = PassedOn { asker: call.asker.clone(), number: call.number, until: now.plus_ms(LIMIT_MS) };
        self.passed_on.insert(opaque, passed_on);
    }

    /// This connection's client has answered.
    pub(super) fn take_answer(&mut self, command: &Command<'_>, connection: &Connection) {
        let Some(PassedOn { asker, number, .. }) = self.passed_on.remove(&command.header.opaque) else { return };
        let returned = Returned {
            number,
            code: command.header.code,
            remark: command.header.remark.as_deref().map(str::to_owned),
            fields: command.fields.pairs().unwrap_or_default(),
            body: Bytes::copy_from_slice(command.body),
            _held: Some(Held::taken(connection.budget.clone(), command.body.len())),
        };
        asker.send(Signal::Told(Word::new(returned)));
    }

    /// Answers a call of this connection's.
    fn finish(&mut self, returned: &Returned, connection: &mut Connection) {
        let Some(Waiting { asked, .. }) = self.waiting.remove(&returned.number) else { return };
        if asked.one_way {
            return;
        }
        let header = response_header(asked.opaque, returned.code, returned.remark.as_deref());
        let mut out = BytesMut::new();
        frame::encode(&mut out, asked.form, &header, |sink| write(&returned.fields, sink), &returned.body);
        connection.output.push(out.freeze());
    }

    /// Answers calls whose time is over.
    pub(super) fn expire(&mut self, connection: &mut Connection) {
        let now = connection.now.monotonic;
        let mut over: Vec<_> = self.waiting.extract_if(|_, waiting| waiting.until <= now).collect();
        over.sort_unstable_by_key(|(number, _)| *number);
        for (_, Waiting { asked, group, client_id, .. }) in over {
            let remark = format!("consumer <{group}> <{client_id}> Timeout: no answer within {} s", LIMIT_MS / 1000);
            let answer = Answer { code: response::CONSUME_MESSAGE_TIMEOUT, remark: Some(remark), ..Answer::default() };
            connection.reply_with(asked, Ok(answer));
        }
    }

    /// When the time of the first is over.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    /// Whether answers are waited for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The connection is gone, and its client answers nothing more.
    pub(super) fn close(&mut self) {
        let mut unanswered: Vec<_> = self.passed_on.drain().map(|(_, passed_on)| passed_on).collect();
        unanswered.sort_unstable_by_key(|passed_on| passed_on.number);
        for PassedOn { asker, number, .. } in unanswered {
            let remark = "the consumer's connection was closed before it answered".to_owned();
            asker.send(Signal::Told(Word::new(failed(number, remark))));
        }
    }
}

fn write(fields: &[(String, String)], sink: &mut FieldSink<'_>) {
    fields.iter().for_each(|(name, value)| sink.text(name, value));
}

fn failed(number: u64, remark: String) -> Returned {
    let (code, remark) = (response::SYSTEM_ERROR, Some(remark));
    Returned { number, code, remark, fields: Vec::new(), body: Bytes::new(), _held: None }
}

/// Reads the message that a call is about, away from the network threads, and has it sent on with that.
fn with_message(call: Call, offset: LogOffset, connection: &mut Connection) {
    let (broker, budget, number) = (connection.broker.clone(), connection.budget.clone(), call.number);
    connection.run_job(MESSAGE_SIZE, move || {
        let found = broker.lookup.at(offset).map(|message| {
            let held = Held::taken(budget, message.len());
            Call { body: message, held, ..call }
        });
        Done::Call(Box::new(found.map_err(|refusal| (number, refusal))))
    });
}
