//! The broker itself for administrators: settings, run-time figures, statistics.

use std::time::Duration;

use base::durations::Durations;
use base::offset::Watermark;
use base::{LogOffset, Refusal, Timestamp};
use broker::{Durability, PeriodFlow, Replica};
use serde_json::{Map, Value, json};
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::BrokerStatsRequest;

use super::answer::{Answer, Answered, header};
use super::context::Context;
use super::version::{VERSION, VERSION_NAME};

/// The ranges a Java broker prints, by their upper ends in ms.
const PUT_TIME_RANGES: [(&str, u64); 12] = [
    ("<=0ms", 0),
    ("0~10ms", 10),
    ("10~50ms", 50),
    ("50~100ms", 100),
    ("100~200ms", 200),
    ("200~500ms", 500),
    ("500ms~1s", 1000),
    ("1~2s", 2000),
    ("2~3s", 3000),
    ("3~4s", 4000),
    ("4~5s", 5000),
    ("5~10s", 10_000),
];
/// What it prints for all that took longer.
const PUT_TIME_LONGER: &str = "10s~";

pub(super) fn config(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let settings = context.options.settings.of_broker(&context.broker.options().broker_name);
    let text: String = settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    Ok(Answer::body(text).field("version", 0))
}

/// Changes settings, which come as lines of name and value, until the broker's next start.
pub(super) fn set_config(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let bad = |text: String| Refusal::BadRequest(text);
    let text = std::str::from_utf8(command.body).map_err(|_| bad("the settings are no text".to_owned()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| match line.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(bad(format!("[{line}] is not of the form name=value"))),
    };
    let wanted = lines.map(pair).collect::<Result<Vec<_>, _>>()?;
    context.options.settings.change(&wanted).map_err(bad)?;
    Ok(Answer::ok())
}

/// Sends by range, in whole milliseconds, as `[<=0ms]:3 [0~10ms]:1 ...`.
fn put_time_ranges(times: &Durations) -> String {
    let ends = PUT_TIME_RANGES.map(|(_, end_ms)| Duration::from_millis(end_ms));
    let buckets = times.buckets(&ends);
    let names = PUT_TIME_RANGES.iter().map(|(name, _)| *name).chain([PUT_TIME_LONGER]);
    let up_to = buckets.up_to.iter().map(|(_, count)| *count).chain([buckets.count]);
    let mut before = 0;
    let texts: Vec<_> = names
        .zip(up_to)
        .map(|(name, up_to)| {
            let count = up_to.saturating_sub(std::mem::replace(&mut before, up_to));
            format!("[{name}]:{count}")
        })
        .collect();
    texts.join(" ")
}

/// The replicas, as `mqadmin haStatus` shows them (`HARuntimeInfo`).
pub(super) fn ha_status(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let durability = &context.broker.durability;
    let end = durability.reached(Watermark::Written);
    let shown: Vec<_> =
        durability.replicas().all().iter().map(|replica| ha_connection(replica, end, durability)).collect();
    let in_sync = shown.iter().filter(|one| one["inSync"] == true).count();
    Ok(Answer::json(&json!({
        "master": true,
        "masterCommitLogMaxOffset": end.0,
        "inSyncSlaveNums": in_sync,
        "haConnectionInfo": shown,
        "haClientRuntimeInfo": {
            "masterAddr": null,
            "transferredByteInSecond": 0,
            "maxOffset": 0,
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "isActivated": false,
        },
    })))
}

fn ha_connection(replica: &Replica, end: LogOffset, durability: &Durability) -> Value {
    json!({
        "addr": replica.address.to_string(),
        "slaveAckOffset": replica.end.0,
        "diff": end.0.saturating_sub(replica.end.0),
        "inSync": durability.replicas().is_near(replica.end, end),
        "transferredByteInSecond": replica.sent_per_second,
        "transferFromWhere": replica.sent.0,
    })
}

/// The table `brokerStatus` and `clusterList` print; names are those a Java broker uses.
pub(super) fn runtime(context: &Context<'_>, _command: &Command<'_>) -> Answered {
    let broker = context.broker;
    let metrics = broker.metrics();
    let store = broker.snapshots.runtime(context.now);
    let mut table = Map::new();
    let mut put = |name: &str, value: String| {
        table.insert(name.to_owned(), Value::String(value));
    };
    put("brokerActive", "true".to_owned());
    put("brokerVersion", VERSION.to_string());
    put("brokerVersionDesc", VERSION_NAME.to_owned());
    put("bootTimestamp", broker.started().wall.0.to_string());
    put("startAcceptSendRequestTimeStamp", "0".to_owned());
    put("runtime", uptime(context.now.monotonic.ms_since(broker.started().monotonic)));
    put("putTps", three(store.put_rates));
    put("getFoundTps", three(store.get_rates));
    put("getTotalTps", three(store.get_rates));
    put("getMissTps", three([0.0; 3]));
    put("getTransferredTps", three(store.get_rates));
    // The spelling of 4.9.
    put("getTransferedTps", three(store.get_rates));
    put("putMessageTimesTotal", metrics.messages_in.get().to_string());
    put("putMessageFailedTimes", metrics.publish_refused.get().to_string());
    put("putMessageSizeTotal", metrics.message_bytes_in.get().to_string());
    let average = metrics.message_bytes_in.get() as f64 / metrics.messages_in.get().max(1) as f64;
    put("putMessageAverageSize", format!("{average:.1}"));
    put("putMessageEntireTimeMax", metrics.publish_milliseconds_max.get().to_string());
    let publish = &broker.timings().publish;
    put("putMessageDistributeTime", put_time_ranges(publish));
    let whole_ms = |share| (publish.percentile(share).as_secs_f64() * 1000.0).round();
    put("putLatency99", format!("{:.2}", whole_ms(0.99)));
    put("putLatency999", format!("{:.2}", whole_ms(0.999)));
    put("getMessageEntireTimeMax", "0".to_owned());
    let [today, yesterday] = broker.snapshots.mornings();
    put("msgPutTotalTodayNow", metrics.messages_in.get().to_string());
    put("msgPutTotalTodayMorning", today.0.to_string());
    put("msgPutTotalYesterdayMorning", yesterday.0.to_string());
    put("msgGetTotalTodayNow", metrics.messages_out.get().to_string());
    put("msgGetTotalTodayMorning", today.1.to_string());
    put("msgGetTotalYesterdayMorning", yesterday.1.to_string());
    put("dispatchBehindBytes", "0".to_owned());
    put("dispatchMaxBuffer", "0".to_owned());
    put("pageCacheLockTimeMills", "0".to_owned());
    put("remainTransientStoreBufferNumbs", i32::MAX.to_string());
    put("remainHowManyDataToCommit", "0".to_owned());
    put("remainHowManyDataToFlush", format!("{} B", store.unsynced_bytes));
    let earliest = broker.snapshots.earliest_in_log().unwrap_or(Timestamp(0));
    put("earliestMessageTimeStamp", if earliest.0 == 0 { "-1".to_owned() } else { earliest.0.to_string() });
    let ratio = format!("{:.4}", store.disk_used_bytes as f64 / store.disk_total_bytes.max(1) as f64);
    put("commitLogDiskRatio", ratio.clone());
    put("consumeQueueDiskRatio", ratio);
    put("commitLogMinOffset", store.log_first.to_string());
    put("commitLogMaxOffset", store.log_end.to_string());
    put("commitLogDirCapacity", capacity(store.disk_used_bytes, store.disk_total_bytes));
    put_absent(&mut put);
    for (level, delivered, end) in broker.delay.levels() {
        put(&format!("scheduleMessageOffset_{level}"), format!("{delivered},{end}"));
    }
    Ok(Answer::json(&json!({"table": table})))
}

/// Rows about parts of a Java broker that Sluice does without: whoever reads them finds them idle.
fn put_absent(put: &mut impl FnMut(&str, String)) {
    put("EndTransactionQueueSize", "0".to_owned());
    put("EndTransactionThreadPoolQueueCapacity", "0".to_owned());
    for timer in ["timerCongestNum", "timerOffsetBehind", "timerReadBehind"] {
        put(timer, "0".to_owned());
    }
    for timer in ["timerDequeueTps", "timerEnqueueTps"] {
        put(timer, "0.0".to_owned());
    }
    for pool in ["send", "pull", "litePull", "query", "ack"] {
        put(&format!("{pool}ThreadPoolQueueSize"), "0".to_owned());
        // Sluice has no such queues; a client that divides by the capacity must not divide by zero.
        put(&format!("{pool}ThreadPoolQueueCapacity"), "1".to_owned());
        put(&format!("{pool}ThreadPoolQueueHeadWaitTimeMills"), "0".to_owned());
    }
}

fn three(rates: [f64; 3]) -> String {
    rates.map(|rate| format!("{rate:.4}")).join(" ")
}

fn capacity(used_bytes: u64, total_bytes: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!("Total : {:.1} GiB, Free : {:.1} GiB.", gib(total_bytes), gib(total_bytes.saturating_sub(used_bytes)))
}

fn uptime(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("[ {days} days, {hours} hours, {minutes} minutes, {} seconds ]", seconds % 60)
}

/// What came within a minute, an hour and a day, of those statistics that are kept: messages stored by topic, and consumed by topic
/// and group.
pub(super) fn stats(context: &Context<'_>, command: &Command<'_>) -> Answered {
    let request: BrokerStatsRequest<'_> = header(command)?;
    let (name, key) = (&request.stats_name, &request.stats_key);
    let is_kept = match &**name {
        "TOPIC_PUT_NUMS" => !key.contains('@'),
        "GROUP_GET_NUMS" => key.contains('@'),
        _ => {
            return Err(Refusal::Internal(format!(
                "The stats <{name}> <{key}> not exist: Sluice keeps TOPIC_PUT_NUMS and GROUP_GET_NUMS"
            )));
        }
    };
    let flow = if is_kept { context.broker.snapshots.flow_of(key) } else { None };
    let [minute, hour, day] = flow.ok_or_else(|| Refusal::Internal(format!("The stats <{name}> <{key}> not exist")))?;
    // How many came with one request is not kept.
    let item = |period: PeriodFlow| json!({"sum": period.sum, "tps": period.rate, "avgpt": 0.0});
    Ok(Answer::json(&json!({"statsMinute": item(minute), "statsHour": item(hour), "statsDay": item(day)})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_times_are_printed_by_range() {
        let times = Durations::default();
        times.record(Duration::ZERO, 97);
        [10, 11, 100_000].iter().for_each(|ms| times.record(Duration::from_millis(*ms), 1));
        let text = put_time_ranges(&times);
        assert!(text.starts_with("[<=0ms]:97 [0~10ms]:1 [10~50ms]:1"), "{text}");
        assert!(text.ends_with("[5~10s]:0 [10s~]:1"), "{text}");
    }

    #[test]
    fn the_size_of_a_disk_is_told_in_gib() {
        assert_eq!(capacity(3 << 29, 100 << 30), "Total : 100.0 GiB, Free : 98.5 GiB.");
    }
}
