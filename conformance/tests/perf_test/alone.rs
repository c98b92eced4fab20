//! Runs that try one flag each, with no more beside it than it needs.

use conformance::perf_test::Counter;

use crate::run::{Run, counted, ending, produced, timed};

pub fn rows() -> Vec<Vec<Run>> {
    let counts = COUNTED.iter().map(|flags| vec![counted(flags)]).collect();
    [counts, target(), topology(), producers(), consumers(), reports()].concat()
}

/// What they promise is that every message comes.
const COUNTED: [&str; 44] = [
    "-h {uri} -C 100 -D 100",
    "-H {uri},{uri}/%2f -x 2 -y 2 -C 100 -D 100",
    "-sst 10 -C 100 -D 100",
    "-sst 10 -sul 1 -C 100 -D 100",
    "-M 4096 -s 20000 -C 100 -D 100",
    "-tnd false -C 100 -D 100",
    "-tsbs 8192 -s 100000 -C 100 -D 100",
    "-trbs 8192 -s 100000 -C 100 -D 100",
    "-niot 1 -C 100 -D 100",
    "-niot 2 -niotp 4 -x 3 -y 3 -C 100 -D 100",
    "-e other -C 100 -D 100",
    "-e by-topic -t topic -k a.b.c -C 100 -D 100",
    "-e by-headers -t headers -C 100 -D 100",
    "-e amq.topic -t topic -C 100 -D 100",
    "-u one -C 100 -D 100",
    "-e to-both -t fanout -u first,second -C 100 -D 200",
    "-k key -C 100 -D 100",
    "-e random -t fanout -K -C 100 -D 100",
    "-e cached -t fanout -K -rkcs 3 -C 100 -D 100",
    "-E -C 100 -D 100",
    "-qa x-max-priority=5,x-message-ttl=60000 -C 100 -D 100",
    "-qq -u quorum -C 100 -D 100",
    "-qq -u near -ll client-local -C 100 -D 100",
    "-qp pattern-%d -qpf 1 -qpt 5 -x 5 -y 5 -C 50 -D 50",
    "-qf {files}/queues -x 2 -y 2 -C 50 -D 50",
    "-x 10 -C 50 -D 500",
    "-y 10 -C 500 -D 20",
    "-x 2 -X 5 -C 50 -D 500",
    "-y 2 -Y 5 -q 1 -C 500 -D 30",
    "-S -y 3 -q 10 -C 300 -D 50",
    "-y 4 -ctp 2 -q 1 -C 400 -D 80",
    "-x 3 -prsd 1 -C 100 -D 300",
    "-csd 1 -C 100 -D 100",
    "-s 1000000 -C 20 -D 20",
    "-B {files}/text -C 100 -D 100",
    "-jb -s 1000 -C 100 -D 100",
    "-jb -bc 3 -bfc 10 -s 300 -C 100 -D 100",
    "-f persistent -C 100 -D 100",
    "-f mandatory -C 100 -D 100",
    "-m 1 -C 100 -D 100",
    "-m 50 -C 500 -D 500",
    "-a -C 100 -D 100",
    "-po -C 100 -D 100",
    "-po -pi 5 -C 50 -D 50",
];

fn target() -> Vec<Vec<Run>> {
    // Signs of life alone keep the connections.
    let rarely = |flags| vec![ending("Reached time limit", flags).counts(Counter::Sent, 1..=3)];
    vec![rarely("-b 1 -P 4 -z 6"), rarely("-hst 1 -b 1 -P 4 -z 6")]
}

fn topology() -> Vec<Vec<Run>> {
    vec![
        // Half of the messages are left when the last consumer goes.
        vec![
            counted("-ad true -u fleeting -q 10 -C 100 -D 50"),
            ending("Reached time limit", "-p -u fleeting -x 0 -z 1").counts(Counter::Received, 0..=0),
        ],
        vec![
            counted("-ad false -u lasting -f persistent -q 10 -C 100 -D 50"),
            ending("Consumer queue(s) empty", "-p -u lasting -x 0 -ew empty").counts(Counter::Received, 49..=61),
        ],
        vec![
            produced("-u left -ad false -f persistent -y 0 -C 200"),
            ending("Consumer queue(s) empty", "-p -u left -x 0 -ew empty").counts(Counter::Received, 199..=201),
        ],
        // An exchange that nobody may declare.
        vec![
            produced("-u by-name -ad false -y 0 -C 10"),
            counted("-p -e amq.direct -u by-name -k nowhere -C 10 -D 10"),
        ],
        vec![timed(20..=500, "-qa x-single-active-consumer=true -u single -y 3 -r 100 -z 2")],
        vec![timed(0..=0, "-sb -u unbound -r 100 -z 2").counts(Counter::Sent, 20..=500)],
        // Ten have room.
        vec![
            produced("-mlb 1000 -s 100 -u short -ad false -f persistent -y 0 -c 10 -C 100"),
            ending("Consumer queue(s) empty", "-p -u short -x 0 -ew empty").counts(Counter::Received, 9..=11),
        ],
        vec![counted("-sq -u by-offset -q 100 -C 100 -D 100")],
        vec![
            produced("-sq -u stream -y 0 -C 100"),
            ending("Consumer reached message limit", "-p -u stream -x 0 -sco first -q 10 -D 100"),
        ],
        vec![counted("-sq -u not-for-ever -ma PT1H -q 100 -C 100 -D 100")],
        vec![counted("-sq -u of-segments -smssb 1000000 -q 100 -C 100 -D 100")],
    ]
}

