//! The contract between a connection's bytes and their meaning.
//!
//! A session takes bytes with `now` and gives output; it never sees a socket, a task or a clock. The server drives it:
//! `receive` when bytes came, `wake` when its mailbox woke it or its deadline passed, `take_job` after either, and
//! `closed` once at the end.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use crate::budget::Budget;
use crate::time::{Monotonic, Now};

/// Work that may wait for a disk. The server runs it away from the network threads; its result comes back as a wake-up.
pub type Job = Box<dyn FnOnce() + Send>;

/// Why a connection must be closed; the text goes to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason(pub String);

/// Who a peer has proven to be, by a certificate that was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The whole name, as RFC 4514 writes it.
    pub distinguished_name: String,
    /// Of that the common name; several with commas between them.
    pub common_name: Option<String>,
}

/// One connection of one protocol.
pub trait Session: Send {
    /// Takes complete frames off the front of `input` and acts on them, as long as there is room for their answers. What
    /// stays is offered again: an incomplete frame with the bytes that follow, others once `wants_input` is true again, or
    /// at once if it `has_paused`.
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason>;

    /// Goes on with what was waiting: watermarks that passed, messages that arrived, jobs that ended, deadlines.
    fn wake(&mut self, now: Now);

    /// Bytes to be written to the peer.
    fn output(&mut self) -> &mut Output;

    /// When `wake` is due even if nobody wakes it.
    fn deadline(&self) -> Option<Monotonic>;

    /// Whether more bytes may be read: `false` is back-pressure.
    fn wants_input(&self) -> bool;

    /// Bytes it holds: answers not written yet, requests that wait. What its jobs hold they count themselves.
    fn held_size(&self) -> usize;

    /// The size of the frame that `input` begins with, once that is known; else 0.
    fn frame_size(&self, _input: &[u8]) -> usize {
        0
    }

    /// What it shares with all other connections. Called once, before anything else.
    fn share(&mut self, _budget: Arc<Budget>) {}

    /// The connection is encrypted, and this is who the peer has proven to be. Called before any byte is received.
    fn proven(&mut self, _subject: Subject) {}

    /// The peer's bytes are not read for now, for want of memory: what it has sent is not known.
    fn note_unread(&mut self, _now: Monotonic) {}

    /// How long the connection may be without a byte transferred while only the peer can move it on, ms; `None`: for ever.
    fn idle_timeout_ms(&self) -> Option<u64>;

    /// Whether requests are still waiting for an answer.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether it keeps input that it took and does not want yet: `receive` is called for it, as for what stayed in `input`.
    fn holds_input(&self) -> bool {
        false
    }

    /// Whether it stopped within its input for its answers to be written first: `receive` is called again at once for what stayed.
    fn has_paused(&self) -> bool {
        false
    }

    /// Why it is to be closed although no bytes came, as after a deadline. Asked after every call.
    fn close_reason(&self) -> Option<CloseReason> {
        None
    }

    /// Whether the conversation has ended in good order: the connection is closed once all output is written.
    fn is_over(&self) -> bool {
        false
    }

    /// Copies what of its output is shared with the log, since the peer takes it slowly.
    fn detach_output(&mut self) {
        self.output().detach();
    }

    /// The connection is about to be closed in good order: its last bytes go to `output`.
    fn finish(&mut self) {}

    /// Work to be run away from the network threads.
    fn take_job(&mut self) -> Option<Job> {
        None
    }

    /// The connection is gone. What takes a while is a job, as ever.
    fn closed(&mut self, _now: Now) {}
}

/// Bytes on their way out, in pieces that are shared with the log rather than copied.
#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<Bytes>,
    size: usize,
    /// Bytes at the front that are shared with nobody.
    own_size: usize,
}

impl Output {
    /// Adds bytes at the end.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.size += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Bytes not yet written.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Whether everything was written.
    pub const fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Fills `slices` with the next pieces for a vectored write; returns how many.
    pub fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let count = slices.len().min(self.pieces.len());
        for (slot, piece) in slices.iter_mut().zip(&self.pieces) {
            *slot = IoSlice::new(piece);
        }
        count
    }

    /// Drops the first `count` bytes: they were written.
    pub fn advance(&mut self, mut count: usize) {
        debug_assert!(count <= self.size);
        self.size -= count;
        self.own_size = self.own_size.saturating_sub(count);
        while count > 0 {
            let Some(front) = self.pieces.front_mut() else { return };
            if front.len() > count {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.pieces.pop_front();
        }
    }

    /// Copies what is shared. A piece keeps the whole block of the log in memory that it is part of: that does no harm for as long as
    /// it takes to write it, but a peer that takes nothing would keep a hundred times of what it is counted for.
    pub fn detach(&mut self) {
        let mut own_size = 0;
        let own = self.pieces.iter().take_while(|piece| {
            own_size += piece.len();
            own_size <= self.own_size
        });
        let own = own.count();
        let shared = self.pieces.split_off(own);
        if !shared.is_empty() {
            self.pieces.push_back(shared.iter().map(Bytes::as_ref).collect::<Vec<_>>().concat().into());
        }
        self.own_size = self.size;
    }

    /// Takes everything, as tests and the simulator do.
    pub fn take_all(&mut self) -> Vec<u8> {
        (self.size, self.own_size) = (0, 0);
        self.pieces.drain(..).fold(Vec::new(), |mut all, piece| {
            all.extend_from_slice(&piece);
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_does_not_take_keeps_no_block_in_memory() {
        let block = Bytes::from(vec![7; 1 << 20]);
        let mut output = Output::default();
        output.push(block.slice(10..20));
        output.detach();
        output.push(block.slice(30..32));
        output.advance(4);
        output.detach();
        assert!(block.is_unique());
        output.detach();
        output.push(Bytes::from_static(b"end"));
        assert_eq!(output.size(), 11);
        assert_eq!(output.take_all(), [&[7; 8][..], b"end"].concat());
    }
}
