//! Requests that a client of another connection answers, as when an administrator asks a consumer what it is doing. They go to the other
//! session by its mailbox, and the answer comes back by the asker's.
//!
//! **Always holds**: each that is taken is answered once: by the client, when its connection goes, or when its time is over.

use std::collections::HashMap;
use std::sync::Arc;

use base::budget::Held;
use base::limits::{FRAME_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX};
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

/// Longest name of a header field: the binary form counts it in a signed 16-bit number.
const FIELD_NAME_SIZE_MAX: usize = i16::MAX as usize;

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
        let mut fields = pairs_of(command).map_err(Refusal::BadRequest)?;
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
        let held = Held::taken(connection.budget.clone(), size_of(&fields) + command.body.len());
        let body = Bytes::copy_from_slice(command.body);
        let call =
            Call { code: command.header.code, fields, body, asker: connection.peer.mailbox.clone(), number, held };
        match message {
            Some(offset) => with_message(call, offset, connection),
            None => self.send(call, connection),
        }
        Ok(())
    }

    /// Sends a call to the client it is for.
    fn send(&mut self, call: Call, connection: &mut Connection) {
        let Some(waiting) = self.waiting.get(&call.number) else { return };
        let member = connection.broker.groups.member(&waiting.group, &waiting.client_id);
        let number = call.number;
        // Its connection may be closing just now.
        let is_sent = member.is_some_and(|member| member.mailbox.send(Signal::Told(Word::new(call))));
        if !is_sent {
            let remark = format!("The Consumer <{}> <{}> not online", waiting.group, waiting.client_id);
            self.finish(&failed(number, remark), connection);
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
            return fail(&call.asker, call.number, "the consumer is asked more than it answers; try again later");
        }
        let opaque = connection.next_opaque();
        let header =
            Header { code: call.code, language: Language::JAVA, version: VERSION, opaque, flag: 0, remark: None };
        let mut out = BytesMut::new();
        frame::encode(&mut out, form, &header, |sink| write(&call.fields, sink), &call.body);
        if out.len() > FRAME_SIZE_MAX {
            return fail(&call.asker, call.number, &too_long("request", out.len()));
        }
        connection.output.push(out.freeze());
        let passed_on = PassedOn { asker: call.asker.clone(), number: call.number, until: now.plus_ms(LIMIT_MS) };
        self.passed_on.insert(opaque, passed_on);
    }

    /// This connection's client has answered.
    pub(super) fn take_answer(&mut self, command: &Command<'_>, connection: &Connection) {
        let Some(PassedOn { asker, number, .. }) = self.passed_on.remove(&command.header.opaque) else { return };
        let fields = match pairs_of(command) {
            Ok(fields) => fields,
            Err(problem) => {
                return fail(&asker, number, &format!("the consumer's answer cannot be passed on: {problem}"));
            }
        };
        let remark = command.header.remark.as_deref().map(str::to_owned);
        let size = size_of(&fields) + remark.as_ref().map_or(0, String::len) + command.body.len();
        asker.send(Signal::Told(Word::new(Returned {
            number,
            code: command.header.code,
            remark,
            fields,
            body: Bytes::copy_from_slice(command.body),
            _held: Some(Held::taken(connection.budget.clone(), size)),
        })));
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
        if out.len() > FRAME_SIZE_MAX {
            return connection.refuse(asked, &Refusal::Internal(too_long("consumer's answer", out.len())));
        }
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

    /// The connection is gone, and its client answers nothing more, nor what the session has not heard of.
    pub(super) fn close(&mut self, unheard: Vec<Signal>) {
        let mut unanswered: Vec<_> = self.passed_on.drain().map(|(_, of)| (of.number, of.asker)).collect();
        unanswered.sort_unstable_by_key(|(number, _)| *number);
        unanswered.extend(unheard.iter().filter_map(|signal| {
            let Signal::Told(word) = signal else { return None };
            word.read::<Call>().map(|call| (call.number, call.asker.clone()))
        }));
        for (number, asker) in unanswered {
            fail(&asker, number, "the consumer's connection was closed before it answered");
        }
    }
}

fn write(fields: &[(String, String)], sink: &mut FieldSink<'_>) {
    fields.iter().for_each(|(name, value)| sink.text(name, value));
}

/// The fields of a request or answer that is to be passed on. A name may be as long as the binary form can say.
fn pairs_of(command: &Command<'_>) -> Result<Vec<(String, String)>, String> {
    let pairs = command.fields.pairs().map_err(|error| error.to_string())?;
    match pairs.iter().map(|(name, _)| name.len()).max() {
        Some(size) if size > FIELD_NAME_SIZE_MAX => {
            Err(format!("a header field has a name of {size} bytes; at most {FIELD_NAME_SIZE_MAX} are possible"))
        }
        _ => Ok(pairs),
    }
}

/// About what fields take.
fn size_of(fields: &[(String, String)]) -> usize {
    size_of_val(fields) + fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
}

fn too_long(what: &str, size: usize) -> String {
    format!("the {what} takes {size} bytes in the form in which it is passed on; at most {FRAME_SIZE_MAX} are possible")
}

/// Tells who asks that there is no answer.
fn fail(asker: &Mailbox, number: u64, remark: &str) {
    asker.send(Signal::Told(Word::new(failed(number, remark.to_owned()))));
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
            let held = Held::taken(budget, size_of(&call.fields) + message.len());
            Call { body: message, held, ..call }
        });
        Done::Call(Box::new(found.map_err(|refusal| (number, refusal))))
    });
}
