//! Reads queues of a topic: all of them freely, or a member's share of them for its group.
//!
//! One pull of a queue is under way at a time. What it brought has to be settled before the next one goes, which tells the broker so: of
//! messages that have not arrived where they were to go, none is ever committed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::GroupName;
use format::record::Record;
use wire::rocketmq::code::request::{NOTIFY_CONSUMER_IDS_CHANGED, PULL_MESSAGE};
use wire::rocketmq::code::response::{PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS};
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::PullResponse;

use crate::error::ClientError;
use crate::message::{Next, Received, Source, Start};
use crate::rocketmq::control::Control;
use crate::rocketmq::cursor::{Cursor, Place, State, committed, offset_at};
use crate::rocketmq::member::{Member, retry_topic};
use crate::rocketmq::peer::{Heard, Peer, wait};
use crate::rocketmq::pulled::{Filter, message_of};
use crate::rocketmq::route::{Access, BrokerQueues};
use crate::rocketmq::share::share_of;
use crate::rocketmq::topic::{Directory, QueueName, chosen};

/// Who reads without a group: official tools do so too, and their brokers know that name.
const NO_GROUP: &str = "TOOLS_CONSUMER";
/// Messages of a pull.
const PULL_COUNT: usize = 1024;
/// How long `next` waits.
const WAIT: Duration = Duration::from_millis(100);

/// How messages are read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// For this group, which remembers how far it is.
    pub group: Option<String>,
    /// Where to begin; a group only where it never was.
    pub start: Start,
    /// The only queue.
    pub queue: Option<QueueName>,
    /// Which tags.
    pub filter: Filter,
    /// Waits for more at the end.
    pub follows: bool,
}

/// A reader of one topic.
#[derive(Debug)]
pub struct Reader {
    topic: String,
    options: ReadOptions,
    directory: Directory,
    /// Name, and a connection for one question at a time; `peers` has another to each, in the same order.
    brokers: Vec<(String, Control)>,
    peers: Vec<Peer>,
    cursors: Vec<Cursor>,
    member: Option<Member>,
    /// What members share, as the last routes had it.
    places: Vec<(Place, usize)>,
    members: Vec<String>,
}

impl Reader {
    /// Connects to the brokers that have `topic`, joins the group, and finds where to begin.
    pub fn open(directory: Directory, topic: &str, options: ReadOptions) -> Result<Self, ClientError> {
        let mut reader = Self {
            topic: topic.to_owned(),
            member: None,
            options,
            directory,
            brokers: Vec::new(),
            peers: Vec::new(),
            cursors: Vec::new(),
            places: Vec::new(),
            members: Vec::new(),
        };
        if let Some(Err(refusal)) = reader.options.group.as_deref().map(GroupName::checked) {
            return Err(ClientError::Unusable { what: "group's name", problem: refusal.to_string() });
        }
        let Some(found) = reader.directory.find(topic, Access::Read)? else {
            return Err(reader.directory.unknown(topic, false));
        };
        let queues = chosen(topic, &found, reader.options.queue.as_ref())?;
        for broker in &found {
            reader.connect(broker)?;
        }
        if let Some(group) = reader.options.group.clone() {
            let member = Member::new(&group, topic, &reader.options.filter);
            member.join(&mut reader.peers)?;
            reader.member = Some(member);
            reader.find_places()?;
            reader.share()?;
            return Ok(reader);
        }
        for (at, queue) in queues {
            let broker = found.get(at).map(|broker| broker.name.clone()).unwrap_or_default();
            let place = Place { topic: topic.into(), broker, queue };
            let start = reader.options.start;
            let offset = offset_at(reader.control(at)?, (topic, queue), start)?;
            reader.cursors.push(Cursor::new(place, at, offset));
        }
        Ok(reader)
    }

    /// The broker among those that are known; new ones are connected to.
    fn connect(&mut self, broker: &BrokerQueues) -> Result<usize, ClientError> {
        if let Some(known) = self.peers.iter().position(|peer| peer.address() == broker.address) {
            return Ok(known);
        }
        self.brokers.push((broker.name.clone(), Control::open("broker", &broker.address)?));
        self.peers.push(Peer::open(&broker.address)?);
        Ok(self.peers.len() - 1)
    }

