//! The start of a broker: its store, its parts in the order of what each needs, and what a start has to make up for.

use std::sync::Arc;

use base::metric::Timings;
use base::refused::RefusedRequests;
use base::{Now, QueueId, QueueOffset, TopicName};
use format::model_tables::ModelTables;
use format::state_tables::LeaseTable;
use parking_lot::Mutex;
use storage::{Recovery, RecoveryProgress, StorageError, Store};

use super::{Broker, Surroundings};
use crate::catalog::Catalog;
use crate::copies::Copies;
use crate::cursor::fetched::FetchedTable;
use crate::cursor::lanes::Lanes;
use crate::cursor::offset::Offsets;
use crate::durability::Durability;
use crate::export::Exports;
use crate::fetch::Fetcher;
use crate::following::Following;
use crate::group::Groups;
use crate::group::lock::Locks;
use crate::leasing::Leasing;
use crate::lookup::Lookup;
use crate::model::{Model, ModelParts};
use crate::options::Options;
use crate::parked::delay::Delay;
use crate::parked::delivery::Delivery;
use crate::publish::Publisher;
use crate::removal::Removals;
use crate::request_modes::RequestModes;
use crate::retention::Retention;
use crate::retry::Retries;
use crate::routes::Routes;
use crate::running::{Running, RunningOptions};
use crate::snapshots::Snapshots;
use crate::state::{OpenedState, SettledOffsets, StateLog, StateTables};

impl Broker {
    /// Opens the store and the broker over it. `seed` drives what is random (the queue of messages that name none). Waits for the disk.
    pub fn open(
        options: Options,
        store: storage::Options,
        surroundings: Surroundings,
        now: Now,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        let (mut opened, store, recovery) =
            OpenedState::open_with_store(store, surroundings.metrics.clone(), progress)?;
        let with_messages = store.topics();
        let foreign = opened.let_foreign_win(|topic| with_messages.contains_key(&TopicName::trusted(topic)));
        let mut known = (opened.tables.clone(), opened.offsets_version);
        let (has_snapshot, may_lack_users) = (opened.has_snapshot, opened.may_lack_users);
        let mut settled = std::mem::take(&mut opened.settled);
        let is_promoted = settled.begin(store.follows()) && !store.follows();
        let store = Arc::new(store);
        let state = StateLog::new(store.clone(), surroundings.host.clone(), options.store_host, opened);
        if !foreign.is_empty() {
            tracing::info!(
                changes = foreign.len(),
                "topics, groups or offsets were written by another broker; they are taken over"
            );
            state.propose_at_start(foreign, now)?;
        }
        take_up_settled(settled, &state, &mut known.0, now)?;
        let broker = Self::over(Arc::new(state), known, Arc::new(options), surroundings, now)?;
        if broker.model.is_used() || !broker.model.queue_numbers().is_empty() {
            tell_no_room("the folder of message queues", broker.store.make_message_queue_folder())?;
        }
        // A slave stopped in good order does not know what its master handed out last.
        if !recovery.was_clean || is_promoted {
            broker.model.doubt_deliveries();
        }
        if !broker.follows() {
            broker.catalog.make_system_topics(now);
            let salt = (broker.random() as u32).to_be_bytes();
            if let Err(refusal) = broker.model.begin(salt, !may_lack_users, now) {
                tracing::error!(%refusal, "the first virtual host and user cannot be made; the next start tries again");
            }
        }
        // Before the first message comes: one that gets an offset which a group had passed would be skipped after the next crash.
        tell_no_room("topics, groups and offsets", broker.save(now))?;
        if !has_snapshot && !broker.follows() {
            // Documents do not tell of leases, and where they are all there is, the log is read no further back than they tell.
            tell_no_room("the snapshot of the state", broker.checkpoint(now))?;
        }
        Ok((broker, recovery))
    }

