//! Who of a group reads which queues: as RocketMQ's clients share them unless told otherwise (source: `AllocateMessageQueueAveragely`).
//!
//! Each member works it out by itself, of the same two lists in the same order.

/// The share of member `own` in `queues`, both in their order. Nothing if it is no member.
pub fn share_of<'q, Q>(own: &str, members: &[String], queues: &'q [Q]) -> &'q [Q] {
    let Some(index) = members.iter().position(|member| member == own) else { return &[] };
    let (count, rest) = (members.len(), queues.len() % members.len());
    let has_one_more = index < rest;
    let size = if queues.len() <= count { 1 } else { queues.len() / count + usize::from(has_one_more) };
    let begin = index * size + if has_one_more { 0 } else { rest };
    let begin = if queues.len() <= count { index } else { begin };
    let end = (begin + size).min(queues.len());
    queues.get(begin..end).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: usize) -> Vec<String> {
        (0..count).map(|member| format!("m{member:03}")).collect()
    }

    #[test]
    fn shares_are_those_of_java() {
        let (queues, members) = ((0..8).collect::<Vec<u32>>(), members(3));
        assert_eq!(share_of("m000", &members, &queues), [0, 1, 2]);
        assert_eq!(share_of("m001", &members, &queues), [3, 4, 5]);
        assert_eq!(share_of("m002", &members, &queues), [6, 7]);
        assert_eq!(share_of("stranger", &members, &queues), [0_u32; 0]);
    }

    #[test]
    fn every_queue_is_one_members() {
        for queue_count in 0..30_u32 {
            for member_count in 1..12 {
                let (queues, members) = ((0..queue_count).collect::<Vec<u32>>(), members(member_count));
                let all: Vec<u32> = members.iter().flat_map(|own| share_of(own, &members, &queues)).copied().collect();
                assert_eq!(all, queues, "{queue_count} queues, {member_count} members");
            }
        }
    }
}
