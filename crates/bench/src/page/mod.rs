//! The page: a comparison as one HTML file that needs nothing else, for light, dark and paper.

mod chart;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::comparison::{Comparison, PeerResult, Ratio, ScenarioResult, StepResult};
use crate::error::BenchError;
use crate::measured::Measured;
use crate::peer::Peer;
use crate::progress::Second;
use crate::report::Measure;
use crate::table::grouped;

use chart::{LINE_COLOURS, Line, over_time, short};

const STYLE: &str = include_str!("style.css");
/// Steps of one second or less have no course to draw.
const SECONDS_MIN: usize = 2;
/// Pauses of the machine that are worth a word.
const PAUSE_MS: f64 = 10.0;

/// The whole page.
pub fn page(comparison: &Comparison) -> Result<String, BenchError> {
    let scenarios = comparison
        .scenarios
        .iter()
        .map(|scenario| section(comparison, scenario))
        .collect::<Result<Vec<_>, BenchError>>()?;
    let title = format!("Sluice beside {}", others(comparison));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    (summary(comparison))
                    (machine(comparison))
                }
                main { @for scenario in &scenarios { (scenario) } }
                footer { (commands(comparison)) }
            }
        }
    };
    Ok(page.into_string())
}

fn others(comparison: &Comparison) -> String {
    let names: Vec<_> = comparison.peers.iter().skip(1).map(title_of).collect();
    if names.is_empty() { "nobody".to_owned() } else { names.join(" and ") }
}

fn title_of(peer: &Peer) -> String {
    format!("{} {}", peer.kind.title(), peer.version)
}

/// One line for each scenario: how many times the rate, and how many times as long the slowest hundredth takes, at a glance.
fn summary(comparison: &Comparison) -> Markup {
    html! {
        table.summary {
            thead { tr {
                th { "Scenario" }
                th { "Field note" }
                @for peer in comparison.peers.iter().skip(1) {
                    th.number { "times the rate of " (peer.kind.title()) }
                    th.number { "its p99, times as long" }
                }
            } }
            tbody { @for scenario in &comparison.scenarios { tr {
                td { a href={ "#" (scenario.name) } { (scenario.name) } }
                td { (scenario.source) }
                @for at in 1..comparison.peers.len() {
                    td.number { (span_of_ratios(scenario, at, |peer| peer.ratio)) }
                    td.number { (span_of_ratios(scenario, at, |peer| peer.p99_ratio)) }
                }
            } } }
        }
    }
}

/// The least and the largest of the steps' ratios.
fn span_of_ratios(scenario: &ScenarioResult, at: usize, ratio: fn(&PeerResult) -> Option<Ratio>) -> String {
    let medians: Vec<f64> =
        scenario.steps.iter().filter_map(|step| ratio(step.peers.get(at)?)).map(|ratio| ratio.median).collect();
    match Ratio::of(&medians) {
        Some(span) if medians.len() > 1 => format!("{:.1} to {:.1}", span.min, span.max),
        Some(only) => format!("{:.1}", only.median),
        None => "\u{2013}".to_owned(),
    }
}

fn machine(comparison: &Comparison) -> Markup {
    let machine = &comparison.machine;
    html! {
        p.machine {
            (machine.processors) " processors (" (machine.processor) "), " (machine.memory_mib) " MiB of memory, Linux "
            (machine.kernel) ". Brokers and load generator share them. "
            @if comparison.rounds == 1 { "One round of each step: nothing tells how far the figures wander." }
            @else { "Each figure is of the middle one of " (comparison.rounds) " rounds, taken in turn." }
        }
        p.machine {
            "What the machine does without a broker, in the same run: "
            @for (at, measure) in comparison.limit.measures.iter().enumerate() {
                @if at > 0 { "; " }
                (measure.name) " " (limit_of(measure))
            }
            "."
        }
    }
}