    fn control(&mut self, broker: usize) -> Result<&mut Control, ClientError> {
        let gone = || ClientError::Lost { address: String::new(), problem: "there is no such broker".to_owned() };
        self.brokers.get_mut(broker).map(|(_, control)| control).ok_or_else(gone)
    }

    /// Looks up the queues that the members of the group share.
    fn find_places(&mut self) -> Result<(), ClientError> {
        let Some(group) = self.options.group.clone() else { return Ok(()) };
        let mut places = Vec::new();
        for topic in [self.topic.clone(), retry_topic(&group)] {
            for broker in self.directory.find(&topic, Access::Read)?.unwrap_or_default() {
                let known = self.peers.len();
                let at = self.connect(&broker)?;
                if let (Some(member), true) = (&self.member, at == known) {
                    member.join(self.peers.get_mut(at..).unwrap_or_default())?;
                }
                let place = |queue| Place { topic: topic.as_str().into(), broker: broker.name.clone(), queue };
                places.extend((0..broker.queues).map(|queue| (place(queue), at)));
            }
        }
        places.sort();
        self.places = places;
        Ok(())
    }

    /// Takes the queues that are this member's by now, and leaves the others.
    fn share(&mut self) -> Result<(), ClientError> {
        let Some(member) = &mut self.member else { return Ok(()) };
        let Some((_, control)) = self.brokers.first_mut() else { return Ok(()) };
        if let Some(members) = member.look(control)? {
            self.members = members;
        }
        let mut wanted: BTreeMap<Place, usize> = BTreeMap::new();
        for topic in [self.topic.clone(), retry_topic(&member.group)] {
            let queues: Vec<_> = self.places.iter().filter(|(place, _)| *place.topic == *topic).cloned().collect();
            wanted.extend(share_of(member.client_id(), &self.members, &queues).iter().cloned());
        }
        let group = member.group.clone();
        let is_wanted = |cursor: &Cursor| wanted.contains_key(&cursor.place);
        let (kept, lost): (Vec<_>, Vec<_>) = std::mem::take(&mut self.cursors).into_iter().partition(is_wanted);
        self.cursors = kept;
        for mut cursor in lost {
            let broker = cursor.broker;
            cursor.commit(self.control(broker)?, &group)?;
        }
        for (place, broker) in wanted {
            if self.cursors.iter().any(|cursor| cursor.place == place) {
                continue;
            }
            let (start, control) = (self.options.start, self.control(broker)?);
            let queue = (&*place.topic, place.queue);
            let offset = match committed(control, &group, queue)? {
                Some(offset) => offset,
                None => offset_at(control, queue, start)?,
            };
            self.cursors.push(Cursor::new(place, broker, offset));
        }
        Ok(())
    }

    /// Says that this member is there, and looks who else is.
    fn keep_membership(&mut self) -> Result<(), ClientError> {
        let Some(member) = &mut self.member else { return Ok(()) };
        if member.beat(&mut self.peers) {
            self.find_places()?;
        }
        let is_asked = |cursor: &Cursor| matches!(cursor.state, State::Read(_));
        // What was read and is not settled belongs to whoever took it.
        if self.cursors.iter().any(is_asked) { Ok(()) } else { self.share() }
    }

