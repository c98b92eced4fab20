//! The page: a comparison as one HTML file that needs nothing else, for light, dark and paper.

mod chart;
mod legend;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::compare::comparison::{Comparison, PeerResult, ScenarioResult, StepResult};
use crate::compare::measured::Measured;
use crate::compare::ratio::{Ratio, times};
use crate::compare::remarks::{remarks_of, sentence, title_of};
use crate::error::BenchError;
use crate::limit::report::Measure;
use crate::load::progress::Second;
use crate::load::table::grouped;

use chart::{LINE_COLOURS, Line, over_time, short};
use legend::legend;

const STYLE: &str = include_str!("style.css");
/// Steps of one second or less have no course to draw.
const SECONDS_MIN: usize = 2;
/// Columns of a scenario's table behind the name of the broker.
const FIGURES: [&str; 11] = [
    "Messages a second",
    "Ratio",
    "Success",
    "p50, ms",
    "p99, ms",
    "p99.9, ms",
    "max, ms",
    "CPU s / M",
    "Own memory, MiB",
    "Files in memory, MiB",
    "To disk, MiB",
];

/// The whole page.
pub fn page(comparison: &Comparison) -> Result<String, BenchError> {
    let scenarios = comparison.scenarios.iter().map(section).collect::<Result<Vec<_>, BenchError>>()?;
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
                    (legend(comparison))
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

/// One line for each scenario: how many times the rate, and how many times as long the slowest hundredth takes, at a glance.
fn summary(comparison: &Comparison) -> Markup {
    let columns = |title: &str| [format!("Ratio to {title}"), format!("p99 ratio to {title}")];
    let others = || (1..).zip(comparison.peers.iter().skip(1)).map(|(at, peer)| (at, columns(peer.kind.title())));
    html! {
        table.summary.stacks {
            thead { tr {
                th { "Scenario" }
                th { "Field note" }
                @for (_, columns) in others() { @for column in &columns { th.number { (column) } } }
            } }
            tbody { @for scenario in &comparison.scenarios { tr {
                th.name { a href={ "#" (scenario.name) } { (scenario.name) } }
                td data-label="Field note" { (scenario.source) }
                @for (at, [rate, p99]) in others() {
                    td.number data-label=(rate) { (span_of_ratios(scenario, at, |peer| peer.ratio)) }
                    td.number data-label=(p99) { (span_of_ratios(scenario, at, |peer| peer.p99_ratio)) }
                }
            } } }
        }
    }
}

/// The least and the largest of the steps' ratios.
fn span_of_ratios(scenario: &ScenarioResult, at: usize, ratio: fn(&PeerResult) -> Option<Ratio>) -> Markup {
    let medians: Vec<f64> =
        scenario.steps.iter().filter_map(|step| ratio(step.peers.get(at)?)).map(|ratio| ratio.median).collect();
    let end = |ratio: f64| marked(Ratio { min: ratio, median: ratio, max: ratio }, if ratio < 1.0 { 2 } else { 1 });
    match Ratio::of(&medians) {
        Some(span) if medians.len() > 1 => html! { (end(span.min)) " to " (end(span.max)) },
        Some(only) => end(only.median),
        None => html! { "\u{2013}" },
    }
}

/// The middle ratio; one in which the first broker did less cannot be overlooked.
fn marked(ratio: Ratio, places: usize) -> Markup {
    let text = times(ratio.median, places);
    html! { @if ratio.is_below_one() { span.slower { (text) } } @else { (text) } }
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
                (measure.name) ": " (limit_of(measure))
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

fn section(scenario: &ScenarioResult) -> Result<Markup, BenchError> {
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
            p { (sentence(scenario.sentence)) }
            table.steps.stacks {
                thead { tr {
                    th { "" }
                    th { "Broker" }
                    @for (at, name) in FIGURES.iter().enumerate() { th.number[at > 0] { (name) } }
                } }
                @for step in &scenario.steps { (step_rows(step, most)) }
            }
            @for (step, course) in scenario.steps.iter().zip(&courses) { @if let Some(course) = course {
                details { summary { "Second by second: " (step.label) } div.courses { (course) } }
            } }
            (remarks(scenario))
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
                (cell(0, html! { (grouped(field.messages_per_second)) }))
                (cell(1, html! {}))
                (cell(2, html! { (percent(field.success_percent)) }))
                (cell(3, html! { @if let Some(mean) = field.mean_ms { "mean " (milliseconds(mean)) } }))
                (cell(4, html! {})) (cell(5, html! {}))
                (cell(6, html! { @if let Some(max) = field.max_ms { (milliseconds(max)) } }))
                @for at in 7..FIGURES.len() { (cell(at, html! {})) }
            } }
        }
    }
}

