//! Pulls: read at once if there is something, else wait for the queue or the deadline.

use std::borrow::Cow;
use std::task::Waker;
use std::time::Duration;

use base::limits::{OUTPUT_BACKLOG_SIZE_MAX, WAITING_FETCHES_PER_CONNECTION_MAX};
use base::session::CloseReason;
use base::{GroupName, Monotonic, Now, QueueId, Refusal};
use broker::{Fetch, FetchStatus, Fetched, Filter};
use format::record;
use wire::rocketmq::code::response;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{self, Command};
use wire::rocketmq::header::{PullRequest, PullResponse, pull_flag};

use super::answer::{Asked, header, response_header};
use super::session::{Done, RocketSession};
use super::subscription::check_expression_type;

/// Longest wait a client may ask for: its own limit for an answer is 30 s, idle connections are closed after 120 s.
const WAIT_MS_MAX: u64 = 60_000;

/// Bytes that a pull from the disk usually gives. As many as a connection may have jobs are within its bound.
const COLD_FETCH_SIZE: usize = OUTPUT_BACKLOG_SIZE_MAX / 64;

/// Bytes of a pull that waits, with its places in tables, beside its filter.
const WAITING_PULL_SIZE: usize = 512;

/// Bytes that the waiting pulls of a connection take at most: as many as it may have, with usual filters.
const WAITING_PULLS_SIZE_MAX: usize = 2 * WAITING_PULL_SIZE * WAITING_FETCHES_PER_CONNECTION_MAX;

/// The broker a client reads from: there is only this one.
const MASTER_ID: i64 = 0;

/// A pull, as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    asked: Asked,
    fetch: Fetch,
    /// Offset it began at: what lies between was looked at and did not match.
    began_at: i64,
    /// Until when it may wait; `None` if it may not.
    wait_until: Option<Monotonic>,
    /// Whether it has waited for messages.
    has_waited: bool,
}

/// A pull that waits for messages.
pub(super) struct WaitingPull {
    pull: Pull,
    deadline: Monotonic,
    /// What its queue wakes.
    watcher: Waker,
}

impl WaitingPull {
    /// About what it takes in memory.
    fn size(&self) -> usize {
        WAITING_PULL_SIZE + self.pull.fetch.filter.size()
    }

    /// Forgets the queue, which has not woken it: an idle one would keep it for ever.
    fn stop_watching(&self) {
        if let Ok(queue) = self.pull.fetch.topic.queue(self.pull.fetch.queue) {
            queue.unwatch(&self.watcher);
        }
    }
}

/// A pull that went to the disk.
pub(super) struct PullOutcome {
    pull: Pull,
    /// When it went there.
    since: Monotonic,
    result: Result<Fetched, Refusal>,
}

impl RocketSession {
    pub(super) fn pull(&mut self, command: &Command<'_>, asked: Asked, now: Now) -> Result<(), CloseReason> {
        match self.prepare_pull(command, asked, now) {
            Ok(Some(pull)) => self.try_pull(pull, now),
            Ok(None) => {}
            Err(refusal) => self.refuse(asked, &refusal),
        }
        Ok(())
    }