    /// Has the next pull of every queue sent that waits for one.
    fn pull(&mut self, most: usize) {
        let group = self.options.group.as_deref();
        let all = Filter::default();
        let most = i32::try_from(most.min(PULL_COUNT)).unwrap_or(i32::MAX);
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.state == State::Ready) {
            let Some(peer) = self.peers.get_mut(cursor.broker) else { continue };
            let filter = if *cursor.place.topic == *self.topic { &self.options.filter } else { &all };
            let request = cursor.pull(group.unwrap_or(NO_GROUP), filter, most, (group.is_some(), self.options.follows));
            let opaque = peer.post(PULL_MESSAGE, &request, &[]);
            drop(request);
            cursor.state = State::Asked(opaque);
        }
    }

    /// The messages of the next answer that has any.
    fn hear(&mut self, most: usize) -> Result<Vec<Received>, ClientError> {
        let Self { peers, cursors, brokers, options, member, topic, .. } = self;
        for (number, peer) in peers.iter_mut().enumerate() {
            let address = peer.address().to_owned();
            while let Some(heard) = peer.hear()? {
                let (opaque, command) = match heard {
                    Heard::Answer(opaque, command) => (opaque, command),
                    Heard::Request(code) => {
                        if let (NOTIFY_CONSUMER_IDS_CHANGED, Some(member)) = (code, member.as_mut()) {
                            member.look_soon();
                        }
                        continue;
                    }
                };
                let is_its = |it: &&mut Cursor| it.broker == number && it.state == State::Asked(opaque);
                let Some(cursor) = cursors.iter_mut().find(is_its) else { continue };
                let broker = brokers.get(number).map_or("", |(name, _)| name);
                let mut messages = taken(cursor, &command, broker, options.follows).map_err(|why| match why {
                    Wrong::Refused => {
                        let remark = command.header.remark.as_deref().unwrap_or_default().to_owned();
                        ClientError::Refused {
                            request: PULL_MESSAGE,
                            address: address.clone(),
                            code: command.header.code,
                            remark,
                        }
                    }
                    Wrong::Bytes(source) => ClientError::NotRocketmq { address: address.clone(), source },
                })?;
                if *cursor.place.topic == **topic {
                    messages.retain(|message| options.filter.takes(message));
                }
                if messages.len() > most {
                    messages.truncate(most);
                    let last = messages.last().and_then(|message| message.offset).unwrap_or_default();
                    cursor.state = State::Read(i64::try_from(last).unwrap_or(i64::MAX).saturating_add(1));
                }
                if !messages.is_empty() {
                    return Ok(messages);
                }
                if let State::Read(next) = cursor.state {
                    (cursor.settled, cursor.state) = (next, State::Ready);
                }
            }
        }
        Ok(Vec::new())
    }
}

enum Wrong {
    Refused,
    Bytes(base::cursor::DecodeError),
}

/// What an answer to a pull brought; the cursor has read it then.
fn taken(cursor: &mut Cursor, command: &Command<'_>, broker: &str, follows: bool) -> Result<Vec<Received>, Wrong> {
    let code = command.header.code;
    if !matches!(code, SUCCESS | PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY | PULL_OFFSET_MOVED) {
        return Err(Wrong::Refused);
    }
    let reply = PullResponse::decode(&command.fields).map_err(|error| {
        Wrong::Bytes(base::cursor::DecodeError::BadValue { what: "answer to a pull", found: error.to_string() })
    })?;
    let mut messages = Vec::new();
    let mut rest = if code == SUCCESS { command.body } else { &[] };
    while !rest.is_empty() {
        let record = Record::decode(rest).map_err(Wrong::Bytes)?;
        // A broker may begin before the offset that was asked for, where several messages are stored as one.
        if i64::try_from(record.queue_offset.0).is_ok_and(|offset| offset >= cursor.settled) {
            messages.push(message_of(&record, broker).map_err(Wrong::Bytes)?);
        }
        rest = rest.get(record.size..).unwrap_or_default();
    }
    let is_at_end = code == PULL_NOT_FOUND
        || (code != SUCCESS && reply.next_begin_offset == cursor.settled && reply.max_offset <= cursor.settled);
    cursor.state = if is_at_end && !follows {
        cursor.settled = reply.next_begin_offset;
        State::AtEnd
    } else {
        State::Read(reply.next_begin_offset)
    };
    Ok(messages)
}

impl Source for Reader {
    fn next(&mut self, most: usize) -> Result<Next, ClientError> {
        let until = Instant::now() + WAIT;
        loop {
            self.keep_membership()?;
            if self.cursors.iter().all(|cursor| cursor.state == State::AtEnd) && !self.options.follows {
                return Ok(Next::End);
            }
            self.pull(most);
            let messages = self.hear(most)?;
            if !messages.is_empty() || Instant::now() >= until {
                return Ok(Next::Messages(messages));
            }
            if !self.cursors.iter().any(|cursor| cursor.state == State::Ready) {
                wait(&mut self.peers, until)?;
            }
        }
    }

    fn settle(&mut self) -> Result<(), ClientError> {
        for cursor in &mut self.cursors {
            if let State::Read(next) = cursor.state {
                (cursor.settled, cursor.state) = (next, State::Ready);
            }
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), ClientError> {
        let Some(member) = self.member.take() else { return Ok(()) };
        for mut cursor in std::mem::take(&mut self.cursors) {
            let broker = cursor.broker;
            cursor.commit(self.control(broker)?, &member.group)?;
        }
        member.leave(&mut self.peers)
    }
}
