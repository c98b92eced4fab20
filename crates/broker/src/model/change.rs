//! Changes that clients and administrators ask for: each is in the log before it counts.

use std::sync::Arc;

use base::{Now, QueueNumber, Refusal};
use format::model::{BindingName, BoundTo, ExchangeState, HeaderPattern, HostLimits, ModelChange, RoutingKind, Text};
use parking_lot::MutexGuard;

use super::error::{ModelError, OtherExchange};
use super::followed::state_change;
use super::message_queue::{ConnectionNumber, MessageQueue, QueueWish};
use super::virtual_host::{BindingTarget, BindingWish, Table, VirtualHost};
use super::{Model, NUMBERS_AT_ONCE, Numbers};
use crate::error::refusal_of;
use crate::routing::{BindingSpec, Destination, ExchangeKind, ExchangeSettings, HeaderMode, HeaderRule, Removed};

/// What became of a queue that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Messages that were ready.
    pub ready: u64,
}

/// Conditions of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnlyIf {
    /// Nobody uses it.
    pub unused: bool,
    /// There are no messages.
    pub empty: bool,
}

impl Model {
    /// Has an exchange there. One that is there already must be the same.
    pub fn declare_exchange(
        &self,
        host: &VirtualHost,
        name: &[u8],
        settings: ExchangeSettings,
        now: Now,
    ) -> Result<(), ModelError> {
        let _changing = self.begin_change(host)?;
        if let Some(known) = host.table.read().router.exchange(name) {
            return same_exchange(known, &settings);
        }
        if settings.durable {
            self.propose(vec![ModelChange::Exchange(host.name().to_string(), name.into(), state_of(&settings))], now)?;
        }
        host.table.write().router.put_exchange(name, settings);
        host.note_change();
        Ok(())
    }