/// Where bytes are moved, the best rate; else the time of the slowest.
fn limit_of(measure: &Measure) -> String {
    match &measure.operation_ms {
        Some(times) if measure.bytes == 0 => format!("up to {:.1} ms", times.max),
        _ => format!("{} MB/s", short(measure.megabytes_per_second_best)),
    }
}

fn section(comparison: &Comparison, scenario: &ScenarioResult) -> Result<Markup, BenchError> {
    let most = scenario
        .steps
        .iter()
        .flat_map(|step| &step.peers)
        .filter_map(|peer| peer.typical())
        .map(|measured| measured.messages_per_second)
        .fold(1.0, f64::max);
    let courses = scenario.steps.iter().map(courses).collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        section id=(scenario.name) {
            h2 { (scenario.name) " " span.source { (scenario.source) } }
            p { (scenario.sentence) "." }
            table.steps {
                thead { tr {
                    th { "" }
                    th { "Broker" }
                    th.rate { "Messages a second" }
                    th.number { "Ratio" }
                    th.number { "Went well" }
                    th.number { "p50" } th.number { "p99" } th.number { "p99.9" } th.number { "max, ms" }
                    th.number { "CPU s / M" }
                    th.number { "Memory MiB" }
                    th.number { "Disk MiB" }
                } }
                @for step in &scenario.steps { (step_rows(step, most)) }
            }
            @for (step, course) in scenario.steps.iter().zip(&courses) { @if let Some(course) = course {
                details { summary { "Second by second: " (step.label) } div.courses { (course) } }
            } }
            @if comparison.peers.len() > 1 { (remarks(scenario)) }
        }
    })
}

fn step_rows(step: &StepResult, most: f64) -> Markup {
    let rows = step.peers.len() + usize::from(step.field.is_some());
    html! {
        tbody {
            @for (at, peer) in step.peers.iter().enumerate() { tr {
                @if at == 0 { th.step rowspan=(rows) { (step.label) } }
                td.broker { span.key style={ "background: var(--line-" (at % LINE_COLOURS) ")" } {} (peer.peer.kind.title()) }
                (figures(peer, at, most))
            } }
            @if let Some(field) = &step.field { tr.field {
                td.broker { "the field note" }
                td.rate { (grouped(field.messages_per_second)) }
                td {}
                td.number { (percent(field.success_percent)) }
                td.number { @if let Some(mean) = field.mean_ms { "mean " (milliseconds(mean)) } }
                td {} td {}
                td.number { @if let Some(max) = field.max_ms { (milliseconds(max)) } }
                td {} td {} td {}
            } }
        }
    }
}

fn figures(peer: &PeerResult, at: usize, most: f64) -> Markup {
    let Some(measured) = peer.typical() else {
        return html! { td.rate colspan="10" { "not measured: it had left the limit before, or the run was stopped" } };
    };
    let latency = measured.latency_ms.as_ref();
    // The figure stands behind its bar.
    let width = measured.messages_per_second / most * 60.0;
    html! {
        td.rate {
            div.bar style={ "width: " (format!("{width:.1}")) "%; background: var(--line-" (at % LINE_COLOURS) ")" } {}
            span { (grouped(measured.messages_per_second)) }
        }
        td.number { @if let Some(ratio) = &peer.ratio {
            span title={ "round by round: " (format!("{:.2} to {:.2}", ratio.min, ratio.max)) } { (format!("{:.2}", ratio.median)) }
        } }
        td.number { (percent(measured.success_percent)) }
        td.number { @if let Some(latency) = latency { (milliseconds(latency.p50)) } }
        td.number { @if let Some(latency) = latency { (milliseconds(latency.p99)) } }
        td.number { @if let Some(latency) = latency { (milliseconds(latency.p99_9)) } }
        td.number { @if let Some(latency) = latency { (milliseconds(latency.max)) } }
        td.number { @if let Some(cpu) = measured.broker_cpu_seconds_per_million { (format!("{cpu:.1}")) } }
        td.number { @if let Some(memory) = measured.broker_resident_max_mib { (grouped(memory)) } }
        td.number { @if let Some(written) = measured.broker_written_mib { (grouped(written)) } }
    }
}

