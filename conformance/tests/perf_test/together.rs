//! Runs that have many flags at once.

use conformance::perf_test::Counter;

use crate::run::{Run, counted, ending, produced, timed};

pub fn rows() -> Vec<Vec<Run>> {
    [target_and_topology(), producers(), consumers(), reports()].concat()
}

/// Over TLS, with the certificate verified; by a password, and by a certificate.
pub fn by_tls() -> Vec<Run> {
    vec![
        counted("-h {secure} -udsc -sni localhost -c 10 -s 50000 -C 200 -D 200"),
        counted("-h {secure} -udsc -se -C 200 -D 200"),
    ]
}

fn target_and_topology() -> Vec<Vec<Run>> {
    vec![
        vec![counted(
            "-H {uri},{uri}/%2f -sst 10 -sul 1 -M 8192 -b 2 -hst 1 -tnd true -tsbs 65536 -trbs 65536 -x 2 -y 2 -s 20000 -c 1 -ct 10 \
             -C 100 -D 100",
        )],
        // Each of the two queues gets every message.
        vec![counted("-niot 2 -niotp 4 -e spread -t fanout -qp spread-%d -qpf 1 -qpt 2 -K -rkcs 5 -y 2 -C 100 -D 100")],
        vec![
            produced("-qq -ll balanced -u kept -k kept.key -ad false -f persistent -y 0 -c 50 -C 300"),
            // What was declared is as it was left, and has all of it.
            ending("Consumer queue(s) empty", "-x 0 -p -u kept -q 20 -A 10 -ew empty")
                .counts(Counter::Received, 299..=301),
        ],
        vec![counted("-E -a -po -pi 1 -C 50 -D 50")],
        vec![
            produced("-sq -ll balanced -ma PT1H -smssb 1000000 -mlb 10000000 -u stream -y 0 -c 20 -C 200"),
            // Nothing is taken away.
            ending("Consumer reached message limit", "-x 0 -y 2 -p -u stream -sco first -q 50 -A 10 -D 200"),
            ending("Consumer reached message limit", "-x 0 -p -u stream -sco 100 -q 50 -D 100"),
        ],
    ]
}

fn producers() -> Vec<Vec<Run>> {
    vec![
        vec![counted("-m 10 -n 10 -mlb 1000000 -f persistent -ad false -u in-transactions -C 500 -D 500")],
        vec![
            timed(0..=0, "-qa x-max-length=10,x-overflow=reject-publish -u full -y 0 -c 10 -r 100 -z 2")
                .counts(Counter::Sent, 20..=500)
                .counts(Counter::Confirmed, 9..=11)
                .counts(Counter::Nacked, 1..=500),
        ],
        // What goes nowhere is sent back, and confirmed all the same.
        vec![
            timed(0..=0, "-sb -u unbound -f mandatory -f persistent -c 20 -r 100 -z 2")
                .counts(Counter::Sent, 20..=500)
                .counts(Counter::Returned, 20..=500)
                .confirms_but(22),
        ],
        vec![
            timed(20..=900, "-vr 100:1 -vr 200:1 -vs 20:1 -vs 2000:1 -vl 0:1 -vl 1000:1 -c 10 -z 3").confirms_but(12),
        ],
        vec![
            counted(
                "-B {files}/text,{files}/json -T text/plain -mp priority=3,kind=test -qf {files}/queues -x 2 -y 2 -C 20 -D 20 -r 50 \
                 --verbose-full",
            )
            .says("received message")
            .says("content-type = text/plain, headers = {kind = test, ")
            .says("priority = 3}, body = some text")
            .says("priority = 3}, body = {\"a\":1}"),
        ],
        vec![counted("-jb -bc 10 -bfc 20 -s 500 -C 100 -D 100 -r 200 --verbose").says("delivery tag = 100")],
    ]
}

fn consumers() -> Vec<Vec<Run>> {
    vec![
        vec![counted("-x 2 -X 2 -y 2 -Y 2 -S -ctp 1 -prsd 1 -csd 1 -C 50 -D 50")],
        vec![counted("-Q 10 -q 5 -A 5 -R 100 -L 1000 -C 200 -D 200")],
        // Each of fifty messages comes ten times.
        vec![counted("-na -re true -C 50 -D 500")],
        vec![
            counted("-na -re false -ad false -f persistent -u refused -C 50 -D 50"),
            // None of them comes again.
            ending("Reached time limit", "-x 0 -p -u refused -z 1").counts(Counter::Received, 0..=0),
        ],
    ]
}

fn reports() -> Vec<Vec<Run>> {
    vec![vec![
        timed(5..=80, "-P 0.1 -pst 1 -a -ca x-priority=10 -d named -ms -i 1 -st 3 -mf compact -em expected=1 -z 3")
            .says("consumer latency min/median/75th/95th/99th"),
    ]]
}
