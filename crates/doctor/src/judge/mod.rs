//! What facts mean for a broker: no look at the machine, so that every row can be tested.

mod disk;
mod file_system;
mod kernel;
mod machine;
#[cfg(test)]
mod tests;

use super::facts::{Facts, Wants};
use super::finding::Finding;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Everything that is to be said.
pub fn judge(facts: &Facts, wants: &Wants) -> Vec<Finding> {
    let mut findings = kernel::judge(facts);
    findings.extend(machine::judge(facts, wants));
    findings.extend(facts.disks.iter().flat_map(|one| disk::judge(one, wants)));
    findings.extend(machine::ports(facts));
    findings
}

/// Bytes in words.
fn size(bytes: u64) -> String {
    match bytes {
        0..MIB => format!("{} KiB", bytes / KIB),
        MIB..GIB => format!("{} MiB", bytes / MIB),
        _ => format!("{:.1} GiB", bytes as f64 / GIB as f64),
    }
}

/// Microseconds in words.
fn time(us: u64) -> String {
    if us < 10_000 { format!("{us} us") } else { format!("{} ms", us / 1000) }
}
