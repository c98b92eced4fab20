//! How the queues of a topic are divided among the members of a group, where the broker does it and not each member: the two ways
//! that Java brokers offer, with the same results, so that it is no matter which broker of a cluster is asked.
//!
//! Pure: queues and members are numbers, in the order in which every broker has them.

use format::request_mode::RequestMode;

/// A way of dividing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Queues that follow each other go to one member.
    Averagely,
    /// They are dealt out like cards.
    ByCircle,
}

/// What a member gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allocated {
    /// These of the queues, in rising order.
    Queues(Vec<usize>),
    /// Whatever queue of each broker has something.
    AnyOfEachBroker,
}

impl Strategy {
    /// The strategy that clients call so.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "AVG" => Some(Self::Averagely),
            "AVG_BY_CIRCLE" => Some(Self::ByCircle),
            _ => None,
        }
    }

    /// Adds the queues of one of `members` members.
    fn share_of(self, member: usize, members: usize, queues: usize, into: &mut Vec<usize>) {
        match self {
            Self::Averagely => {
                let (each, more) = (queues / members, queues % members);
                // The first members get one more.
                let (count, start) =
                    if member < more { (each + 1, member * (each + 1)) } else { (each, member * each + more) };
                into.extend(start..start + count);
            }
            Self::ByCircle => into.extend((member..queues).step_by(members)),
        }
    }
}

/// What `member` of `members` gets of `queues`; `None` where nothing can be said, and it keeps what it has. Who is no member gets nothing.
/// `shared` counts with `Pop` the other members whose queues it gets too; 0 and below are all.
pub(super) fn allocate(
    strategy: Strategy,
    (mode, shared): (RequestMode, i32),
    member: Option<usize>,
    members: usize,
    queues: usize,
) -> Option<Allocated> {
    let others = members.saturating_sub(1);
    let shared = usize::try_from(shared).unwrap_or_default();
    if mode == RequestMode::Pop && (shared == 0 || shared >= others) {
        return Some(Allocated::AnyOfEachBroker);
    }
    if queues == 0 || members == 0 {
        return None;
    }
    let mut allocated = Vec::new();
    match (mode, member) {
        (_, None) => {}
        (RequestMode::Pull, Some(member)) => strategy.share_of(member, members, queues, &mut allocated),
        (RequestMode::Pop, Some(member)) if members <= queues => {
            (member..=member + shared)
                .for_each(|next| strategy.share_of(next % members, members, queues, &mut allocated));
            allocated.sort_unstable();
        }
        // None goes without a queue.
        (RequestMode::Pop, Some(member)) => allocated.push(member % queues),
    }
    Some(Allocated::Queues(allocated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use RequestMode::{Pop, Pull};
    use Strategy::{Averagely, ByCircle};

    /// A way to ask, a way to divide, numbers of queues and members; and what each member gets.
    type Row = ((RequestMode, i32), Strategy, usize, usize, &'static [&'static [usize]]);

    /// As `QueryAssignmentProcessor` of 5.4.0 answered it, run with these.
    const OF_JAVA: &[Row] = &[
        ((Pull, 0), Averagely, 8, 3, &[&[0, 1, 2], &[3, 4, 5], &[6, 7]]),
        ((Pull, 0), Averagely, 3, 3, &[&[0], &[1], &[2]]),
        ((Pull, 0), Averagely, 2, 4, &[&[0], &[1], &[], &[]]),
        ((Pull, 0), Averagely, 7, 2, &[&[0, 1, 2, 3], &[4, 5, 6]]),
        ((Pull, 0), Averagely, 1, 1, &[&[0]]),
        ((Pop, 1), Averagely, 8, 3, &[&[0, 1, 2, 3, 4, 5], &[3, 4, 5, 6, 7], &[0, 1, 2, 6, 7]]),
        ((Pop, 1), Averagely, 3, 3, &[&[0, 1], &[1, 2], &[0, 2]]),
        ((Pop, 1), Averagely, 2, 4, &[&[0], &[1], &[0], &[1]]),
        ((Pop, 2), Averagely, 2, 4, &[&[0], &[1], &[0], &[1]]),
        ((Pull, 0), ByCircle, 8, 3, &[&[0, 3, 6], &[1, 4, 7], &[2, 5]]),
        ((Pull, 0), ByCircle, 2, 4, &[&[0], &[1], &[], &[]]),
        ((Pull, 0), ByCircle, 7, 2, &[&[0, 2, 4, 6], &[1, 3, 5]]),
        ((Pop, 1), ByCircle, 8, 3, &[&[0, 1, 3, 4, 6, 7], &[1, 2, 4, 5, 7], &[0, 2, 3, 5, 6]]),
        ((Pop, 1), ByCircle, 3, 3, &[&[0, 1], &[1, 2], &[0, 2]]),
        ((Pop, 2), ByCircle, 2, 4, &[&[0], &[1], &[0], &[1]]),
    ];

    #[test]
    fn each_member_gets_what_a_java_broker_would_give_it() {
        for &(asking, strategy, queues, members, shares) in OF_JAVA {
            let at = format!("{strategy:?} {asking:?}: {queues} queues, {members} members");
            for (member, share) in shares.iter().enumerate() {
                let allocated = allocate(strategy, asking, Some(member), members, queues);
                assert_eq!(allocated, Some(Allocated::Queues(share.to_vec())), "{at}, member {member}");
            }
            assert_eq!(
                allocate(strategy, asking, None, members, queues),
                Some(Allocated::Queues(vec![])),
                "{at}, another"
            );
        }
    }

    /// So it is in Java also for who is no member, and for a topic without queues.
    #[test]
    fn who_shares_with_everybody_asks_for_any_queue() {
        for (shared, members) in [(-1, 3), (0, 3), (2, 3), (3, 3), (1, 2), (1, 1), (1, 0)] {
            for member in [Some(0), None] {
                for queues in [0, 8] {
                    let allocated = allocate(Averagely, (Pop, shared), member, members, queues);
                    assert_eq!(allocated, Some(Allocated::AnyOfEachBroker), "{shared} of {members}, {queues} queues");
                }
            }
        }
    }

    #[test]
    fn without_queues_or_members_nothing_can_be_said() {
        assert_eq!(allocate(Averagely, (Pull, 0), Some(0), 1, 0), None);
        assert_eq!(allocate(ByCircle, (Pull, 0), None, 0, 4), None);
        assert_eq!(allocate(Averagely, (Pop, 1), Some(0), 3, 0), None);
    }

    #[test]
    fn every_queue_has_one_member_whatever_their_numbers() {
        for strategy in [Averagely, ByCircle] {
            for (queues, members) in (1..20).flat_map(|queues| (1..20).map(move |members| (queues, members))) {
                let of = |member| match allocate(strategy, (Pull, 0), Some(member), members, queues) {
                    Some(Allocated::Queues(queues)) => queues,
                    other => panic!("{other:?}"),
                };
                let mut all: Vec<_> = (0..members).flat_map(of).collect();
                all.sort_unstable();
                assert_eq!(all, (0..queues).collect::<Vec<_>>(), "{strategy:?}: {queues} queues, {members} members");
            }
        }
    }

    #[test]
    fn strategies_that_only_clients_have_are_unknown() {
        assert_eq!((Strategy::named("AVG"), Strategy::named("AVG_BY_CIRCLE")), (Some(Averagely), Some(ByCircle)));
        for name in ["", "avg", "CONSISTENT_HASH", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY", "CONFIG"] {
            assert_eq!(Strategy::named(name), None, "{name}");
        }
    }
}
