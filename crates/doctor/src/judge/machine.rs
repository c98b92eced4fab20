//! Open files, memory, processors, clock and ports.

use base::limits::FILES_OF_STORE;

use super::super::facts::{Clock, Facts, Memory, OpenFiles, Port, PortState, Processor, Wants};
use super::super::finding::{Finding, Mark};
use super::{GIB, size, time};

/// With fewer files a broker cannot even start.
const FILES_MIN: u64 = 64;
/// Percent of its time that the host may take away: from the first bound on it is worth knowing, from the second it hurts.
const STEAL_NOTED: u64 = 2;
const STEAL_LARGE: u64 = 5;
/// Sources of time that are read without a system call.
const QUICK_SOURCES: &[&str] =
    &["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];
/// How far a clock may be off, in microseconds, before people notice.
const CLOCK_ERROR_MAX: u64 = 1_000_000;

pub fn judge(facts: &Facts, wants: &Wants) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(facts.open_files.map(|limits| open_files(limits, wants)));
    findings.extend(memory(&facts.memory, wants));
    findings.extend(processors(&facts.processor));
    findings.extend(clock(&facts.clock));
    findings
}

fn open_files(limits: OpenFiles, wants: &Wants) -> Finding {
    let text = |limit: u64| if limit >= i64::MAX as u64 { "unlimited".to_owned() } else { limit.to_string() };
    let wanted = wants.connections_max + FILES_OF_STORE;
    let for_connections = limits.hard.saturating_sub(FILES_OF_STORE).max(limits.hard / 2);
    let meaning = format!(
        "RocketMQ needed 1000000. Sluice raises its own limit to the hard one and needs a file for each connection and \
         each queue in use: this is enough for about {} connections (server.connections_max is {}).",
        for_connections.min(wants.connections_max),
        wants.connections_max
    );
    let found = format!("{}, may raise to {}", text(limits.soft), text(limits.hard));
    let finding = Finding::ok("open files", found, meaning);
    let remedy = format!("ulimit -Hn {}  (systemd: LimitNOFILE={})", wanted.max(1_000_000), wanted.max(1_000_000));
    match limits.hard {
        hard if hard >= wanted => finding,
        hard if hard >= FILES_OF_STORE => finding.but(Mark::Note, remedy),
        hard if hard >= FILES_MIN => finding.but(Mark::Warn, remedy),
        _ => finding.but(Mark::Fail, remedy),
    }
}

fn memory(memory: &Memory, wants: &Wants) -> Option<Finding> {
    let total = memory.total?;
    let usable = memory.group_limit.unwrap_or(total).min(memory.available.unwrap_or(total));
    let limit = memory.group_limit.map(|limit| format!(", limited to {}", size(limit))).unwrap_or_default();
    let found = format!("{}, {} available{limit}", size(total), size(memory.available.unwrap_or(total)));
    let meaning = format!(
        "RocketMQ had a heap of gigabytes and needed the rest as page cache. With these settings Sluice takes up to {} and \
         what connections hold; the rest is page cache, which serves consumers that are behind.",
        size(wants.memory)
    );
    let finding = Finding::ok("memory", found, meaning);
    let remedy = "make storage.tail_cache_size smaller, or give the machine more memory";
    Some(match usable {
        usable if usable < wants.memory => finding.but(Mark::Warn, remedy),
        usable if usable < wants.memory + GIB => finding.but(Mark::Note, remedy),
        _ => finding,
    })
}

