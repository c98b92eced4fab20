//! How the broker asks its surroundings for work.

/// Whose threads do the work: the server's, or those of a test.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// Something was staged: the log has to be written.
    fn log_changed(&self);
    /// This many wait for a sync.
    fn sync_wanted(&self, waiting: usize);
    /// Name servers have to hear of this broker anew: topics were made or changed, or its group has other members.
    fn registration_changed(&self);
    /// Some name server has to be asked where the queues of a topic are.
    fn route_wanted(&self) {}
    /// Waits until the name servers know of all topics, as far as they can be reached and answer soon.
    fn wait_until_announced(&self) {}
}
