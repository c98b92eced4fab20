//! Clients as the world knows them: which connection is whose, and what goes with it.

use super::World;
use crate::client::Member;
use crate::connection::Connection;
use crate::oracle::{Checked, Rule, Violation};
use crate::roster::{AUDITOR, FIRST_MEMBER};

impl World {
    pub(super) fn member_on(&mut self, connection: usize) -> Option<&mut Member> {
        self.members.get_mut(connection.checked_sub(FIRST_MEMBER)?).filter(|_| connection < AUDITOR - 1)
    }

    pub(super) fn disconnect(&mut self, connection: usize) -> Checked {
        let fresh = Connection::open(self.node()?, connection, self.now);
        let fresh = fresh.map_err(|problem| Violation::of(Rule::AnswersAreWhole, problem))?;
        let old = std::mem::replace(&mut self.connections[connection], fresh);
        self.jobs.extend(old.close(self.now));
        self.forget_client(connection);
        Ok(())
    }

    /// What was asked on a connection that is gone is not answered any more.
    pub(super) fn forget_client(&mut self, connection: usize) {
        let gone = self.taken.extract_if(.., |(of, _), _| *of == connection);
        gone.for_each(|(_, taken)| self.oracle.unanswered(&taken, self.now.into()));
        self.lives[connection] += 1;
        if let Some(member) = self.member_on(connection) {
            member.reconnected();
        }
    }
}
