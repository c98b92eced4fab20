//! Topics and groups as administrators have set them.

use std::collections::BTreeMap;

use format::loose_json;

use super::promise::Kept;
use super::tried::Tried;
use super::{Checked, Rule, Stopped, check};
use crate::connection::Reply;
use crate::request::Asked;

/// Settings of a topic or group, of which one number is looked at; `None` while it is not there.
type Settings = Option<i64>;

/// All of them, by name.
#[derive(Debug, Default)]
pub(super) struct Documents {
    tried: BTreeMap<&'static str, Tried<Settings>>,
}

/// What a request is about, and what it would make of it.
fn change(asked: &Asked) -> Option<(&'static str, Settings)> {
    match *asked {
        Asked::PutTopic { topic, perm, .. } => Some((topic, Some(i64::from(perm)))),
        Asked::PutGroup { group, tries } => Some((group, Some(i64::from(tries)))),
        Asked::RemoveTopic(name) | Asked::RemoveGroup(name) => Some((name, None)),
        _ => None,
    }
}

impl Documents {
    fn of(&mut self, name: &'static str) -> &mut Tried<Settings> {
        self.tried.entry(name).or_insert_with(|| Tried::new(None))
    }

    pub(super) fn changes(&mut self, asked: &Asked, number: u64) {
        if let Some((name, settings)) = change(asked) {
            self.of(name).try_out(number, settings);
        }
    }

    pub(super) fn confirm(&mut self, asked: &Asked, number: u64, kept: Kept) {
        if let Some((name, _)) = change(asked) {
            let tried = self.of(name);
            // Administrators' requests are jobs of several threads: what was asked first need not be done first.
            tried.let_others_follow(number);
            tried.confirm(number, kept);
        }
    }

    pub(super) fn sure(&mut self, asked: &Asked) -> u64 {
        match asked {
            Asked::ReadTopic(name) | Asked::ReadGroup(name) => self.of(name).sure(),
            _ => 0,
        }
    }

    pub(super) fn read(&mut self, asked: &Asked, sure: u64, reply: &Reply) -> Checked {
        let (name, field) = match *asked {
            Asked::ReadTopic(name) => (name, "perm"),
            Asked::ReadGroup(name) => (name, "retryMaxTimes"),
            _ => return Ok(()),
        };
        let found = match reply.code {
            0 => loose_json::parse(&reply.body).ok().and_then(|body| body.get(field)?.as_i64()),
            17 | 26 => None,
            _ => return Ok(()),
        };
        let possible: Vec<_> = self.of(name).possible(sure).copied().collect();
        check(possible.contains(&found), Rule::AdminChangesHold, || {
            format!("{name} is {found:?}, and may be {possible:?}")
        })
    }

    pub(super) fn synced(&mut self) {
        self.tried.values_mut().for_each(Tried::note_synced);
    }

    pub(super) fn saved(&mut self) {
        self.tried.values_mut().for_each(Tried::note_saved);
    }

    pub(super) fn restarted(&mut self, how: Stopped) {
        self.tried.values_mut().for_each(|tried| tried.restart(how, Clone::clone));
    }
}
