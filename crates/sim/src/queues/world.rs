//! Runs a story of message queues: the node, its slave, and its clients, step by step.

use base::Now;
use base::offset::Watermark;
use storage::disk::{Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::at;

use super::client::{Client, Heard};
use super::oracle::{Crash, DEAD, Oracle, PLAIN, QUEUES, WORK};
use super::story::{QueueAction, QueueStory, Settlement, Target};
use crate::chance::Chance;
use crate::node::{Node, Place, Work};
use crate::oracle::{Checked, Rule, Violation};
use crate::replica::Replica;
use crate::story::Setup;
use crate::trace::Trace;

const BEGIN: Now = at(1_700_000_000_000);

/// How many clients there are.
pub(super) const CLIENTS: usize = 4;

/// Those that publish.
pub(super) const PUBLISHERS: [usize; 2] = [0, 3];

/// What each consumes from.
const CONSUMES: [&[usize]; CLIENTS] = [&[], &[PLAIN, WORK], &[WORK, DEAD], &[]];

/// What a program gets whose write fails.
const EIO: i32 = 5;

/// Rounds in which what was sent arrives, at the slave too.
const ROUNDS: usize = 4;

/// Rounds after which a slave follows that nothing keeps from it.
const FIRST_ROUNDS: usize = 200;

/// Steps of a second, after which nothing is owed any more.
const LAST_STEPS: usize = 60;

/// Messages that are in any queue at the most.
const MESSAGES_MAX: usize = 10_000;

struct World {
    setup: Setup,
    now: Now,
    disk: FaultyDisk,
    node: Option<Node>,
    replica: Option<Replica>,
    clients: Vec<Client>,
    /// What each has not settled: number and queue.
    held: Vec<Vec<(u64, usize)>>,
    /// Messages that each has published on its connection.
    published: Vec<u64>,
    next_message: u64,
    /// Below this lies what was confirmed and is persistent, where replicas are waited for.
    confirmed_until: u64,
    /// The disk fails: what clients hear of it is no rule broken.
    is_ill: bool,
    oracle: Oracle,
    trace: Trace,
}

/// Runs a story; the trace is of everything that was seen.
pub(super) fn run(story: &QueueStory, trace: Trace) -> (Trace, Checked) {
    let disk = MemoryDisk::new();
    disk.set_capacity(story.setup.capacity);
    disk.set_now(BEGIN.wall.0);
    let mut world = World {
        setup: story.setup.clone(),
        now: BEGIN,
        disk: FaultyDisk::over(&disk),
        node: None,
        replica: None,
        clients: Vec::new(),
        held: Vec::new(),
        published: Vec::new(),
        next_message: 1,
        confirmed_until: 0,
        is_ill: false,
        oracle: Oracle::default(),
        trace,
    };
    let told = world.tell(story);
    (world.trace, told)
}

impl World {
    fn tell(&mut self, story: &QueueStory) -> Checked {
        self.start_node()?;
        self.follow()?;
        if story.is_followed_first {
            (0..FIRST_ROUNDS).try_for_each(|_| self.step_replica())?;
        }
        self.open_clients()?;
        for (number, step) in story.steps.iter().enumerate() {
            self.trace.say(|| format!("{number} {step:?}"));
            self.perform(*step)?;
            self.turn()?;
        }
        self.trace.say(|| "the end".to_owned());
        self.finish()
    }

    fn node(&mut self) -> Result<&mut Node, Violation> {
        self.node.as_mut().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is none"))
    }

    /// Has a slave there, if there is to be one, with nothing on its disk.
    fn follow(&mut self) -> Checked {
        self.replica = self.setup.replica.map(|of| Replica::new(&self.setup, of, self.now)).transpose()?;
        Ok(())
    }

    fn start(&mut self) -> Checked {
        self.start_node()?;
        self.open_clients()
    }

    fn open_clients(&mut self) -> Checked {
        let now = self.now;
        let node = self.node()?;
        let clients = CONSUMES.iter().map(|consumes| Client::open(node, consumes, now)).collect();
        (self.clients, self.held, self.published) = (clients, vec![Vec::new(); CLIENTS], vec![0; CLIENTS]);
        Ok(())
    }

    fn start_node(&mut self) -> Checked {
        self.disk.heal();
        self.is_ill = false;
        let node = Node::start(&self.setup, &self.disk, Place::Master, self.now);
        let node = node.map_err(|error| Violation::of(Rule::TheNodeStarts, error.to_string()))?;
        self.node = Some(node);
        Ok(())
    }

    /// The process is gone; of its log, all below `end` is there.
    fn stop(&mut self, crash: Crash, end: u64) {
        self.clients.clear();
        self.replica.iter_mut().for_each(|replica| replica.master_gone(self.now));
        self.node = None;
        self.trace.say(|| format!("  {crash:?}, below {end}"));
        self.oracle.crashed(crash, end);
    }

    fn perform(&mut self, action: QueueAction) -> Checked {
        match action {
            QueueAction::Publish { client, target, count, is_persistent, size } => {
                (0..count).for_each(|_| self.publish(client, target, is_persistent, size));
            }
            QueueAction::Settle { client, how, dice } => self.settle(client, how, dice),
            QueueAction::Get { client } => self.clients[client].get(PLAIN),
            QueueAction::Disconnect { client } => self.connect(client, CONSUMES[client])?,
            QueueAction::Work(work) => self.work(work)?,
            QueueAction::WorkDue => self.work_due()?,
            QueueAction::Pass { milliseconds } => self.pass(milliseconds)?,
            QueueAction::Restart => self.restart()?,
            QueueAction::Kill { changes } => self.kill(changes)?,
            QueueAction::CutPower { dice, percent } => self.cut_power(dice, percent)?,
            QueueAction::Promote => self.promote()?,
            QueueAction::Replica(action) => {
                let now = self.now;
                self.replica.as_mut().map_or(Ok(()), |replica| replica.befall(action, now))?;
            }
        }
        Ok(())
    }

    fn publish(&mut self, client: usize, target: Target, is_persistent: bool, size: usize) {
        let (exchange, key, to): (_, _, &[usize]) = match target {
            Target::Plain => ("", QUEUES[PLAIN], &[PLAIN]),
            Target::Work => ("", QUEUES[WORK], &[WORK]),
            Target::All => ("all", "", &[PLAIN, WORK]),
        };
        let id = self.next_message;
        self.next_message += 1;
        self.published[client] += 1;
        self.oracle.published(id, (client, self.published[client]), is_persistent, to);
        self.clients[client].publish(exchange, key, is_persistent, id, size);
    }

    fn settle(&mut self, client: usize, how: Settlement, dice: u64) {
        let held = &mut self.held[client];
        if held.is_empty() {
            return;
        }
        let (tag, queue) = held[(dice % held.len() as u64) as usize];
        let first = if how == Settlement::AckAll { 0 } else { tag };
        held.retain(|(held, _)| !(first..=tag).contains(held));
        match how {
            Settlement::Requeue => self.oracle.returned(client, tag, false),
            Settlement::Reject if queue == WORK => self.oracle.returned(client, tag, true),
            // What is rejected where there is no exchange for dead letters is gone.
            _ => self.oracle.acknowledged(client, first, tag),
        }
        self.clients[client].settle(how, tag);
    }

    /// A client's connection is made anew.
    fn connect(&mut self, client: usize, consumes: &[usize]) -> Checked {
        let now = self.now;
        let node = self.node.as_ref().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is none"))?;
        let opened = Client::open(node, consumes, now);
        std::mem::replace(&mut self.clients[client], opened).lose(node, now);
        self.held[client].clear();
        self.published[client] = 0;
        self.oracle.lost(client);
        Ok(())
    }

    fn work(&mut self, work: Work) -> Checked {
        let (now, is_ill) = (self.now, self.is_ill);
        let worked = self.node()?.work(work, now);
        if let Err(error) = worked {
            self.trace.say(|| format!("  {work:?}: {error}"));
            return if is_ill { Ok(()) } else { Err(Violation::of(Rule::WorkSucceeds, format!("{work:?}: {error}"))) };
        }
        if matches!(work, Work::Own(broker::Work::KeepChanges | broker::Work::Checkpoint)) {
            let end = self.node()?.broker.state_position().0;
            self.oracle.told(end);
        }
        Ok(())
    }

    fn work_due(&mut self) -> Checked {
        let now = self.now;
        let due = self.node()?.due(now);
        due.into_iter().try_for_each(|work| self.work(work))
    }

    fn pass(&mut self, milliseconds: u64) -> Checked {
        self.now = self.now.plus_ms(milliseconds);
        let now = self.now;
        self.disk.memory().set_now(now.wall.0);
        self.clients.iter_mut().for_each(|client| client.pass(now));
        self.work(Work::EndLeases)
    }

    /// Stops in good order.
    fn restart(&mut self) -> Checked {
        let now = self.now;
        let node = self.node.as_ref().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is none"))?;
        self.clients.drain(..).for_each(|client| client.lose(node, now));
        node.broker.close(now).map_err(|error| Violation::of(Rule::WorkSucceeds, error.to_string()))?;
        let end = node.broker.state_position().0;
        self.oracle.told(end);
        self.stop(Crash::Stopped, end);
        self.start()
    }

    fn kill(&mut self, changes: u64) -> Checked {
        self.disk.fail(Failure::error(Operation::Change, EIO).after(changes));
        self.is_ill = true;
        self.work_due()?;
        self.turn()?;
        let node = self.node()?;
        if node.broker.durability.poisoned().is_some() {
            // What the page cache has says nothing of the disk any more.
            return self.cut_power(changes, 50);
        }
        let end = node.log_end();
        self.stop(Crash::Killed, end);
        self.start()
    }

    fn cut_power(&mut self, dice: u64, percent: u64) -> Checked {
        let end = self.node()?.broker.store().watermarks().durable().0;
        self.stop(Crash::PowerCut, end);
        self.trace.end_disk(&self.disk);
        let mut chance = Chance::new(dice);
        let left = self.disk.after_power_cut(self.disk.points(), || chance.percent(percent));
        left.set_now(self.now.wall.0);
        self.disk = FaultyDisk::over(&left);
        self.replica.iter_mut().for_each(Replica::master_lost);
        self.start()
    }

    /// The slave becomes the master, if it has all that was confirmed; where it is not waited for, if it has everything.
    fn promote(&mut self) -> Checked {
        let masters = self.node()?.log_end();
        let is_waited_for = self.setup.replica.is_some_and(|replica| replica.is_waited_for);
        let needed = if is_waited_for { self.confirmed_until } else { masters };
        let Some(end) = self.replica.as_ref().and_then(Replica::end).filter(|end| *end >= needed && *end > 0) else {
            return Ok(());
        };
        self.stop(Crash::Promoted { lacks_some: end < masters }, end);
        let Some(replica) = self.replica.take() else { return Ok(()) };
        self.trace.end_disk(&self.disk);
        self.disk = replica.into_disk(self.now);
        // Its own slave has to have all of it before that can be the master.
        self.confirmed_until = end;
        self.start()?;
        self.follow()
    }

    /// What was sent arrives, and what it leads to.
    fn turn(&mut self) -> Checked {
        for _ in 0..ROUNDS {
            let now = self.now;
            let node = self.node.as_ref().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is none"))?;
            let mut goes_on = true;
            while goes_on {
                goes_on = false;
                for client in &mut self.clients {
                    goes_on |= client.drive(node, now);
                }
            }
            let replicated = node.broker.durability.reached(Watermark::Replicated).0;
            for client in 0..CLIENTS {
                for heard in self.clients[client].take() {
                    self.hear(client, heard, replicated)?;
                }
            }
            self.step_replica()?;
        }
        Ok(())
    }

    fn step_replica(&mut self) -> Checked {
        match (&mut self.replica, &self.node) {
            (Some(replica), Some(node)) => replica.step(node, self.now),
            _ => Ok(()),
        }
    }

    fn hear(&mut self, client: usize, heard: Heard, replicated: u64) -> Checked {
        self.trace.say(|| format!("  {client}: {heard:?}"));
        match heard {
            Heard::Confirmed { tag, multiple, is_kept } => {
                if is_kept {
                    self.confirmed_until = self.confirmed_until.max(replicated);
                }
                self.oracle.confirmed(client, tag, multiple, is_kept)
            }
            Heard::Delivered { tag, queue, is_again, id } => {
                self.held[client].push((tag, queue));
                self.oracle.delivered(client, tag, queue, is_again, id)
            }
            Heard::Empty => Ok(()),
            Heard::Broken(_) if self.is_ill => Ok(()),
            Heard::Broken(what) => Err(Violation::of(Rule::AnswersAreWhole, format!("client {client}: {what}"))),
        }
    }

    /// Everything that is owed is done, and whatever is in the queues is taken.
    fn finish(&mut self) -> Checked {
        self.replica.iter_mut().for_each(Replica::recover);
        for _ in 0..LAST_STEPS {
            self.pass(1000)?;
            self.work_due()?;
            self.turn()?;
        }
        self.oracle.check_answered()?;
        (0..CLIENTS).try_for_each(|client| self.connect(client, &[]))?;
        self.turn()?;
        for queue in [PLAIN, WORK, DEAD] {
            self.empty(queue)?;
        }
        self.oracle.check_all_given()
    }

    /// Has a client take all that a queue has.
    fn empty(&mut self, queue: usize) -> Checked {
        for _ in 0..MESSAGES_MAX {
            let before = self.held[0].len();
            self.clients[0].get(queue);
            self.turn()?;
            if self.held[0].len() == before {
                return Ok(());
            }
        }
        Err(Violation::of(Rule::MemoryIsBounded, format!("queue {queue} has no end")))
    }
}
