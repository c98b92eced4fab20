//! The engine held against a model that keeps each message's place, over random histories with crashes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SEEDS: u64 = 10_000;
const STEPS: usize = 120;
const MESSAGES: u64 = 60;
/// One history of so many has so many times the messages, in several blocks of leases.
const LONG: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Leased(Owner, Option<Monotonic>),
    Delayed(Monotonic),
    Settled,
}

/// One message: where it is, and how often it was handed out.
#[derive(Clone, Copy, Debug)]
struct Message {
    place: Place,
    deliveries: u32,
    /// The log was told that it is settled.
    told_settled: bool,
    /// How often it was handed out when it was given back, as the log was told and as it is still to be.
    told: Option<u32>,
    untold: Option<u32>,
}

struct Model {
    messages: Vec<Message>,
    /// What was handed out and is told.
    told_delivered_until: u64,
    delivered_until: u64,
}

impl Model {
    fn grow(&mut self, count: u64) {
        let new = Message { place: Place::Ready, deliveries: 0, told_settled: false, told: None, untold: None };
        self.messages.extend((0..count).map(|_| new));
    }

    fn ready(&self) -> Vec<u64> {
        self.having(|message| message.place == Place::Ready)
    }

    fn having(&self, is_it: impl Fn(&Message) -> bool) -> Vec<u64> {
        (0..).zip(&self.messages).filter(|(_, message)| is_it(message)).map(|(offset, _)| offset).collect()
    }

    fn held(&self, owner: Owner) -> Vec<u64> {
        self.having(|message| matches!(message.place, Place::Leased(by, _) if by == owner))
    }

    fn place(&mut self, offset: u64, place: Place) {
        self.messages[offset as usize].place = place;
    }

    fn back(&mut self, offset: u64, place: Place, is_counted: bool) {
        let message = &mut self.messages[offset as usize];
        message.deliveries -= u32::from(!is_counted);
        message.untold = Some(message.deliveries);
        message.place = place;
    }

    /// All that has happened is told.
    fn tell(&mut self) {
        self.told_delivered_until = self.delivered_until;
        for message in &mut self.messages {
            message.told_settled = message.place == Place::Settled;
            message.told = message.untold.take().or(message.told);
        }
    }
}

struct World {
    chance: StdRng,
    /// How many times as many messages as in most histories.
    size: u64,
    model: Model,
    cursor: LeaseCursor,
    /// What the log has been told,
    durable: LeaseState,
    /// and one who has only listened.
    follower: LeaseCursor,
    now: Monotonic,
    last_grant: u64,
    owners: Vec<Owner>,
}

/// A cursor that knows the bytes of what is ready.
fn weighed(state: LeaseState) -> LeaseCursor {
    let mut cursor = LeaseCursor::open(state);
    cursor.begin_weight();
    cursor
}

/// Bytes of a message.
const fn size_of(offset: u64) -> u64 {
    offset * offset + 1
}

impl World {
    fn new(seed: u64) -> Self {
        let model = Model { messages: Vec::new(), told_delivered_until: 0, delivered_until: 0 };
        Self {
            chance: StdRng::seed_from_u64(seed),
            size: if seed.is_multiple_of(LONG) { LONG } else { 1 },
            model,
            cursor: weighed(LeaseState::default()),
            durable: LeaseState::default(),
            follower: LeaseCursor::default(),
            now: Monotonic(1000),
            last_grant: 0,
            owners: (0..3).map(Owner::channel).collect(),
        }
    }

    fn end(&self) -> QueueOffset {
        QueueOffset(self.model.messages.len() as u64)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.chance.random_range(0..limit.max(1))
    }

    fn any_owner(&mut self) -> Owner {
        let number = self.below(self.owners.len() as u64);
        self.owners[number as usize]
    }

