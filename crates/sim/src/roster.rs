//! Who and what there is in every story: topics, groups, and the connections of clients.

/// Topics that clients send to. The last is removed and made again.
pub const TOPICS: [&str; 3] = ["orders", "payments", "brief"];
/// Topic that is removed and made again.
pub const BRIEF_TOPIC: &str = TOPICS[2];
/// Queues of each.
pub const QUEUES: u32 = 2;
/// A topic without messages, which administrators change.
pub const ADMIN_TOPIC: &str = "accounts";
/// A group without members, which administrators change.
pub const ADMIN_GROUP: &str = "auditing";
/// The group whose members share queues among themselves.
pub const GROUP: &str = "billing";
/// What it could not consume, and what it gave up.
pub const RETRY_TOPIC: &str = "%RETRY%billing";
/// See `RETRY_TOPIC`.
pub const DEAD_TOPIC: &str = "%DLQ%billing";
/// The group of who reads by itself.
pub const READERS: &str = "readers";
/// Groups whose members pop, and where their dead letters go.
pub const POP_GROUPS: [&str; 2] = ["picking", "packing"];
/// See `POP_GROUPS`.
pub const POP_DEAD_TOPICS: [&str; 2] = ["%DLQ%picking", "%DLQ%packing"];
/// Which of these groups each member is in.
pub const POPPERS: [usize; 3] = [0, 0, 1];
/// Members of the group.
pub const MEMBERS: [&str; 3] = ["member-1", "member-2", "member-3"];

/// Connections: two producers, a reader, the members, an administrator, who looks at everything in the end, and who pops.
pub const PRODUCERS: usize = 2;
/// See `PRODUCERS`.
pub const READER: usize = 2;
/// The first member's.
pub const FIRST_MEMBER: usize = 3;
/// The administrator's.
pub const ADMIN: usize = 6;
/// Who looks at everything.
pub const AUDITOR: usize = 7;
/// Those of stories in which nobody pops.
pub const EVERYDAY_CONNECTIONS: usize = 8;
/// The first of those that pop.
pub const FIRST_POPPER: usize = 8;
/// All of them.
pub const CONNECTIONS: usize = FIRST_POPPER + POPPERS.len();
