//! One connection of a sender with its window.

use std::sync::Arc;

use client::link::Link;
use client::rocketmq::control::next_frame;
use client::rocketmq::unique_key::Stamp;
use wire::rocketmq::code::response::SUCCESS;

use crate::load::sender::{Answered, Appended, SendLane, SendStamp};
use crate::rocketmq::reply;
use crate::rocketmq::template::Template;
use crate::rocketmq::window::{OPAQUE_BASE, Settled, Window};

/// A connection with its window.
#[derive(Debug)]
pub struct RemotingLane {
    link: Link,
    /// Each send in flight with the counter in its id.
    window: Window<u16>,
    template: Arc<Template>,
    /// Number of the next send.
    next: usize,
    /// Whether nobody answers.
    one_way: bool,
}

impl RemotingLane {
    /// A lane whose first send has the number `first`: it says to which queue it goes. Without a window nobody answers.
    pub fn new(link: Link, window: Option<usize>, template: Arc<Template>, first: usize) -> Self {
        let one_way = window.is_none();
        Self { link, window: Window::new(window.unwrap_or(0)), template, next: first, one_way }
    }
}

impl SendStamp for Stamp {
    fn set_time(&mut self, wall_ms: u64, _now_ns: u64) {
        self.set_wall_time(wall_ms);
    }
}

impl SendLane for RemotingLane {
    type Stamp = Stamp;

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn takes_more(&mut self) -> bool {
        self.one_way || self.window.has_room()
    }

    fn append(&mut self, due_ns: u64, now_ns: u64, stamp: &mut Stamp) -> Option<Appended> {
        let id = stamp.next_numbers();
        let opaque = if self.one_way { OPAQUE_BASE } else { self.window.take(due_ns, now_ns, id.counter)? };
        let before = self.link.out().len();
        self.template.append(self.link.out(), self.next, opaque, stamp);
        self.next = self.next.wrapping_add(1);
        Some(Appended { bytes: (self.link.out().len() - before) as u64, id })
    }

    fn settle(&mut self, answered: &mut dyn FnMut(Answered<'_>)) {
        let Self { link, window, .. } = self;
        let mut problem = None;
        while let Some(frame) = next_frame(link) {
            match reply::head(frame) {
                Ok(Some(head)) => {
                    if let Some(Settled { due_ns, note: counter }) = window.settle(head.opaque as u32) {
                        let words = || reply::words_of(head.code, frame);
                        let refusal = (head.code != SUCCESS).then_some((head.code, &words as _));
                        answered(Answered { due_ns, counter, refusal });
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    problem = Some(format!("what it answers is not RocketMQ's protocol: {error}"));
                    break;
                }
            }
        }
        if let Some(problem) = problem {
            link.fail(problem);
        }
    }

    fn expire(&mut self, until_ns: u64, given_up: &mut dyn FnMut(u64)) {
        self.window.expire(until_ns, |request| given_up(request.due_ns));
    }

    fn in_flight(&self) -> usize {
        self.window.in_flight()
    }

    fn end(&mut self, is_overdue: bool) -> bool {
        !self.link.is_open() || (self.window.in_flight() == 0 && (is_overdue || self.link.is_flushed()))
    }
}