fn producers() -> Vec<Vec<Run>> {
    vec![
        // One at a time.
        vec![timed(20..=500, "-c 1 -r 100 -z 2").confirms_but(3)],
        vec![timed(20..=500, "-c 100 -f persistent -ad false -u confirmed -r 100 -z 2").confirms_but(102)],
        vec![timed(20..=500, "-c 10 -ct 5 -r 100 -z 2").confirms_but(12)],
        vec![timed(20..=500, "-r 100 -z 2")],
        vec![timed(5..=60, "-P 0.1 -z 2")],
        vec![timed(5..=60, "-P 0.1 -pst 2 -z 2")],
        vec![timed(20..=900, "-vr 100:1 -vr 200:1 -z 3")],
        vec![timed(20..=700, "-vs 20:1 -vs 200000:1 -r 100 -z 3")],
        vec![
            counted("-T application/json -B {files}/json -C 10 -D 10 --verbose-full")
                .says("{content-type = application/json"),
        ],
        vec![
            counted("-mp priority=3,correlationId=this,kind=test -C 10 -D 10 -r 20 --verbose-full")
                .says("headers = {kind = test}")
                .says("priority = 3"),
        ],
        vec![
            timed(0..=0, "-f mandatory -sb -u returned -r 100 -z 2")
                .counts(Counter::Sent, 20..=500)
                .counts(Counter::Returned, 20..=500),
        ],
        // A queue that refuses.
        vec![
            timed(0..=0, "-qa x-max-length=10,x-overflow=reject-publish -u full -y 0 -c 10 -r 100 -z 2")
                .counts(Counter::Sent, 20..=500)
                .counts(Counter::Confirmed, 9..=11)
                .counts(Counter::Nacked, 1..=500),
        ],
    ]
}

fn consumers() -> Vec<Vec<Run>> {
    vec![
        vec![counted("-A 10 -C 100 -D 100")],
        vec![counted("-q 1 -C 100 -D 100")],
        vec![counted("-Q 1 -C 100 -D 100")],
        vec![timed(20..=500, "-R 50 -z 2 -r 100").counts(Counter::Received, 10..=250)],
        vec![timed(20..=500, "-L 1000 -r 100 -z 2")],
        vec![timed(20..=700, "-vl 0:1 -vl 2000:1 -r 100 -z 3")],
        vec![counted("-na -C 50 -D 500")],
        vec![counted("-na -re true -q 1 -C 50 -D 500")],
        vec![
            counted("-na -re false -ad false -f persistent -u refused -C 50 -D 50"),
            ending("Reached time limit", "-x 0 -p -u refused -z 1").counts(Counter::Received, 0..=0),
        ],
        vec![counted("-n 1 -C 100 -D 100")],
        vec![counted("-n 50 -C 500 -D 500")],
        vec![counted("-ca x-priority=10 -C 100 -D 100")],
    ]
}

fn reports() -> Vec<Vec<Run>> {
    vec![
        vec![ending("Producer reached message limit, Consumer is idle for more than 1 second", "-ew idle -C 300")],
        vec![timed(20..=700, "-i 2 -r 100 -z 3")],
        vec![counted("-d named -C 100 -D 100").says("id: named, sending rate avg")],
        vec![counted("-ms -C 100 -D 100").says(" ms")],
        vec![counted("-st 1 -C 100 -D 100")],
        vec![timed(20..=500, "-mf compact -r 100 -z 2").says("consumer latency")],
        vec![timed(20..=500, "-mf default -r 100 -z 2")],
        vec![counted("-em expected=1 -C 100 -D 100")],
        vec![counted("-C 10 -D 10 -r 20 --verbose").says("delivery tag = 10")],
    ]
}
