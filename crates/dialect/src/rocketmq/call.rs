//! One request that another connection's client is to answer.

use std::sync::Arc;

use base::Refusal;
use base::budget::Held;
use broker::Mailbox;
use bytes::Bytes;

/// The request, on its way there.
pub(super) struct Call {
    pub(super) code: i32,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Bytes,
    /// Who asks,
    pub(super) asker: Arc<Mailbox>,
    /// and how it knows the call.
    pub(super) number: u64,
    /// What it takes.
    #[expect(dead_code, reason = "it is given back when the call is dropped")]
    pub(super) held: Held,
}

/// A call with the message it is about, or its number and why it has none.
pub(super) type CallOutcome = Result<Call, (u64, Refusal)>;