/// What went wrong, what differs from the field note, and where the generator may have been the limit.
fn remarks(scenario: &ScenarioResult) -> Markup {
    let mut remarks: Vec<String> = Vec::new();
    for step in &scenario.steps {
        let remark = step.remark.map(|remark| format!("Unlike the field note: {remark}."));
        remarks.extend(remark.filter(|remark| !remarks.contains(remark)));
        for peer in &step.peers {
            let who = format!("{}, {}", title_of(&peer.peer), step.label);
            remarks.extend(notes(peer).into_iter().map(|note| format!("{who}: {note}.")));
        }
    }
    let rounds = scenario.steps.iter().flat_map(|step| &step.peers).flat_map(|peer| &peer.rounds);
    let pause_ms = rounds.filter_map(|round| round.machine_pause_max_ms).fold(0.0, f64::max);
    if pause_ms > PAUSE_MS {
        remarks.push(format!(
            "The machine itself paused for up to {pause_ms:.0} ms: times of that length are not the brokers' alone."
        ));
    }
    html! { @if !remarks.is_empty() { ul.remarks { @for remark in &remarks { li { (remark) } } } } }
}

/// What is to be known of a broker's rounds.
fn notes(peer: &PeerResult) -> Vec<String> {
    let mut notes: Vec<String> = peer.problems().into_iter().map(str::to_owned).collect();
    if peer.rounds.iter().any(|round| round.generator_was_limit) {
        notes.push("the load generator may have been the limit".to_owned());
    }
    let unsteady = peer.typical().filter(|round| round.is_unsteady()).and_then(|round| round.drift_percent);
    notes.extend(unsteady.map(|drift| format!("not steady, the second half was {drift:+.0} % beside the first")));
    notes
}

/// Four small charts of the typical rounds of a step; nothing for a step that is too short.
fn courses(step: &StepResult) -> Result<Option<Markup>, BenchError> {
    let rounds: Vec<(usize, &Measured)> =
        step.peers.iter().enumerate().filter_map(|(at, peer)| Some((at % LINE_COLOURS, peer.typical()?))).collect();
    if rounds.iter().all(|(_, round)| round.series.len() < SECONDS_MIN) {
        return Ok(None);
    }
    let lines = |value: &dyn Fn(&Second) -> Option<f64>| -> Vec<Line> {
        let points = |round: &Measured| {
            round.series.iter().filter_map(|second| Some((second.at_seconds, value(second)?))).collect()
        };
        rounds.iter().map(|(colour, round)| Line { colour: *colour, points: points(round) }).collect()
    };
    let charts = [
        over_time("messages a second", &lines(&|second| Some(second.messages_per_second)))?,
        over_time("longest time in each second, ms", &lines(&|second| second.latency_max_ms))?,
        over_time("broker CPU, % of a core", &lines(&|second| second.broker_cpu_percent))?,
        over_time("broker memory, MiB", &lines(&|second| second.broker_resident_mib))?,
    ];
    Ok(Some(html! { @for chart in &charts { figure { (PreEscaped(chart)) } } }))
}

fn commands(comparison: &Comparison) -> Markup {
    html! {
        h2 { "How this was made" }
        pre { (comparison.command) }
        details { summary { "The brokers' command lines" } pre { @for command in &comparison.broker_commands { (command) "\n" } } }
        p { "sluice " (comparison.tool) ", data as " code { (comparison.schema) } ": add " code { "--json FILE" } " for all of it." }
    }
}

fn percent(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(100.0) => "100 %".to_owned(),
        Some(value) => format!("{:.2} %", value.min(99.99)),
    }
}

fn milliseconds(value: f64) -> String {
    match value {
        value if value >= 100.0 => grouped(value),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
