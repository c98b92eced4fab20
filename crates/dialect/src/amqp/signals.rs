//! What others tell a connection: messages that are ready, queues that go, direct replies, work that is done.

use broker::Signal;

use super::channel::Channel;
use super::error::{Fault, code};
use super::link::Done;
use super::methods::channel_of;
use super::replies::Reply;
use super::session::AmqpSession;
use super::topology::Carried;

impl AmqpSession {
    /// Takes all signals.
    pub(super) fn take_signals(&mut self) {
        for signal in self.core.link.mailbox.take() {
            match signal {
                Signal::LeaseReady(number) | Signal::FetchReady(number) => self.core.ready.push_back(number),
                Signal::QueueGone(number) => {
                    if let Some(channel) = self.channels.get_mut(&channel_of(number)) {
                        self.core.dismiss(channel, number);
                    }
                }
                Signal::Dismissed(why) => self.dismiss(&why),
                Signal::Told(word) => {
                    let Some(reply) = word.read::<Reply>() else { continue };
                    let is_asker =
                        |channel: &&mut Channel| channel.replies.as_ref().is_some_and(|known| known.expects(reply));
                    if let Some(channel) = self.channels.values_mut().find(is_asker) {
                        self.core.deliver_reply(channel, reply);
                    }
                }
                Signal::GroupChanged(_) => {}
            }
        }
    }

    /// Takes what jobs have ready.
    pub(super) fn take_done(&mut self) {
        let done = self.core.link.jobs.take_done();
        if self.core.link.jobs.take_lost() > 0 {
            self.core.is_paused = false;
            self.fail(0, &Fault::new(code::INTERNAL_ERROR, "a piece of work has failed"));
        }
        for (_held, done) in done {
            match done {
                Done::Nothing => {}
                Done::Carried(carried) => self.take_carried(carried),
                Done::Read(read) => {
                    let number = read.channel;
                    let taken = self.core.take_read(self.channels.get_mut(&number), read);
                    taken.unwrap_or_else(|fault| self.fail(number, &fault));
                }
                Done::Streamed(read) => {
                    let number = read.asked.channel;
                    let taken = self.core.take_streamed(self.channels.get_mut(&number), *read);
                    taken.unwrap_or_else(|fault| self.fail(number, &fault));
                }
            }
        }
    }

    fn take_carried(&mut self, Carried { channel, result, last_queue }: Carried) {
        self.core.is_paused = false;
        if let Some(known) = self.channels.get_mut(&channel) {
            known.last_queue = last_queue;
        }
        match result {
            Ok(answer) => self.link().send_raw(&answer),
            Err(fault) => self.fail(channel, &fault),
        }
    }
}
