//! N4: sizes from small to a megabyte.

use super::{Load, Scale, Scenario, Step, sends};
use crate::options::SendOptions;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "big-messages",
    sentence: "Bodies of 256 B, 512 B, 1 KB, 4 KB, 64 KB and 1 MB, each by itself",
    source: "N4",
    steps,
};

/// Bytes in flight stay the same, and with them the memory both sides need.
const IN_FLIGHT: usize = 4 * 1024 * 1024;

fn steps(scale: Scale) -> Vec<Step> {
    [256, 512, 1024, 4096, 65_536, 1_048_576]
        .map(|size: usize| {
            let window = (IN_FLIGHT / 4 / size).clamp(1, 256);
            let label = if size < 1024 { format!("{size} B") } else { format!("{} KB", size / 1024) };
            Step::new(label, Load::Send(SendOptions { window, ..sends(scale, size) }))
        })
        .into()
}