    /// The parts, each with those it needs.
    fn over(
        state: Arc<StateLog>,
        (tables, version): (StateTables, i64),
        options: Arc<Options>,
        Surroundings { metrics, host, seed }: Surroundings,
        now: Now,
    ) -> Result<Self, StorageError> {
        let store = state.store().clone();
        let running = Arc::new(Running::new(&RunningOptions::from(&*options)));
        let durability = Arc::new(Durability::new(store.clone(), host.clone(), &options));
        let StateTables { offsets, delay, mut leases, request_modes, model, .. } = tables.clone();
        if !store.follows() {
            forget_removed(&mut leases, &model);
        }
        let settings = (&options, &running);
        let catalog = Arc::new(Catalog::open(tables, state.clone(), host.clone(), settings, metrics.clone(), now)?);
        let (locks, fetched) = (Arc::<Locks>::default(), Arc::<FetchedTable>::default());
        let groups = Arc::new(Groups::new(catalog.clone(), locks.clone(), options.client_expiry_ms));
        let lanes = Arc::new(Lanes::open(leases, |topic, queue| end_of_lane(&store, &catalog, topic, QueueId(queue))));
        let parts = (&catalog, &groups, &fetched, &lanes);
        let offsets = Arc::new(Offsets::open((offsets, version), parts, &state, options.young_queue_size));
        let delay = Arc::new(Delay::open(&delay, &state, now)?);
        let request_modes = Arc::new(RequestModes::open(request_modes, &state));
        let (routes, timings) = (Routes::new(&host), Arc::<Timings>::default());
        let publisher = Arc::new(Publisher::new(
            state.clone(),
            catalog.clone(),
            delay.clone(),
            host,
            settings,
            metrics.clone(),
            seed,
        ));
        let retries = Arc::new(Retries::new(&publisher, &catalog, &store, &metrics));
        let parts = ModelParts { state: &state, publisher: &publisher, lanes: &lanes, metrics: &metrics };
        let model = Arc::new(Model::open(model, options.model.clone(), &parts, now)?);
        let tables = (&catalog, &offsets, &delay, &request_modes);
        Ok(Self {
            fetcher: Fetcher::new(&store, settings, &metrics),
            lookup: Lookup::new(&store),
            delivery: Delivery::new(&delay, &publisher, &catalog, &durability, &store, &metrics, &timings),
            leasing: Leasing::new(&store, settings, &metrics, &retries),
            retries,
            copies: Copies::new(Fetcher::new(&store, settings, &metrics), &publisher, &catalog, &offsets),
            removals: Removals::new(&catalog, &offsets, &durability, &state, &store),
            retention: Retention::new(&catalog, &model, &lanes, &options),
            snapshots: Snapshots::new(&store, &catalog, &offsets, &fetched, &groups, &metrics),
            following: Following::new(&state, tables, (&lanes, &model), options.ack_policy.durable),
            exports: Exports::new(&state, tables, options.ack_policy.durable),
            durability,
            catalog,
            groups,
            locks,
            offsets,
            lanes,
            fetched,
            request_modes,
            model,
            routes,
            publisher,
            delay,
            options,
            running,
            store,
            state,
            metrics,
            timings,
            refused: RefusedRequests::default(),
            random: Mutex::new(rand::SeedableRng::seed_from_u64(seed)),
            started: now,
        })
    }
}

/// A start goes on without room on the disk, to serve what there is.
fn tell_no_room(what: &str, written: Result<(), StorageError>) -> Result<(), StorageError> {
    match written {
        Err(error) if error.is_disk_full() => {
            tracing::error!(%error, "{what} cannot be written for lack of room; it is tried again");
            Ok(())
        }
        written => written,
    }
}

/// What was settled at a slave, and what its master's log tells does not reach or undo, counts. A master has nobody to tell it to.
fn take_up_settled(
    mut settled: SettledOffsets,
    state: &StateLog,
    tables: &mut StateTables,
    now: Now,
) -> Result<(), StorageError> {
    settled.retain(|of, _, _| {
        of.split_once('@').is_some_and(|(topic, _)| tables.topics.topic_config_table.contains_key(topic))
    });
    let changes = tables.offset_changes_to(&settled.laid_over(tables.offsets.clone()));
    changes.iter().for_each(|change| tables.apply(change.clone()));
    if !state.store().follows() {
        state.propose_at_start(changes, now)?;
        settled.retain(|_, _, _| false);
    }
    *state.settled().lock() = settled;
    Ok(())
}

/// What was settled in message queues that are there no more is nobody's: the log may tell of their removal alone.
fn forget_removed(leases: &mut LeaseTable, model: &ModelTables) {
    leases.retain(|of, _| {
        let queue = of.split_once('@').and_then(|(topic, _)| TopicName::trusted(topic).message_queue());
        queue.is_none_or(|number| model.queues.contains_key(&number.0))
    });
}

/// Where the queue of a lane ends. `None`: it is gone, or a slave's, whose log may not be as far yet as its master's tables.
fn end_of_lane(store: &Store, catalog: &Catalog, topic: &str, queue: QueueId) -> Option<QueueOffset> {
    if store.follows() {
        return None;
    }
    let name = TopicName::trusted(topic);
    if name.message_queue().is_some() {
        return Some(store.queue(&name, queue).end());
    }
    catalog.end_of(topic, queue)
}
