//! What one connection has in flight: a fixed table whose slot for a request is written in its opaque.
//!
//! ```text
//! opaque   bit 31: 0 | bit 30: 1 | generation | slot (as many bits as the window needs)
//! ```
//! The generation of a slot grows with every use, so a reply that comes after its request was given up finds nothing.
//! Bit 30 keeps every opaque at ten decimal digits: a JSON header has one length whatever the number.

/// Bit every opaque has.
pub const OPAQUE_BASE: u32 = 1 << 30;
/// The most that can be in flight on a connection: the opaque has bits for so many slots, and enough left for their generations.
pub const SLOTS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Slot<T> {
    /// The opaque in flight, or 0.
    opaque: u32,
    generation: u32,
    note: T,
    sent_ns: u64,
    due_ns: u64,
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled<T> {
    /// When it was due.
    pub due_ns: u64,
    /// What was noted of it when it was sent.
    pub note: T,
}

/// Requests in flight on one connection, each with a note of the sender's. It takes memory for as many as were ever in flight at once.
#[derive(Debug)]
pub struct Window<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    size: usize,
    slot_bits: u32,
}

impl<T: Copy + Default> Window<T> {
    /// Room for `size` requests, at most `SLOTS_MAX`.
    pub fn new(size: usize) -> Self {
        let size = size.min(SLOTS_MAX);
        Self { slots: Vec::new(), free: Vec::new(), size, slot_bits: size.next_power_of_two().trailing_zeros() }
    }

    /// Requests in flight.
    pub const fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is room for one more.
    pub const fn has_room(&self) -> bool {
        self.in_flight() < self.size
    }

    /// A slot for one more request, due at `due_ns` and sent at `sent_ns`: its opaque.
    pub fn take(&mut self, due_ns: u64, sent_ns: u64, note: T) -> Option<u32> {
        let index = self.free_slot()?;
        let generation_mask = (OPAQUE_BASE - 1) >> self.slot_bits;
        let slot = self.slots.get_mut(index as usize)?;
        slot.generation = (slot.generation + 1) & generation_mask;
        slot.opaque = OPAQUE_BASE | slot.generation << self.slot_bits | index;
        (slot.due_ns, slot.sent_ns, slot.note) = (due_ns, sent_ns, note);
        Some(slot.opaque)
    }

    fn free_slot(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = u32::try_from(self.slots.len()).ok().filter(|_| self.slots.len() < self.size)?;
        self.slots.push(Slot::default());
        Some(index)
    }

    /// Ends the request a reply names; `None` if no such request is in flight.
    pub fn settle(&mut self, opaque: u32) -> Option<Settled<T>> {
        let index = opaque & ((1 << self.slot_bits) - 1);
        let slot = self.slots.get_mut(index as usize).filter(|slot| slot.opaque == opaque && opaque != 0)?;
        slot.opaque = 0;
        self.free.push(index);
        Some(Settled { due_ns: slot.due_ns, note: slot.note })
    }

    /// Gives up requests sent at or before `until_ns`; calls `given_up` with each.
    pub fn expire(&mut self, until_ns: u64, mut given_up: impl FnMut(Settled<T>)) {
        for (index, slot) in (0..).zip(&mut self.slots) {
            if slot.opaque != 0 && slot.sent_ns <= until_ns {
                slot.opaque = 0;
                self.free.push(index);
                given_up(Settled { due_ns: slot.due_ns, note: slot.note });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_used_once_and_comes_back_in_any_order() {
        let mut window = Window::<u16>::new(5);
        let opaques: Vec<u32> = (0..5).map(|n| window.take(n, n, 0).expect("room")).collect();
        assert_eq!((window.in_flight(), window.take(9, 9, 0)), (5, None));
        for at in [3, 0, 4, 1, 2] {
            assert_eq!(window.settle(opaques[at]).map(|settled| settled.due_ns), Some(at as u64));
            assert_eq!(window.settle(opaques[at]), None, "a second reply finds nothing");
        }
        assert_eq!(window.in_flight(), 0);
        assert!(opaques.iter().all(|opaque| opaque.to_string().len() == 10));
    }

    #[test]
    fn a_late_reply_does_not_end_the_slots_next_request() {
        let mut window = Window::<u16>::new(1);
        let first = window.take(1, 10, 0).expect("room");
        let mut given_up = Vec::new();
        window.expire(9, |request| given_up.push(request.due_ns));
        assert!(given_up.is_empty());
        window.expire(10, |request| given_up.push(request.due_ns));
        assert_eq!((given_up, window.in_flight()), (vec![1], 0));
        let second = window.take(2, 20, 7).expect("room");
        assert_ne!(first, second);
        assert_eq!((window.settle(first), window.settle(second)), (None, Some(Settled { due_ns: 2, note: 7 })));
    }

    #[test]
    fn opaques_that_were_never_given_out_find_nothing() {
        let mut window = Window::<u16>::new(3);
        window.take(0, 0, 0).expect("room");
        for opaque in [0, 1, 3, OPAQUE_BASE, u32::MAX, OPAQUE_BASE | 3] {
            assert_eq!(window.settle(opaque), None);
        }
    }

    #[test]
    fn generations_wrap_without_leaving_ten_digits() {
        let mut window = Window::<u16>::new(1 << 16);
        for _ in 0..(1 << 16) {
            let opaque = window.take(0, 0, 0).expect("room");
            assert!((OPAQUE_BASE..1 << 31).contains(&opaque));
            assert!(window.settle(opaque).is_some());
        }
    }
}