    /// Checks a pull and takes what it commits. `None` if it was answered already.
    fn prepare_pull(&mut self, command: &Command<'_>, asked: Asked, now: Now) -> Result<Option<Pull>, Refusal> {
        self.check_room()?;
        let request: PullRequest<'_> = header(command)?;
        let broker = &self.broker;
        let group = GroupName::checked(&request.consumer_group)?;
        let settings = broker.group_for_use(&group, now)?;
        if !settings.consume_enable {
            return Err(Refusal::NotPermitted(format!("subscription group no permission, {group}")));
        }
        let topic = broker.catalog().topic(&request.topic);
        let topic = topic.ok_or_else(|| Refusal::NoSuchTopic(request.topic.to_string()))?;
        let queue = u32::try_from(request.queue_id).ok().map(QueueId);
        let queue = queue.filter(|queue| topic.queue(*queue).is_ok());
        let queue = queue.ok_or_else(|| {
            Refusal::no_such_queue(&request.topic, i64::from(request.queue_id), topic.queues.len() as u32)
        })?;
        let filter = self.filter_of(&request, &settings)?;
        if request.system_flag & pull_flag::COMMIT_OFFSET != 0 {
            self.broker.commit_offset(&request.topic, group.as_str(), queue, request.commit_offset)?;
        }
        if let Some(offset) = self.broker.take_reset(&request.topic, group.as_str(), queue) {
            let known = topic.queue(queue)?;
            let (first, end) = (known.first().0 as i64, known.end().0 as i64);
            self.answer_pull(asked, response::PULL_OFFSET_MOVED, offset, first, end);
            return Ok(None);
        }
        let may_wait = request.system_flag & pull_flag::SUSPEND != 0 && request.suspend_timeout_ms > 0;
        let wait_ms = if self.options.long_polling {
            u64::try_from(request.suspend_timeout_ms).unwrap_or_default().min(WAIT_MS_MAX)
        } else {
            self.options.short_poll_ms
        };
        let size_max =
            request.max_message_bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|&bytes| bytes > 0);
        let count_max = usize::try_from(request.max_message_count).unwrap_or_default().max(1);
        let fetch = Fetch {
            topic,
            queue,
            group,
            offset: request.queue_offset,
            count_max: count_max.min(self.options.fetch_count_max),
            size_max: size_max.unwrap_or(usize::MAX).min(self.options.fetch_size_max),
            filter,
        };
        let wait_until = may_wait.then(|| now.monotonic.plus_ms(wait_ms));
        Ok(Some(Pull { asked, began_at: fetch.offset, fetch, wait_until, has_waited: false }))
    }

    /// The filter in the request, or the one the group's heartbeat registered.
    fn filter_of(&self, request: &PullRequest<'_>, group: &format::document::GroupDocument) -> Result<Filter, Refusal> {
        if request.system_flag & pull_flag::CLASS_FILTER != 0 {
            return Err(Refusal::NotSupported("Sluice does not filter by uploaded classes".to_owned()));
        }
        check_expression_type(request.expression_type.as_ref())?;
        if request.system_flag & pull_flag::SUBSCRIPTION != 0 {
            return Filter::parse(request.subscription.as_deref().unwrap_or_default());
        }
        let subscription = self.broker.subscription(&request.consumer_group, &request.topic)?;
        if !group.consume_broadcast_enable
            && self.broker.group_snapshot(&group.group_name).is_some_and(|g| g.message_model == "BROADCASTING")
        {
            return Err(Refusal::NotPermitted(format!(
                "the consumer group[{}] can not consume by broadcast way",
                group.group_name
            )));
        }
        if subscription.version < request.sub_version {
            return Err(Refusal::StaleSubscription { group: request.consumer_group.to_string() });
        }
        check_expression_type(Some(&Cow::Borrowed(&*subscription.expression_type)))?;
        Ok(subscription.filter.clone())
    }

    /// Reads from memory; goes to the disk by a job, waits, or answers.
    fn try_pull(&mut self, pull: Pull, now: Now) {
        match self.broker.fetch_cached(&pull.fetch) {
            Ok(Some(fetched)) => self.settle_pull(pull, fetched, now),
            Ok(None) => {
                let broker = self.broker.clone();
                self.run_job(COLD_FETCH_SIZE.min(pull.fetch.size_max), move || {
                    let result = broker.fetch(&pull.fetch);
                    Done::Pull(Box::new(PullOutcome { pull, since: now.monotonic, result }))
                });
            }
            Err(refusal) => self.refuse(pull.asked, &refusal),
        }
    }

    pub(super) fn finish_pull(&mut self, outcome: PullOutcome, now: Now) {
        match outcome.result {
            Ok(fetched) => {
                let took_ms = now.monotonic.ms_since(outcome.since);
                self.broker.timings().cold_fetch.record(Duration::from_millis(took_ms), 1);
                self.settle_pull(outcome.pull, fetched, now);
            }
            Err(refusal) => self.refuse(outcome.pull.asked, &refusal),
        }
    }

    fn settle_pull(&mut self, mut pull: Pull, fetched: Fetched, now: Now) {
        let (first, end) = (fetched.first.0 as i64, fetched.end.0 as i64);
        let next = fetched.next.0 as i64;
        self.fetched.note(&self.broker, &pull.fetch, fetched.next);
        match fetched.status {
            FetchStatus::Found => {
                if pull.has_waited {
                    self.note_delivery(&fetched, now);
                }
                self.answer_found(&pull, fetched);
            }
            FetchStatus::OffsetOutside => self.answer_pull(pull.asked, response::PULL_OFFSET_MOVED, next, first, end),
            FetchStatus::NoMatch if next < end => {
                // More to look at: let the client come back rather than hold this thread.
                self.answer_pull(pull.asked, response::PULL_RETRY_IMMEDIATELY, next, first, end);
            }
            FetchStatus::NoMatch | FetchStatus::AtEnd => {
                pull.fetch.offset = next;
                match pull.wait_until.filter(|&until| until > now.monotonic) {
                    Some(deadline) => self.hold_pull(pull, deadline, now),
                    None => self.answer_nothing(&pull, first, end),
                }
            }
        }
    }

    /// Notes how long ago what a waiting consumer gets was stored.
    fn note_delivery(&self, fetched: &Fetched, now: Now) {
        if let Some(stored) = fetched.pieces.first().and_then(|piece| record::store_timestamp_of(piece)) {
            let took = Duration::from_millis(now.wall.ms_since(stored));
            self.broker.timings().delivery.record(took, fetched.count as u64);
        }
    }

    /// Keeps a pull until its queue grows. Whoever came in between is seen by looking again after registering.
    fn hold_pull(&mut self, pull: Pull, deadline: Monotonic, now: Now) {
        if self.waiting_pulls.len() >= WAITING_FETCHES_PER_CONNECTION_MAX {
            let refusal = Refusal::Busy(format!(
                "this connection has {WAITING_FETCHES_PER_CONNECTION_MAX} pulls waiting already"
            ));
            self.refuse(pull.asked, &refusal);
            return;
        }
        let Ok(queue) = pull.fetch.topic.queue(pull.fetch.queue).cloned() else { return };
        let (offset, group) = (pull.fetch.offset, pull.fetch.group.clone());
        self.next_pull += 1;
        let number = self.next_pull;
        let pull = Pull { has_waited: true, ..pull };
        let waiting = WaitingPull { pull, deadline, watcher: self.mailbox.fetch_waker(number) };
        if self.waiting_size + waiting.size() > WAITING_PULLS_SIZE_MAX {
            let refusal =
                Refusal::Busy("the filters of this connection's waiting pulls are too long together".to_owned());
            return self.refuse(waiting.pull.asked, &refusal);
        }
        self.waiting_size += waiting.size();
        queue.watch(waiting.watcher.clone());
        self.waiting_pulls.insert(number, waiting);
        self.pull_deadlines.insert((deadline, number));
        self.broker.metrics().fetch_waiting.add(1);
        if queue.end().0 as i64 > offset || self.broker.has_reset(queue.topic().as_str(), group.as_str(), queue.id()) {
            self.resume_pull(number, now);
        }
    }

    fn take_waiting(&mut self, number: u64) -> Option<WaitingPull> {
        let waiting = self.waiting_pulls.remove(&number)?;
        self.pull_deadlines.remove(&(waiting.deadline, number));
        self.waiting_size -= waiting.size();
        self.broker.metrics().fetch_waiting.subtract(1);
        Some(waiting)
    }

    fn resume_pull(&mut self, number: u64, now: Now) {
        let Some(WaitingPull { pull, .. }) = self.take_waiting(number) else { return };
        match self.take_reset_of(&pull.fetch) {
            Some((offset, first, end)) => {
                self.answer_pull(pull.asked, response::PULL_OFFSET_MOVED, offset, first, end);
            }
            None => self.try_pull(pull, now),
        }
    }

    /// Takes the reset that waits for who pulls, if there is one: its offset, and the bounds of the queue.
    fn take_reset_of(&self, fetch: &Fetch) -> Option<(i64, i64, i64)> {
        let offset = self.broker.take_reset(fetch.topic.name.as_str(), fetch.group.as_str(), fetch.queue)?;
        let (first, end) = fetch.topic.queue(fetch.queue).map_or((0, 0), |queue| (queue.first().0, queue.end().0));
        Some((offset, first as i64, end as i64))
    }

    /// Goes on with pulls that are ready, as long as there is room for their answers. One batch may make all of them ready.
    pub(super) fn resume_ready_pulls(&mut self, now: Now) {
        while self.has_room_for_answers()
            && let Some(number) = self.ready_pulls.pop_front()
        {
            // A number may be there twice, or of a pull that was answered: that one is no longer waiting.
            self.resume_pull(number, now);
        }
    }

    /// Pulls whose time is over are ready for their answer.
    pub(super) fn expire_pulls(&mut self, now: Now) {
        while let Some(&(deadline, number)) = self.pull_deadlines.first()
            && deadline <= now.monotonic
        {
            self.pull_deadlines.pop_first();
            if let Some(waiting) = self.waiting_pulls.get_mut(&number) {
                waiting.stop_watching();
                // A last look: whatever it finds is the answer.
                waiting.pull.wait_until = None;
                self.ready_pulls.push_back(number);
            }
        }
    }

    /// The connection is gone.
    pub(super) fn drop_waiting_pulls(&mut self) {
        self.broker.metrics().fetch_waiting.subtract(self.waiting_pulls.len() as u64);
        self.waiting_pulls.drain().for_each(|(_, waiting)| waiting.stop_watching());
        self.pull_deadlines.clear();
        self.ready_pulls.clear();
    }

    fn answer_nothing(&mut self, pull: &Pull, first: i64, end: i64) {
        let has_moved = pull.fetch.offset != pull.began_at;
        let code = if has_moved { response::PULL_RETRY_IMMEDIATELY } else { response::PULL_NOT_FOUND };
        self.answer_pull(pull.asked, code, pull.fetch.offset, first, end);
    }

    fn answer_found(&mut self, pull: &Pull, fetched: Fetched) {
        if pull.asked.one_way {
            return;
        }
        let header = pull_header(fetched.next.0 as i64, fetched.first.0 as i64, fetched.end.0 as i64);
        let fixed = response_header(pull.asked.opaque, response::SUCCESS, Some("FOUND"));
        frame::encode_head(&mut self.scratch, pull.asked.form, &fixed, |sink| header.encode(sink), fetched.size);
        self.output.push(self.scratch.split().freeze());
        for piece in fetched.pieces {
            self.output.push(piece);
        }
    }

    fn answer_pull(&mut self, asked: Asked, code: i32, next: i64, first: i64, end: i64) {
        if asked.one_way {
            return;
        }
        let header = pull_header(next, first, end);
        let fixed = response_header(asked.opaque, code, Some(response::name(code)));
        frame::encode(&mut self.scratch, asked.form, &fixed, |sink| header.encode(sink), &[]);
        self.output.push(self.scratch.split().freeze());
    }
}

fn pull_header(next: i64, first: i64, end: i64) -> PullResponse<'static> {
    PullResponse {
        suggest_which_broker_id: MASTER_ID,
        next_begin_offset: next,
        min_offset: first,
        max_offset: end,
        lifetime: std::marker::PhantomData,
    }
}
