//! What the threads of a run have done so far, for whoever watches. Threads add to it once a round, not once a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Shared by all threads of a run.
#[derive(Debug, Default)]
pub struct Live {
    messages: AtomicU64,
    measured: AtomicU64,
    refused: AtomicU64,
    in_flight: AtomicI64,
    latency_count: AtomicU64,
    latency_sum_ns: AtomicU64,
    latency_max_ns: AtomicU64,
    stop: Arc<AtomicBool>,
}

/// What one thread has done since it last told.
#[derive(Debug, Default)]
pub struct Beat {
    /// Messages done.
    pub messages: u64,
    /// Those of them that were measured.
    pub measured: u64,
    /// Requests refused.
    pub refused: u64,
    /// Latencies measured, their sum and their largest.
    pub latency_count: u64,
    /// Sum of latencies.
    pub latency_sum_ns: u64,
    /// Largest latency.
    pub latency_max_ns: u64,
    in_flight_told: i64,
}

impl Beat {
    /// Counts `count` messages of this latency.
    pub fn latency(&mut self, latency_ns: u64, count: u64) {
        self.latency_count += count;
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(latency_ns.saturating_mul(count));
        self.latency_max_ns = self.latency_max_ns.max(latency_ns);
    }
}

/// What all threads did since it was last taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Messages done.
    pub messages: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Mean latency, if any was measured.
    pub latency_mean_ns: Option<u64>,
    /// Largest latency.
    pub latency_max_ns: u64,
}

impl Live {
    /// Counts for itself, and stops with this one.
    pub fn beside(&self) -> Self {
        Self { stop: self.stop.clone(), ..Self::default() }
    }

    /// Adds a thread's beat, which starts over.
    pub fn add(&self, beat: &mut Beat, in_flight: usize) {
        let in_flight = i64::try_from(in_flight).unwrap_or(i64::MAX);
        self.messages.fetch_add(beat.messages, Relaxed);
        self.measured.fetch_add(beat.measured, Relaxed);
        self.refused.fetch_add(beat.refused, Relaxed);
        self.in_flight.fetch_add(in_flight - beat.in_flight_told, Relaxed);
        self.latency_count.fetch_add(beat.latency_count, Relaxed);
        self.latency_sum_ns.fetch_add(beat.latency_sum_ns, Relaxed);
        self.latency_max_ns.fetch_max(beat.latency_max_ns, Relaxed);
        *beat = Beat { in_flight_told: in_flight, ..Beat::default() };
    }

    /// What was done since the last call.
    pub fn take(&self) -> Taken {
        let sum_ns = self.latency_sum_ns.swap(0, Relaxed);
        Taken {
            messages: self.messages.swap(0, Relaxed),
            refused: self.refused.swap(0, Relaxed),
            in_flight: u64::try_from(self.in_flight.load(Relaxed)).unwrap_or(0),
            latency_mean_ns: sum_ns.checked_div(self.latency_count.swap(0, Relaxed)),
            latency_max_ns: self.latency_max_ns.swap(0, Relaxed),
        }
    }

    /// Messages measured so far.
    pub fn measured(&self) -> u64 {
        self.measured.load(Relaxed)
    }

    /// Tells every thread to finish.
    pub fn request_stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether the threads shall finish.
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_of_threads_add_up_and_start_over() {
        let live = Live::default();
        let (mut one, mut two) = (Beat::default(), Beat::default());
        one.messages = 5;
        one.latency(10, 1);
        live.add(&mut one, 7);
        two.messages = 3;
        two.latency(40, 2);
        live.add(&mut two, 2);
        live.add(&mut one, 4);
        let taken = live.take();
        assert_eq!(
            (taken.messages, taken.in_flight, taken.latency_mean_ns, taken.latency_max_ns),
            (8, 6, Some(30), 40)
        );
        let taken = live.take();
        assert_eq!((taken.messages, taken.in_flight, taken.latency_mean_ns, taken.latency_max_ns), (0, 6, None, 0));
    }
}