    /// Removes an exchange with its bindings; nothing happens if there is none.
    pub fn remove_exchange(
        &self,
        host: &VirtualHost,
        name: &[u8],
        if_unused: bool,
        now: Now,
    ) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        let mut table = host.table.write();
        if table.router.exchange(name).is_none() {
            return Ok(());
        }
        if if_unused && table.router.has_bindings(name) {
            let (what, why) = ("exchange", "in use");
            return Err(ModelError::InUse { what, host: host.name().clone(), name: name.into(), why });
        }
        let removed = table.router.remove_exchange(name);
        let changes = removal_changes(host, &table, &removed, None);
        drop(table);
        host.note_change();
        self.propose_removal(changes, now);
        Ok(())
    }

    /// Has a queue there. One that is there already must be the same, and may be used. Gives whether it was made.
    pub fn declare_queue(
        &self,
        host: &VirtualHost,
        wish: QueueWish,
        who: ConnectionNumber,
        now: Now,
    ) -> Result<(Arc<MessageQueue>, bool), ModelError> {
        let mut numbers = self.begin_change(host)?;
        let known = host.table.read().queues.get(&wish.name).cloned();
        if let Some(known) = known {
            same_queue(&known, &wish, who)?;
            known.note_used(now.monotonic);
            return Ok((known, false));
        }
        if let Some(most) = host.limits().queues_max.filter(|most| host.queue_count() >= *most as usize) {
            return Err(ModelError::TooManyQueues { host: host.name().clone(), name: wish.name, most });
        }
        let number = self.take_number(&mut numbers, now)?;
        let (owner, is_durable) = (wish.owner, wish.is_durable);
        let made = MessageQueue::open((number, host.name()), wish, &self.store, &self.lanes, now.monotonic)?;
        if is_durable {
            self.propose(vec![ModelChange::Queue(number.0, made.state())], now)?;
        }
        let made = Arc::new(made);
        if let Some(owner) = owner {
            self.owned.lock().entry(owner).or_default().push(made.clone());
        }
        self.timers.watch_use(&made);
        let mut table = host.table.write();
        table.queues.insert(made.name().into(), made.clone());
        table.by_number.insert(number, made.clone());
        drop(table);
        host.note_change();
        Ok((made, true))
    }

    fn take_number(&self, numbers: &mut Numbers, now: Now) -> Result<QueueNumber, Refusal> {
        if numbers.next >= numbers.below {
            let below = numbers.next.checked_add(NUMBERS_AT_ONCE);
            let below = below.ok_or_else(|| Refusal::Unavailable("all numbers of queues were given out".to_owned()))?;
            self.propose(vec![ModelChange::NumbersBelow(below)], now)?;
            numbers.below = below;
        }
        numbers.next += 1;
        Ok(QueueNumber(numbers.next - 1))
    }

    /// Removes a queue with its messages and bindings.
    pub fn remove_queue(
        &self,
        host: &VirtualHost,
        queue: &Arc<MessageQueue>,
        only_if: OnlyIf,
        now: Now,
    ) -> Result<Deleted, ModelError> {
        let _changing = self.changing.lock();
        let ready = queue.counts().ready;
        let in_use = |why| {
            let (what, host, name) = ("queue", host.name().clone(), queue.name().into());
            Err(ModelError::InUse { what, host, name, why })
        };
        if only_if.unused && queue.consumer_count() > 0 {
            return in_use("in use");
        }
        if only_if.empty && ready > 0 {
            return in_use("not empty");
        }
        let mut table = host.table.write();
        let is_known = table.by_number.get(&queue.number()).is_some_and(|known| Arc::ptr_eq(known, queue));
        if !is_known {
            return Ok(Deleted { ready: 0 });
        }
        let removed = table.router.remove_queue(queue.number());
        table.queues.remove(queue.name());
        table.by_number.remove(&queue.number());
        let mut changes = removal_changes(host, &table, &removed, Some(queue));
        drop(table);
        host.note_change();
        if queue.wish().is_durable {
            changes.push(ModelChange::QueueRemoved(queue.number().0));
        }
        self.propose_removal(changes, now);
        self.forget_queue(queue);
        Ok(Deleted { ready })
    }

    /// Has a binding there; nothing happens if it is.
    pub fn bind(
        &self,
        host: &VirtualHost,
        wish: BindingWish,
        who: ConnectionNumber,
        now: Now,
    ) -> Result<(), ModelError> {
        let _changing = self.begin_change(host)?;
        let spec = binding_spec(host, wish, who)?;
        let (is_durable, is_known) = {
            let table = host.table.read();
            (table.is_durable(&spec), table.router.binding(&spec).is_some())
        };
        if is_known {
            return Ok(());
        }
        if is_durable {
            let name = name_of(&spec);
            let pattern = spec.rule.as_ref().map(pattern_of);
            self.propose(vec![ModelChange::Binding(host.name().to_string(), name, pattern)], now)?;
        }
        host.table.write().router.bind(spec);
        host.note_change();
        Ok(())
    }

    /// Removes a binding; nothing happens if there is none.
    pub fn unbind(
        &self,
        host: &VirtualHost,
        wish: BindingWish,
        who: ConnectionNumber,
        now: Now,
    ) -> Result<(), ModelError> {
        let _changing = self.changing.lock();
        let spec = binding_spec(host, wish, who)?;
        let mut table = host.table.write();
        let Some(removed) = table.router.unbind(&spec) else { return Ok(()) };
        let changes = removal_changes(host, &table, &removed, None);
        drop(table);
        host.note_change();
        self.propose_removal(changes, now);
        Ok(())
    }

    /// Nobody else changes anything until what this gives goes. In a virtual host that was removed nothing is made any more.
    fn begin_change(&self, host: &VirtualHost) -> Result<MutexGuard<'_, Numbers>, ModelError> {
        let changing = self.changing.lock();
        if host.is_gone() { Err(ModelError::NoSuchHost(host.name().to_string())) } else { Ok(changing) }
    }

    pub(super) fn propose(&self, changes: Vec<ModelChange>, now: Now) -> Result<(), Refusal> {
        if changes.is_empty() {
            return Ok(());
        }
        let changes = changes.into_iter().map(state_change).collect();
        self.state.propose(changes, now).map(drop).map_err(refusal_of)
    }

    /// What was removed is gone, also where the log cannot take it now: it hears of it when it takes something again.
    fn propose_removal(&self, changes: Vec<ModelChange>, now: Now) {
        if changes.is_empty() {
            return;
        }
        let changes: Vec<_> = changes.into_iter().map(state_change).collect();
        if let Err(error) = self.state.propose(changes.clone(), now) {
            tracing::warn!(%error, "what was removed is told to the log later");
            self.state.defer(changes);
        }
    }
}

