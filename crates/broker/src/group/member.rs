//! Members: a client in one group by one connection. What one connection is in is bounded by the bytes it takes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::limits::{CLIENT_ID_SIZE_MAX, GROUP_MEMBERS_MAX, MEMBERSHIPS_SIZE_MAX};
use base::{Now, Refusal};

use crate::group::description::Description;
use crate::group::mailbox::Mailbox;

/// Bytes a membership takes besides what its client says: a table of its own, as most groups have one member by one connection.
const MEMBER_SIZE: usize = 2048;

/// One connected client.
#[derive(Clone, Debug)]
pub struct Member {
    /// Id the client gave itself.
    pub client_id: String,
    /// Where it is.
    pub address: SocketAddr,
    /// What else there is to say of it.
    pub description: Description,
    /// Its connection.
    pub mailbox: Arc<Mailbox>,
    /// Last heartbeat.
    pub seen: Now,
}

/// One of a connection's memberships, with the bytes it takes; they are free again when it is dropped.
pub(crate) struct Seat {
    mailbox: Arc<Mailbox>,
    size: usize,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.size)
    }
}

impl Seat {
    /// A seat of no size yet.
    pub(crate) const fn of(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox, size: 0 }
    }

    /// Whether it is `mailbox`'s.
    pub(crate) fn is_of(&self, mailbox: &Arc<Mailbox>) -> bool {
        Arc::ptr_eq(&self.mailbox, mailbox)
    }

    /// Takes `size` bytes instead of those it had, if its connection may have as many.
    pub(crate) fn resize(&mut self, size: usize) -> bool {
        let change =
            |all: usize| Some(all - self.size + size).filter(|&all| size <= self.size || all <= MEMBERSHIPS_SIZE_MAX);
        let is_changed = self.mailbox.seats_size.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok();
        if is_changed {
            self.size = size;
        }
        is_changed
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.mailbox.seats_size.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// A member with its seat.
#[derive(Debug)]
pub(crate) struct Seated {
    pub(crate) member: Member,
    pub(crate) seat: Seat,
}

/// The members of a group, by client id.
pub(crate) type Members = BTreeMap<String, Seated>;

pub(crate) fn check_client_id(member: &Member) -> Result<(), Refusal> {
    let size = member.client_id.len();
    if size > CLIENT_ID_SIZE_MAX {
        return Err(Refusal::BadRequest(format!(
            "the clientID is {size} bytes long; at most {CLIENT_ID_SIZE_MAX} are allowed"
        )));
    }
    Ok(())
}

/// Whether there is no room for a member that is not one yet.
pub(crate) fn is_full(members: &Members, member: &Member) -> bool {
    members.len() >= GROUP_MEMBERS_MAX && !members.contains_key(&member.client_id)
}

pub(crate) fn in_too_many() -> Refusal {
    Refusal::Busy(format!(
        "what this connection is in takes {MEMBERSHIPS_SIZE_MAX} bytes with its subscriptions: it gets into no more groups"
    ))
}

pub(crate) fn members_of(members: &Members) -> Vec<Member> {
    members.values().map(|seated| seated.member.clone()).collect()
}

/// Notes that a member is there; `false` if it is not one by this connection.
pub(crate) fn see_again(members: &mut Members, (client_id, mailbox): (&str, &Arc<Mailbox>), now: Now) -> bool {
    let known = members.get_mut(client_id).filter(|known| known.seat.is_of(mailbox));
    known.map(|known| known.member.seen = now).is_some()
}

/// Takes a member in, whose wants take so many bytes (`None`: as before). Gives whether the list of members changed, or `None` if its
/// connection has no room for it.
pub(crate) fn join(members: &mut Members, member: &Member, wanted_size: Option<usize>) -> Option<bool> {
    let size = MEMBER_SIZE + 2 * member.client_id.len() + wanted_size.unwrap_or_default();
    if let Some(known) = members.get_mut(&member.client_id)
        && known.seat.is_of(&member.mailbox)
    {
        let size = if wanted_size.is_none() { size.max(known.seat.size) } else { size };
        known.seat.resize(size).then_some(())?;
        known.member.description.clone_from(&member.description);
        known.member.seen = member.seen;
        return Some(false);
    }
    let mut seat = Seat::of(member.mailbox.clone());
    seat.resize(size).then_some(())?;
    members.insert(member.client_id.clone(), Seated { member: member.clone(), seat });
    Some(true)
}