    fn step(&mut self) {
        match self.below(100) {
            0..12 => {
                let count = self.below(8 * self.size).min((MESSAGES * self.size).saturating_sub(self.end().0));
                self.model.grow(count);
            }
            12..40 => self.take(),
            40..60 => self.settle(),
            60..72 => self.give_back(),
            72..76 => self.renew(),
            76..78 => self.release(),
            78..86 => self.expire(),
            86..88 => self.drop_lowest(),
            88..89 => self.purge(),
            89..90 => self.forget(),
            90..94 => self.gather(),
            94..97 => self.weigh(),
            _ => self.crash(),
        }
        self.check();
    }

    fn take(&mut self) {
        self.last_grant += 1;
        let is_channel = self.below(2) == 0;
        let owner = if is_channel { Owner::channel(self.below(3) as u32) } else { Owner::grant(self.last_grant) };
        let deadline = (!is_channel).then(|| self.now.plus_ms(self.chance.random_range(0..500)));
        self.owners.push(owner);
        let wanted = self.below(6 * self.size) as usize;
        let expected: Vec<_> = self.model.ready().into_iter().take(wanted).collect();
        let expected: Vec<_> =
            expected.into_iter().map(|offset| (offset, self.model.messages[offset as usize].deliveries)).collect();
        let (mut given, end) = (Vec::new(), self.end());
        let count = self.cursor.take(end, Grant { owner, deadline }, |offset, deliveries| {
            let takes = given.len() < wanted;
            if takes {
                given.push((offset.0, deliveries));
            }
            takes
        });
        assert_eq!((count, &given), (expected.len(), &expected));
        for (offset, _) in given {
            self.model.place(offset, Place::Leased(owner, deadline));
            let message = &mut self.model.messages[offset as usize];
            message.deliveries += 1;
            if message.untold.or(message.told) == Some(0) {
                message.untold = Some(1);
            }
            self.model.delivered_until = self.model.delivered_until.max(offset + 1);
        }
    }

    fn settle(&mut self) {
        let (owner, end) = (self.any_owner(), self.end().0 + 2);
        let wanted: Vec<_> = (0..self.below(5 * self.size)).map(|_| self.below(end)).collect();
        let mut held = self.model.held(owner);
        held.retain(|offset| wanted.contains(offset));
        assert_eq!(self.cursor.settle(owner, wanted.into_iter().map(QueueOffset)), held.len() as u64);
        held.into_iter().for_each(|offset| self.model.place(offset, Place::Settled));
    }

    fn give_back(&mut self) {
        let (owner, end) = (self.any_owner(), self.end().0 + 2);
        let offset = self.below(end);
        let ready = (self.below(2) == 0).then(|| self.now.plus_ms(self.chance.random_range(1..500)));
        let how = GiveBack { ready, is_counted: self.below(3) > 0 };
        let has = self.model.held(owner).contains(&offset);
        assert_eq!(self.cursor.give_back(owner, QueueOffset(offset), how), has);
        if has {
            self.model.back(offset, ready.map_or(Place::Ready, Place::Delayed), how.is_counted);
        }
    }

    fn renew(&mut self) {
        let (owner, next, end) = (self.any_owner(), self.any_owner(), self.end().0);
        let (offset, deadline) = (self.below(end), self.now.plus_ms(self.chance.random_range(0..500)));
        let has = self.model.held(owner).contains(&offset);
        assert_eq!(self.cursor.renew(owner, QueueOffset(offset), Grant { owner: next, deadline: Some(deadline) }), has);
        if has {
            self.model.place(offset, Place::Leased(next, Some(deadline)));
        }
    }

    fn release(&mut self) {
        let channel = Owner::channel(self.below(3) as u32);
        let held = self.model.held(channel);
        assert!(self.cursor.held_by(channel).eq(held.iter().copied().map(QueueOffset)));
        assert_eq!(self.cursor.release(channel), held.len());
        held.into_iter().for_each(|offset| self.model.back(offset, Place::Ready, true));
    }

    fn expire(&mut self) {
        // At the end of a step of the leases' deadlines none is late.
        self.now = Monotonic((self.now.0 + self.below(200)).next_multiple_of(50));
        let now = self.now;
        let is_due = |message: &Message| match message.place {
            Place::Leased(_, deadline) => deadline.is_some_and(|deadline| deadline <= now),
            Place::Delayed(ready) => ready <= now,
            Place::Ready | Place::Settled => false,
        };
        let due = self.model.having(is_due);
        assert_eq!(self.cursor.expire(now), due.len());
        due.into_iter().for_each(|offset| self.model.back(offset, Place::Ready, true));
        assert!(self.cursor.next_deadline().is_none_or(|deadline| deadline > now));
    }