/// What the log is told of a removal, after which the table is as it is. `gone` is the queue that was removed.
fn removal_changes(
    host: &VirtualHost,
    table: &Table,
    removed: &Removed,
    gone: Option<&Arc<MessageQueue>>,
) -> Vec<ModelChange> {
    let is_durable_exchange = |name: &[u8]| {
        let gone = removed.exchanges.iter().find(|(gone, _)| **gone == *name).map(|(_, settings)| settings);
        gone.or_else(|| table.router.exchange(name)).is_some_and(|settings| settings.durable)
    };
    let is_durable_queue = |number: &QueueNumber| {
        let queue = gone.filter(|gone| gone.number() == *number).or_else(|| table.by_number.get(number));
        queue.is_some_and(|queue| queue.wish().is_durable)
    };
    let is_durable = |spec: &&BindingSpec| {
        is_durable_exchange(&spec.source)
            && match &spec.destination {
                Destination::Queue(number) => is_durable_queue(number),
                Destination::Exchange(name) => is_durable_exchange(name),
            }
    };
    let host = host.name().to_string();
    let bindings = removed.bindings.iter().filter(is_durable);
    let bindings = bindings.map(|spec| ModelChange::BindingRemoved(host.clone(), name_of(spec)));
    let exchanges = removed.exchanges.iter().filter(|(_, settings)| settings.durable);
    let exchanges = exchanges.map(|(name, _)| ModelChange::ExchangeRemoved(host.clone(), name.clone()));
    bindings.chain(exchanges).collect()
}

fn same_exchange(known: &ExchangeSettings, wanted: &ExchangeSettings) -> Result<(), ModelError> {
    // Other arguments are whatever the first has said.
    let of = |settings: &ExchangeSettings| ExchangeSettings { arguments: Text::default(), ..settings.clone() };
    if of(known) == of(wanted) {
        return Ok(());
    }
    Err(ModelError::OtherExchange(Box::new(OtherExchange { is_durable: known.durable, state: state_of(known) })))
}

fn same_queue(known: &Arc<MessageQueue>, wanted: &QueueWish, who: ConnectionNumber) -> Result<(), ModelError> {
    let is = known.wish();
    if is.owner.is_some_and(|owner| owner != who) || is.owner.is_some() != wanted.owner.is_some() {
        return Err(ModelError::Locked { host: known.host().clone(), name: known.name().into() });
    }
    let is_same =
        is.is_durable == wanted.is_durable && is.auto_delete == wanted.auto_delete && is.rules == wanted.rules;
    if is_same { Ok(()) } else { Err(ModelError::OtherQueue(known.clone())) }
}

/// The binding that is meant, between what is there.
fn binding_spec(host: &VirtualHost, wish: BindingWish, who: ConnectionNumber) -> Result<BindingSpec, ModelError> {
    let BindingWish { source, to, key, arguments, pattern } = wish;
    let destination = match to {
        BindingTarget::Queue(name) => Destination::Queue(host.queue(&name, who)?.number()),
        BindingTarget::Exchange(name) => {
            host.exchange(&name)?;
            Destination::Exchange(name)
        }
    };
    host.exchange(&source)?;
    Ok(BindingSpec { source, destination, key, arguments, rule: pattern.map(rule_of) })
}