fn processors(processor: &Processor) -> Vec<Finding> {
    let load = processor.load.map(|load| format!(", load {load:.2}")).unwrap_or_default();
    let meaning = "A network thread a core; the log has a thread of its own, which shares with them. What others use of the \
                   cores now makes the measurements below worse than they are.";
    let count = Finding::ok("processors", format!("{}{load}", processor.count), meaning);
    let is_busy = processor.load.is_some_and(|load| load > processor.count as f64 / 2.0);
    let mut findings = vec![if processor.count < 2 || is_busy { count.noted() } else { count }];
    let meaning = "A processor that saves power answers a single sender later; under load it makes no difference.";
    if let Some(governor) = &processor.governor {
        let driver = processor.frequency_driver.as_deref().unwrap_or_default();
        let finding = Finding::ok("frequency governor", format!("{governor} {driver}").trim_end(), meaning);
        // These drivers choose the frequency themselves; their powersave is what others call on demand.
        let drives_itself = driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate");
        let is_slow = matches!(governor.as_str(), "powersave" | "conservative") && !drives_itself;
        findings.push(if is_slow { finding.but(Mark::Note, "cpupower frequency-set -g performance") } else { finding });
    }
    if let Some(steal) = processor.steal_percent {
        let meaning = "Time the host gave to others while this machine wanted it; it shows as late answers here.";
        let finding = Finding::ok("stolen time", format!("{steal} %"), meaning);
        let remedy = "move the machine to a host that is less busy, or ask for dedicated processors";
        findings.push(match steal {
            0..STEAL_NOTED => finding,
            STEAL_NOTED..STEAL_LARGE => finding.but(Mark::Note, remedy),
            _ => finding.but(Mark::Warn, remedy),
        });
    }
    findings
}

fn clock(clock: &Clock) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(source) = &clock.source {
        let meaning = "The clock is read at least once for every read of a connection; with a slow source each look is a system call.";
        let finding = Finding::ok("clock source", source, meaning);
        let remedy =
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource  (if it is offered there)";
        let is_quick = QUICK_SOURCES.contains(&source.as_str());
        findings.push(if is_quick { finding } else { finding.but(Mark::Note, remedy) });
    }
    if let Some(is_synchronised) = clock.is_synchronised {
        let meaning = "Delayed messages, retention and look-ups by time go by it: a jump moves them. The order of messages does \
                       not depend on it.";
        let error = clock.error_us_max.map(|us| format!(", off by {} at most", time(us))).unwrap_or_default();
        let remedy = "systemctl enable --now chronyd  (or systemd-timesyncd; in a container, on its host)";
        findings.push(match (is_synchronised, clock.error_us_max) {
            (true, Some(us)) if us > CLOCK_ERROR_MAX => {
                Finding::ok("clock", format!("synchronised{error}"), meaning).but(Mark::Note, "chronyc tracking")
            }
            (true, _) => Finding::ok("clock", format!("synchronised{error}"), meaning),
            (false, _) => Finding::ok("clock", "nobody keeps it in step", meaning).but(Mark::Warn, remedy),
        });
    }
    findings
}

/// What became of opening the ports. Where a process has the data directory already, its ports are expected to be taken.
pub fn ports(facts: &Facts) -> Vec<Finding> {
    let runs_already = facts.disks.iter().any(|disk| disk.held_by.is_some());
    facts.ports.iter().map(|one| port(one, runs_already)).collect()
}

fn port(port: &Port, runs_already: bool) -> Finding {
    let Port { setting, host, port: number, is_optional, state } = port;
    let meaning = match (is_optional, runs_already) {
        (true, _) => "Clients of RocketMQ 4.4 and before send here; the broker works without it.",
        (false, true) => "The broker that has the data directory open is likely the one that has this port.",
        (false, false) => "A broker that cannot open it does not start.",
    };
    let address = format!("{host}:{number}");
    let (subject, show) = (format!("port {number}"), format!("ss -ltnp 'sport = :{number}'"));
    let hurts = match (is_optional, runs_already) {
        (false, false) => Mark::Fail,
        _ => Mark::Note,
    };
    let change = if *is_optional { String::new() } else { format!("  (or choose another with --set {setting}=PORT)") };
    match state {
        PortState::Free if *number == 0 => Finding::ok(format!("port of {setting}"), "any that is free", meaning),
        PortState::Free => Finding::ok(subject, format!("{address} is free"), meaning),
        PortState::InUse => Finding::ok(subject, format!("{address} is in use"), meaning).but(hurts, show + &change),
        PortState::Refused(problem) => {
            let remedy = format!(
                "check listen.host and {setting}: {address} must be an address of this machine, open to this user"
            );
            Finding::ok(subject, format!("{address}: {problem}"), meaning).but(hurts, remedy)
        }
    }
}
