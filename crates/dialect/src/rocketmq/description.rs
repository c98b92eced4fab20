//! What heartbeats say of clients and groups that only RocketMQ's tools ask for. The broker keeps it for them.

use base::limits::GROUP_KINDS_SIZE_MAX;
use base::{GroupName, Refusal};
use broker::{Description, GroupSnapshot, Member};
use wire::rocketmq::frame::{Header, Language};

/// What a client is written in.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct ClientDescription {
    pub(super) language: Language,
    pub(super) version: i32,
}

impl ClientDescription {
    /// As the client's own request has it.
    pub(super) fn of_request(header: &Header<'_>) -> Description {
        Description::new(Self { language: header.language, version: header.version })
    }

    /// What a member's heartbeat said; no known language of one that speaks another protocol.
    pub(super) fn of(member: &Member) -> Self {
        member.description.read().copied().unwrap_or(Self { language: Language::OTHER, version: 0 })
    }
}

/// What a member is written in, and its version, for people.
pub fn client_kind(member: &Member) -> (&'static str, i32) {
    let client = ClientDescription::of(member);
    (client.language.name(), client.version)
}

/// How a group consumes, in the names its last heartbeat had.
#[derive(Clone, Default, PartialEq)]
pub(super) struct GroupDescription {
    pub(super) consume_type: String,
    pub(super) message_model: String,
    pub(super) consume_from_where: String,
}

impl GroupDescription {
    /// For the broker to keep.
    pub(super) fn checked(self, group: &GroupName) -> Result<Description, Refusal> {
        let size = self.consume_type.len() + self.message_model.len() + self.consume_from_where.len();
        if size > GROUP_KINDS_SIZE_MAX {
            return Err(Refusal::BadRequest(format!(
                "consumeType, messageModel and consumeFromWhere of the group [{group}] have {size} bytes; at most \
                 {GROUP_KINDS_SIZE_MAX} are allowed"
            )));
        }
        Ok(Description::new(self))
    }

    /// What the group's last heartbeat said; empty names for one that speaks another protocol.
    pub(super) fn of(group: &GroupSnapshot) -> Self {
        group.description.read().cloned().unwrap_or_default()
    }

    /// Whether each of the group's members gets every message.
    pub(super) fn is_broadcast(group: &GroupSnapshot) -> bool {
        group.description.read().is_some_and(|said: &Self| said.message_model == "BROADCASTING")
    }
}