fn name_of(spec: &BindingSpec) -> BindingName {
    let BindingSpec { source, destination, key, arguments, .. } = spec.clone();
    let to = match destination {
        Destination::Queue(number) => BoundTo::Queue(number.0),
        Destination::Exchange(name) => BoundTo::Exchange(name),
    };
    BindingName { source, to, key, arguments }
}

/// The binding that a change of state names.
pub(super) fn spec_of(name: BindingName, pattern: Option<HeaderPattern>) -> BindingSpec {
    let BindingName { source, to, key, arguments } = name;
    let destination = match to {
        BoundTo::Queue(number) => Destination::Queue(QueueNumber(number)),
        BoundTo::Exchange(name) => Destination::Exchange(name),
    };
    BindingSpec { source, destination, key, arguments, rule: pattern.map(rule_of) }
}

fn rule_of(HeaderPattern { any, with_x, wanted }: HeaderPattern) -> HeaderRule {
    HeaderRule { mode: if any { HeaderMode::Any } else { HeaderMode::All }, with_x, wanted }
}

fn pattern_of(rule: &HeaderRule) -> HeaderPattern {
    HeaderPattern { any: rule.mode == HeaderMode::Any, with_x: rule.with_x, wanted: rule.wanted.clone() }
}

/// An exchange as a change of state has it.
fn state_of(settings: &ExchangeSettings) -> ExchangeState {
    let ExchangeSettings { kind, auto_delete, internal, alternate, arguments, .. } = settings.clone();
    let kind = match kind {
        ExchangeKind::Direct => RoutingKind::Direct,
        ExchangeKind::Fanout => RoutingKind::Fanout,
        ExchangeKind::Topic => RoutingKind::Topic,
        ExchangeKind::Headers => RoutingKind::Headers,
    };
    ExchangeState { kind, auto_delete, internal, alternate, arguments }
}

/// A durable exchange from its change of state.
pub(super) fn settings_of(state: ExchangeState) -> ExchangeSettings {
    let ExchangeState { kind, auto_delete, internal, alternate, arguments } = state;
    ExchangeSettings { kind: kind_of(kind), durable: true, auto_delete, internal, alternate, arguments }
}

pub(super) const fn kind_of(kind: RoutingKind) -> ExchangeKind {
    match kind {
        RoutingKind::Direct => ExchangeKind::Direct,
        RoutingKind::Fanout => ExchangeKind::Fanout,
        RoutingKind::Topic => ExchangeKind::Topic,
        RoutingKind::Headers => ExchangeKind::Headers,
    }
}

/// All that is durable in a virtual host, as changes.
pub(super) fn changes_of(host: &VirtualHost, is_given: impl Fn(&[u8]) -> bool) -> Vec<ModelChange> {
    let (name, table) = (host.name().to_string(), host.table.read());
    let exchanges = table.router.exchanges().filter(|(exchange, settings)| settings.durable && !is_given(exchange));
    let exchanges =
        exchanges.map(|(exchange, settings)| ModelChange::Exchange(name.clone(), exchange.into(), state_of(settings)));
    let mut queues: Vec<_> = table.by_number.values().filter(|queue| queue.wish().is_durable).collect();
    queues.sort_unstable_by_key(|queue| queue.number());
    let queues = queues.into_iter().map(|queue| ModelChange::Queue(queue.number().0, queue.state()));
    let bindings = table.router.bindings().filter(|spec| table.is_durable(spec));
    let bindings =
        bindings.map(|spec| ModelChange::Binding(name.clone(), name_of(spec), spec.rule.as_ref().map(pattern_of)));
    let itself = ModelChange::Host(name.clone(), host.settings().clone());
    let limits = host.limits();
    let limits = (limits != HostLimits::default()).then(|| ModelChange::HostLimits(name.clone(), limits));
    std::iter::once(itself).chain(limits).chain(exchanges).chain(queues).chain(bindings).collect()
}