    fn drop_lowest(&mut self) {
        let expected = self.model.ready().first().copied();
        let end = self.end();
        assert_eq!(self.cursor.lowest_ready(end).map(|(offset, _)| offset.0), expected);
        assert_eq!(self.cursor.settle_lowest_ready(end).map(|offset| offset.0), expected);
        expected.into_iter().for_each(|offset| self.model.place(offset, Place::Settled));
    }

    fn purge(&mut self) {
        let ready = self.model.ready();
        assert_eq!(self.cursor.purge(self.end()), ready.len() as u64);
        ready.into_iter().for_each(|offset| self.model.place(offset, Place::Settled));
    }

    fn forget(&mut self) {
        let end = self.end().0;
        let first = self.below(end + 1);
        self.cursor.forget_before(QueueOffset(first));
        (0..first).for_each(|offset| self.model.place(offset, Place::Settled));
    }

    fn weigh(&mut self) {
        // It may have to stop in between.
        let (end, mut left) = (self.end(), self.below(2 * MESSAGES));
        let weighed = self.cursor.weigh(end, |offset| {
            left = left.checked_sub(1).ok_or(())?;
            Ok::<_, ()>(size_of(offset.0))
        });
        if weighed.is_ok() {
            let expected: u64 = self.model.ready().into_iter().map(size_of).sum();
            assert_eq!(self.cursor.weighed(), expected);
        }
    }

    fn gather(&mut self) {
        if let Some(changes) = self.cursor.gather() {
            self.durable.apply(&changes);
            let once = self.durable.clone();
            self.durable.apply(&changes);
            assert_eq!(self.durable, once, "what is made twice is as if made once");
            self.follower.learn(&changes);
            let told = LeaseCursor::open(self.durable.clone());
            assert_eq!(
                (self.follower.state(), self.follower.counts(self.end())),
                (told.state(), told.counts(self.end()))
            );
        }
        assert_eq!(self.cursor.gather(), None);
        self.model.tell();
        assert_eq!(LeaseCursor::open(self.cursor.state()).state(), self.cursor.state());
    }

    fn crash(&mut self) {
        let by_snapshot = self.below(3) == 0;
        if by_snapshot {
            self.durable = self.cursor.state();
            self.follower = LeaseCursor::open(self.durable.clone());
            self.model.tell();
            // It has how often all were handed out.
            let until = self.model.told_delivered_until;
            for (_, message) in (0..until).zip(&mut self.model.messages) {
                message.told = Some(message.deliveries);
            }
        }
        self.cursor = weighed(self.durable.clone());
        self.model.delivered_until = self.model.told_delivered_until;
        let until = self.model.told_delivered_until;
        for (offset, message) in (0..).zip(&mut self.model.messages) {
            let handed_out = u32::from(offset < until);
            message.place = if message.told_settled { Place::Settled } else { Place::Ready };
            message.untold = None;
            message.deliveries = message.told.filter(|_| offset < until).unwrap_or(handed_out);
        }
    }

    fn check(&mut self) {
        let count = |is_it: fn(&Place) -> bool| self.model.having(|message| is_it(&message.place)).len() as u64;
        let expected = LeaseCounts {
            ready: count(|place| matches!(place, Place::Ready)),
            leased: count(|place| matches!(place, Place::Leased(..))),
            delayed: count(|place| matches!(place, Place::Delayed(_))),
        };
        assert_eq!(self.cursor.counts(self.end()), expected);
        let floor = self.model.having(|message| message.place != Place::Settled).first().copied();
        assert_eq!(self.cursor.floor().0, floor.unwrap_or(self.end().0));
    }
}

#[test]
fn every_history_leaves_each_message_where_the_model_has_it() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (0..STEPS).for_each(|_| world.step())));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
