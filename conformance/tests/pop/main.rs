//! What users of RocketMQ 5's pop consumers are owed, through the official Java client 5.4.0: its push consumer, and its
//! single calls.
//!
//! Each promise is tried with Sluice, and with the official broker, to know what it does: `original` has a table of that.
//! Tests of a server share it, so more of them may run at once than there are processors: they wait more than they work.
//!
//! What befalls a broker (`kills`, `power_cuts`, `slaves`, `directories`) is tried with a Sluice of each test's own.
//!
//!     cargo test --release --package conformance --test pop -- --test-threads 8
//!     SLUICE_CONFORMANCE_ORIGINAL=1 cargo test --release --package conformance --test pop -- --test-threads 4 java::

mod asking;
mod case;
mod directories;
mod groups;
mod handles;
mod kills;
mod leases;
mod mortal;
mod order;
mod ordered_queue;
mod original;
mod power_cuts;
mod push;
mod slaves;

/// Each promise is a test of each server.
macro_rules! promises {
    ($($about:ident: $($promise:ident)*;)*) => {
        mod sluice {
            $($(
                #[test]
                fn $promise() {
                    crate::$about::$promise(conformance::pop::Kind::Sluice);
                }
            )*)*
        }

        mod java {
            $($(
                #[test]
                fn $promise() {
                    if conformance::tries_original() {
                        crate::$about::$promise(conformance::pop::Kind::Java);
                    } else {
                        println!("skipped: what the original does is told with SLUICE_CONFORMANCE_ORIGINAL=1");
                    }
                }
            )*)*
        }
    };
}

promises! {
    leases:
        what_is_not_acked_comes_again_after_its_invisible_time
        only_what_was_acked_is_done
        an_invisible_time_is_prolonged_from_the_moment_it_is_asked
        an_invisible_time_is_cut_short
        a_changed_message_is_acked_by_its_new_handle
        a_stale_handle_does_no_harm
        what_is_done_is_not_revived_by_a_late_change
        two_consumers_share_a_queue_without_giving_a_message_twice;
    handles:
        a_foreign_handle_does_no_harm
        a_forged_handle_does_no_harm
        nonsense_is_refused;
    asking:
        a_waiting_pop_is_answered_soon_after_a_send
        a_waiting_pop_is_answered_when_a_message_comes_again
        a_waiting_pop_without_messages_ends_in_its_time
        who_asks_whether_there_are_messages_is_told_soon_after_a_send
        only_the_tags_asked_for_are_given
        a_new_group_reads_a_young_queue_from_its_start_wherever_it_wants_to_begin
        what_cannot_be_popped_is_refused;
    order:
        the_next_messages_of_a_queue_come_once_those_before_are_acked
        who_asks_again_by_the_same_attempt_gets_the_same
        order_is_kept_while_a_consumer_dies
        what_was_acked_out_of_turn_is_done_and_the_rest_comes_first;
    groups:
        what_nobody_manages_to_consume_becomes_a_dead_letter
        an_operator_sees_how_far_a_group_is;
    push:
        several_consumers_get_each_message_once
        what_a_consumer_refuses_comes_again_later
        a_consumer_killed_in_the_middle_loses_nothing
        a_group_changes_from_pull_to_pop_and_back_without_loss
        an_orderly_listener_pulls_in_order_from_a_group_that_pops;
}
