//! What every load needs, whatever protocol it speaks: options, timetables, what is counted, who watches, the report.

pub(crate) mod answer_times;
pub(crate) mod arrivals;
pub(crate) mod awaited;
pub(crate) mod latency;
pub(crate) mod live;
pub(crate) mod opener;
pub(crate) mod options;
pub(crate) mod pop_options;
pub(crate) mod pop_report;
pub(crate) mod pop_tally;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod sender;
pub(crate) mod sending;
pub(crate) mod supervisor;
pub(crate) mod table;
pub(crate) mod tally;