/// A figure under the head of that column, which stands beside it where the table is too narrow for columns.
fn cell(column: usize, figure: Markup) -> Markup {
    let (label, is_empty) = (FIGURES.get(column).copied().unwrap_or_default(), figure.0.is_empty());
    html! { td.number[column > 0].rate[column == 0].empty[is_empty] data-label=(label) { (figure) } }
}

fn figures(peer: &PeerResult, at: usize, most: f64) -> Markup {
    let Some(measured) = peer.typical() else {
        let why =
            "not measured: it does not have what this asks for, it had left the limit before, or the run was stopped";
        return html! { td.rate colspan=(FIGURES.len()) { (why) } };
    };
    // The figure stands behind its bar.
    let width = measured.messages_per_second / most * 60.0;
    let rate = html! {
        div.bar style={ "width: " (format!("{width:.1}")) "%; background: var(--line-" (at % LINE_COLOURS) ")" } {}
        span { (grouped(measured.messages_per_second)) }
    };
    let ratio = peer.ratio.map_or_else(String::new, |ratio| {
        let span = html! { (marked(ratio, 2)) small { (times(ratio.min, 2)) " to " (times(ratio.max, 2)) } };
        span.into_string()
    });
    let latency = measured.latency_ms.as_ref();
    let time = |value: Option<f64>| value.map(milliseconds).unwrap_or_default();
    let whole = |value: Option<f64>| value.map(grouped).unwrap_or_default();
    let plain = [
        percent(measured.success_percent),
        time(latency.map(|latency| latency.p50)),
        time(latency.map(|latency| latency.p99)),
        time(latency.map(|latency| latency.p99_9)),
        time(latency.map(|latency| latency.max)),
        measured.broker_cpu_seconds_per_million.map(|cpu| format!("{cpu:.1}")).unwrap_or_default(),
        whole(measured.broker_own_max_mib),
        whole(measured.broker_page_cache_mib),
        whole(measured.broker_written_mib),
    ];
    html! {
        (cell(0, rate))
        (cell(1, PreEscaped(ratio)))
        @for (column, figure) in (2..).zip(&plain) { (cell(column, html! { (figure) })) }
    }
}

fn remarks(scenario: &ScenarioResult) -> Markup {
    let remarks = remarks_of(scenario);
    html! { @if !remarks.is_empty() { ul.remarks { @for remark in &remarks { li { (remark) } } } } }
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
        over_time("broker's own memory, MiB", &lines(&|second| second.broker_own_mib))?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::example::comparison;

    #[test]
    fn where_the_first_broker_was_slower_it_stands_out() {
        let page = page(&comparison()).expect("a page");
        let marked: Vec<&str> =
            page.split("<span class=\"slower\">").skip(1).filter_map(|rest| rest.split('<').next()).collect();
        // At a glance twice, for the rate and the 99th percentile; in the legend; in the row.
        assert_eq!(marked, ["0.73", "0.73", "0.80", "0.73"]);
    }

    #[test]
    fn every_column_has_its_unit_and_says_so_beside_the_figure_too() {
        let page = page(&comparison()).expect("a page");
        for name in FIGURES {
            assert!(page.contains(&format!(">{name}</th>")), "{name}");
            assert!(page.contains(&format!("data-label=\"{name}\"")), "{name}");
        }
        for words in ["p50, ms", "p99.9, ms", "Own memory, MiB"] {
            assert!(FIGURES.contains(&words), "{words}");
        }
        assert!(page.contains("<dt>N2</dt>") && page.contains("field note: RocketMQ 4.5.1"), "the note is explained");
        assert!(!page.contains("?."), "a question is no statement");
        assert!(page.contains("\u{221e}"), "a broker that stood still");
    }

    #[test]
    fn all_that_went_wrong_is_told() {
        let page = page(&comparison()).expect("a page");
        for words in TOLD {
            assert!(page.contains(words), "{words}");
        }
        let alone = crate::compare::comparison::Comparison { peers: Vec::new(), ..comparison() };
        assert!(super::page(&alone).expect("a page").contains("7 sends were refused"), "of one broker alone too");
    }

    /// Of the made-up comparison.
    const TOLD: [&str; 6] = [
        "7 sends were refused with code 2",
        "still getting faster when its warm-up ended, after 3 slices",
        "each round was faster than the one before",
        "the load generator may have been the limit",
        "not steady, the second half was -40 %",
        "Unlike the field note: one broker without a replica.",
    ];
}
