//! What is to be known of a scenario's figures besides the figures: what went wrong, what differs from the field note, where the
//! generator or the machine may have been the limit. The page and the tables for documents say the same.

use crate::compare::comparison::{PeerResult, ScenarioResult, StepResult};
use crate::compare::peer::Peer;
use crate::load::table::grouped;

/// Pauses of the machine that are worth a word.
const PAUSE_MS: f64 = 10.0;

/// Slaves that lack something for longer than this after a load could not keep up with it.
const BEHIND_SECONDS: f64 = 0.5;

/// All of a scenario, as sentences.
pub fn remarks_of(scenario: &ScenarioResult) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for step in &scenario.steps {
        let remark = step.remark.map(|remark| sentence(&format!("Unlike the field note: {remark}")));
        remarks.extend(remark.filter(|remark| !remarks.contains(remark)));
        for (at, peer) in step.peers.iter().enumerate() {
            let who = format!("{}, {}", title_of(&peer.peer), step.label);
            let share = share_of_earlier(scenario, step, at);
            remarks.extend(share.into_iter().chain(notes(peer)).map(|note| sentence(&format!("{who}: {note}"))));
        }
    }
    let rounds = scenario.steps.iter().flat_map(|step| &step.peers).flat_map(|peer| &peer.rounds);
    let pause_ms = rounds.filter_map(|round| round.machine_pause_max_ms).fold(0.0, f64::max);
    if pause_ms > PAUSE_MS {
        remarks.push(format!(
            "The machine itself paused for up to {pause_ms:.0} ms: times of that length are not the brokers' alone."
        ));
    }
    remarks
}

/// Which part of its own rate in the step that this one is held against the broker reached.
fn share_of_earlier(scenario: &ScenarioResult, step: &StepResult, at: usize) -> Option<String> {
    let label = step.beside_step?;
    let earlier = scenario.steps.iter().find(|earlier| earlier.label == label)?;
    let rate_in = |step: &StepResult| Some(step.peers.get(at)?.typical()?.messages_per_second);
    let (rate, before) = (rate_in(step)?, rate_in(earlier)?);
    (before > 0.0).then(|| format!("{:.0} % of its own rate in \"{label}\"", rate * 100.0 / before))
}

/// A broker as people write it.
pub fn title_of(peer: &Peer) -> String {
    format!("{} {}", peer.kind.title(), peer.version)
}

/// With a full stop, unless it ends with a mark of its own.
pub fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}

/// What is to be known of a broker's rounds.
fn notes(peer: &PeerResult) -> Vec<String> {
    let mut notes = peer.problems();
    let read = peer.typical().and_then(|round| round.read_per_second);
    notes.extend(read.map(|rate| format!("{} messages a second were consumed meanwhile", grouped(rate))));
    if peer.warm_up.was_rising && !peer.rounds.is_empty() {
        let slices = peer.warm_up.speeds.len();
        notes.push(format!("it was still getting faster when its warm-up ended, after {slices} slices"));
    }
    if peer.is_rising() {
        notes.push("each round was faster than the one before: it may not have been warm".to_owned());
    }
    let behind = peer.rounds.iter().filter_map(|round| round.slaves_behind_seconds).fold(0.0, f64::max);
    if behind > BEHIND_SECONDS {
        notes.push(format!("its slaves had the last messages up to {behind:.1} s after the load"));
    }
    if peer.rounds.iter().any(|round| round.generator_was_limit) {
        notes.push("the load generator may have been the limit".to_owned());
    }
    let unsteady = peer.typical().filter(|round| round.is_unsteady()).and_then(|round| round.drift_percent);
    notes.extend(unsteady.map(|drift| format!("not steady, the second half was {drift:+.0} % beside the first")));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::example::{comparison, round};
    use crate::compare::measured::Measured;

    #[test]
    fn a_rate_is_held_against_that_of_the_same_broker_in_an_earlier_step() {
        let mut scenario = comparison().scenarios.remove(0);
        let (Some(first), Some(last)) = (scenario.steps.first().cloned(), scenario.steps.last_mut()) else { panic!() };
        last.beside_step = Some("fast");
        for (peer, (share, earlier)) in last.peers.iter_mut().zip([0.5, 0.95].into_iter().zip(&first.peers)) {
            let rate = earlier.typical().expect("a round").messages_per_second * share;
            peer.rounds = vec![Measured { read_per_second: Some(17_000.0), ..round(rate, 1.0) }];
        }
        let label = last.label.clone();
        assert_eq!(first.label, "fast");
        let told = remarks_of(&scenario);
        let of_last = |peer: &str| {
            let told = |words: &str| told.contains(&format!("{peer}, {label}: {words}."));
            told("17 000 messages a second were consumed meanwhile")
                && told(if peer.starts_with("Sluice") {
                    "50 % of its own rate in \"fast\""
                } else {
                    "95 % of its own rate in \"fast\""
                })
        };
        assert!(of_last("Sluice 0.1.0") && of_last("RocketMQ 5.4.0"), "{told:?}");
    }

    #[test]
    fn a_sentence_has_one_mark_at_its_end() {
        let said = ["does it keep up?", "it does", "It did. ", "no!"].map(sentence);
        assert_eq!(said, ["does it keep up?", "it does.", "It did.", "no!"]);
    }
}
