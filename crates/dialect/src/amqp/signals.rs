//! What others tell a connection: messages that are ready, queues that go, direct replies.

use broker::Signal;

use super::channel::Channel;
use super::methods::channel_of;
use super::replies::Reply;
use super::session::AmqpSession;

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
}
