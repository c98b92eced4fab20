//! What is to be known of a scenario's figures besides the figures: what went wrong, what differs from the field note, where the
//! generator or the machine may have been the limit. The page and the tables for documents say the same.

use crate::compare::comparison::{PeerResult, ScenarioResult};
use crate::compare::peer::Peer;

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
        for peer in &step.peers {
            let who = format!("{}, {}", title_of(&peer.peer), step.label);
            remarks.extend(notes(peer).into_iter().map(|note| sentence(&format!("{who}: {note}"))));
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

    #[test]
    fn a_sentence_has_one_mark_at_its_end() {
        let said = ["does it keep up?", "it does", "It did. ", "no!"].map(sentence);
        assert_eq!(said, ["does it keep up?", "it does.", "It did.", "no!"]);
    }
}
