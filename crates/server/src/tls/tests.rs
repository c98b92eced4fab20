//! TLS in memory: a rustls client against the session, byte by byte where that matters.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use base::budget::Budget;
use base::metric::Traffic;
use base::session::{CloseReason, Job, Output, Session, Subject};
use base::{Monotonic, Now};
use bytes::{Buf as _, Bytes, BytesMut};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore};
use settings::{Role, load};
use testkit::at;
use tls::{TlsSession, provider};

use super::certificates::{KeyPairFiles, PemFile};
use super::*;

const FRAME: usize = 4;

/// Takes frames of four bytes while less than 1 MiB waits to be written. Answers each with itself, and `b"much"` with `block` before.
struct Echo {
    output: Output,
    block: Bytes,
    wants: bool,
    taken: usize,
    announced: usize,
    subject: Option<Subject>,
    /// Whether it pauses after each frame.
    pauses: bool,
    has_paused: bool,
}

impl Echo {
    fn new(block: Bytes) -> Self {
        let (output, subject) = (Output::default(), None);
        Self { output, block, wants: true, taken: 0, announced: 0, subject, pauses: false, has_paused: false }
    }
}

impl Session for Echo {
    fn receive(&mut self, input: &mut BytesMut, _now: Now) -> Result<(), CloseReason> {
        self.has_paused = false;
        while self.wants_input() && self.announced == 0 && input.len() >= FRAME && !self.has_paused {
            let frame = input.split_to(FRAME).freeze();
            self.taken += FRAME;
            if &*frame == b"much" {
                self.output.push(self.block.clone());
            }
            self.output.push(frame);
            self.has_paused = self.pauses;
        }
        Ok(())
    }

    fn wake(&mut self, _now: Now) {}

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        None
    }

    fn wants_input(&self) -> bool {
        self.wants && self.output.size() < 1 << 20
    }

    fn held_size(&self) -> usize {
        self.output.size()
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        if input.is_empty() { 0 } else { self.announced }
    }

    fn share(&mut self, _budget: Arc<Budget>) {}

    fn has_paused(&self) -> bool {
        self.has_paused
    }

    fn proven(&mut self, subject: Subject) {
        assert_eq!((self.taken, self.subject.replace(subject)), (0, None), "once, and first");
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(60_000)
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn take_job(&mut self) -> Option<Job> {
        None
    }

    fn closed(&mut self, _now: Now) {}
}

/// An authority, and certificates that it signed, as files.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("key");
        let folder = tempfile::tempdir().expect("directory");
        let signed = params.self_signed(&key).expect("signs");
        std::fs::write(folder.path().join("ca.pem"), signed.pem()).expect("writes");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A certificate that is valid until a year.
    fn sign(&self, name: &str, until_year: i32) -> KeyPairFiles {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
        params.not_after = rcgen::date_time_ymd(until_year, 1, 1);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("key");
        let signed = params.signed_by(&key, &self.issuer).expect("signs");
        let write = |ending: &str, text: String| {
            let path = self.path(&format!("{name}{ending}"));
            std::fs::write(&path, text).expect("writes");
            PemFile::new("tls.key", Path::new(&path))
        };
        KeyPairFiles { certificate: write(".pem", signed.pem()), key: write(".key", key.serialize_pem()) }
    }

    fn settings(&self, set: &[&str]) -> Settings {
        self.sign("server", 3000);
        let files = ["certificate=server.pem", "key=server.key"].map(|file| {
            let (setting, name) = file.split_once('=').expect("both");
            format!("tls.{setting}={}", self.path(name))
        });
        let set: Vec<_> = files.into_iter().chain(set.iter().map(|&one| one.to_owned())).collect();
        load(Role::Serve, None, &set, &[]).expect("settings").settings
    }

    fn open(&self, set: &[&str]) -> Ports {
        open(&self.settings(set), Arc::new(Traffic::default())).expect("opens")
    }

    fn client(
        &self,
        own: Option<KeyPairFiles>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ClientConnection {
        let file = PemFile::new("tls.outbound_ca", Path::new(&self.path("ca.pem")));
        let roots: Arc<RootCertStore> = file.authorities(&file.read().expect("reads")).expect("authorities");
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).expect("versions");
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (chain, key) = pair
                    .read(&pair.certificate.read().expect("reads"), &pair.key.read().expect("reads"))
                    .expect("a pair");
                builder.with_client_auth_cert(chain, key).expect("fits")
            }
        };
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").expect("a name")).expect("a client")
    }
}

fn begin(port: &Arc<TlsPort>) -> TlsSession<Echo> {
    let block = Bytes::from(vec![7; 4 << 20]);
    let inner = Echo::new(block);
    port.begin(inner, "10.0.0.1:5000".parse().expect("address"), at(0).monotonic)
}

fn receive(session: &mut TlsSession<Echo>, bytes: &[u8]) -> Result<(), CloseReason> {
    session.receive(&mut BytesMut::from(bytes), at(0))
}

/// Moves bytes both ways until neither has any, at most `piece` at once.
fn exchange(client: &mut ClientConnection, session: &mut TlsSession<Echo>, piece: usize) -> Result<(), CloseReason> {
    loop {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("memory");
        }
        let outcome = sent.chunks(piece).try_for_each(|piece| receive(session, piece));
        let answered = session.output().take_all();
        for mut piece in answered.chunks(piece) {
            while !piece.is_empty() {
                client.read_tls(&mut piece).expect("memory");
                let _ = client.process_new_packets();
            }
        }
        outcome?;
        if sent.is_empty() && answered.is_empty() {
            return Ok(());
        }
    }
}

fn read(client: &mut ClientConnection) -> Vec<u8> {
    let mut read = Vec::new();
    let _ = client.reader().read_to_end(&mut read);
    read
}

#[test]
fn a_client_is_served_by_both_versions_however_its_bytes_come() {
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    for (version, expected) in
        [(&rustls::version::TLS12, ProtocolVersion::TLSv1_2), (&rustls::version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        for piece in [1, 7, 100_000] {
            let (mut client, mut session) = (authority.client(None, &[version]), begin(&port));
            exchange(&mut client, &mut session, piece).expect("shakes hands");
            assert_eq!(session.deadline(), None);
            client.writer().write_all(b"one two ").expect("writes");
            exchange(&mut client, &mut session, piece).expect("echoes");
            assert_eq!((client.protocol_version(), &*read(&mut client)), (Some(expected), &b"one two "[..]));
            assert_eq!(session.held_size(), 0, "an idle connection keeps nothing");
        }
    }
    assert_eq!(port.traffic.tls_handshakes.get(), 6);
}

#[test]
fn the_first_byte_decides_where_both_are_allowed_and_the_wrong_one_is_refused_where_not() {
    let authority = Authority::new();
    let permissive = authority.open(&["tls.mode=permissive"]).port;
    let mut session = begin(&permissive);
    receive(&mut session, b"").expect("nothing yet");
    receive(&mut session, b"on").expect("plain");
    receive(&mut session, b"e ").map_err(drop).expect("plain");
    assert_eq!((session.deadline(), session.is_refused()), (None, false));

    let enforcing = authority.open(&["tls.mode=enforcing"]).port;
    for port in [enforcing, Arc::new(permissive.demanding())] {
        let mut session = begin(&port);
        let refused = receive(&mut session, b"\0\0\0\x10").expect_err("plain");
        assert!(refused.0.contains("tls.enable=true") && session.is_refused(), "{refused:?}");
        assert_eq!((session.inner().taken, session.close_reason()), (0, Some(refused)));
        exchange(&mut authority.client(None, rustls::ALL_VERSIONS), &mut begin(&port), 4096).expect("shakes hands");
    }

    let disabled = Arc::new(TlsPort::default());
    let mut session = begin(&disabled);
    let refused = exchange(&mut authority.client(None, rustls::ALL_VERSIONS), &mut session, 4096).expect_err("TLS");
    assert!(refused.0.contains("tls.enable=false") && session.is_refused(), "{refused:?}");
    let mut session = begin(&disabled);
    receive(&mut session, b"one ").expect("plain");
    assert_eq!(session.output().take_all(), b"one ");
}

#[test]
fn garbage_is_refused_before_and_after_the_handshake() {
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    for garbage in [&b"\x16\x03\x01\x00\x05hello"[..], b"\x16garbage garbage", &[0x16; 70_000]] {
        let mut session = begin(&port);
        let refused = receive(&mut session, garbage).expect_err("no TLS");
        assert!(session.is_refused() && session.inner().taken == 0, "{refused:?}");
    }
    let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    receive(&mut session, b"\x17\x03\x03\x00\x20................................").expect_err("forged");
    assert!(!session.output().is_empty(), "an alert says so");
    assert_eq!(session.inner().taken, 0);
}

/// rustls takes 4096 bytes at once: what follows a hello of that size meets an answer that is not written yet.
#[test]
fn what_comes_with_a_hello_is_not_passed_over() {
    const AT_ONCE: usize = 4096;
    let port = Authority::new().open(&[]).port;
    let hello = |last: usize| {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS12]);
        let builder = builder.expect("versions").with_root_certificates(RootCertStore::empty());
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![vec![b'x'; 250]; 15];
        config.alpn_protocols.push(vec![b'x'; last]);
        let name = ServerName::try_from("localhost").expect("a name");
        let mut hello = Vec::new();
        ClientConnection::new(Arc::new(config), name).expect("a client").write_tls(&mut hello).expect("memory");
        hello
    };
    let mut together = hello(1 + AT_ONCE - hello(1).len());
    receive(&mut begin(&port), &together).expect("a hello");
    assert_eq!(together.len(), AT_ONCE);
    together.extend_from_slice(&[b'?'; 100]);
    receive(&mut begin(&port), &together).expect_err("garbage");
}

#[test]
fn half_a_handshake_ends_with_its_deadline_and_so_does_silence_where_tls_is_demanded() {
    let authority = Authority::new();
    let permissive = authority.open(&[]).port;
    let mut session = begin(&permissive);
    assert_eq!(session.deadline(), None, "it may be a plain client that says nothing");
    let mut hello = Vec::new();
    authority.client(None, rustls::ALL_VERSIONS).write_tls(&mut hello).expect("memory");
    receive(&mut session, &hello[..100]).expect("half of it");
    let deadline = session.deadline().expect("it is to end");
    assert_eq!(deadline, at(10_000).monotonic);
    session.wake(at(9_999));
    assert_eq!(session.close_reason(), None);
    session.wake(at(10_000));
    assert!(session.close_reason().is_some_and(|reason| reason.0.contains("10 s")) && session.is_refused());
    assert_eq!(session.deadline(), None);

    let enforcing = authority.open(&["tls.mode=enforcing"]).port;
    assert_eq!(begin(&enforcing).deadline(), Some(at(10_000).monotonic));
}

#[test]
fn what_a_peer_does_not_take_stays_plain_and_shared_beyond_a_bound() {
    const AHEAD: usize = 256 * 1024;
    const RECORDS: usize = 128 * 1024;
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    client.writer().write_all(b"much").expect("writes");
    let mut sent = Vec::new();
    client.write_tls(&mut sent).expect("memory");
    receive(&mut session, &sent).expect("taken");
    for _ in 0..5 {
        let size = session.output().size();
        assert!((AHEAD..AHEAD + RECORDS).contains(&size), "{size}");
        let held = session.held_size();
        assert!((4 << 20..(4 << 20) + RECORDS).contains(&held), "{held}");
    }
    let mut got = 0;
    let mut rounds = 0;
    while !session.output().is_empty() {
        let size = session.output().size();
        assert!(size < AHEAD + RECORDS);
        let ciphertext = session.output().take_all();
        let mut unread = &*ciphertext;
        while !unread.is_empty() {
            client.read_tls(&mut unread).expect("memory");
            client.process_new_packets().expect("good");
            got += read(&mut client).len();
        }
        rounds += 1;
    }
    assert_eq!(got, (4 << 20) + 4);
    assert!(rounds > 10);
}

#[test]
fn input_that_is_not_wanted_is_kept_and_offered_again_without_new_bytes() {
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    session.inner_mut().wants = false;
    client.writer().write_all(&[b'x'; 60_000]).expect("writes");
    exchange(&mut client, &mut session, 4096).expect("kept");
    assert!(!session.wants_input() && session.holds_input());
    assert!(session.held_size() >= 60_000);
    session.inner_mut().wants = true;
    receive(&mut session, b"").expect("offered again");
    assert_eq!(
        (session.inner().taken, session.holds_input(), session.held_size() - session.output().size()),
        (60_000, false, 0)
    );
}

#[test]
fn input_that_stays_at_a_pause_is_offered_again_without_new_bytes() {
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    session.inner_mut().pauses = true;
    client.writer().write_all(b"one.two.last").expect("writes");
    exchange(&mut client, &mut session, 4096).expect("begun");
    for taken in [4, 8, 12] {
        assert_eq!((session.inner().taken, session.has_paused(), session.holds_input()), (taken, true, taken < 12));
        receive(&mut session, b"").expect("offered again");
    }
    assert!(!session.has_paused());
}

#[test]
fn a_large_frame_is_announced_by_its_plaintext_and_counted_once() {
    const SIZE: usize = 8 << 20;
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    session.inner_mut().announced = SIZE;
    client.writer().write_all(b"head").expect("writes");
    exchange(&mut client, &mut session, 4096).expect("its head");
    assert_eq!(session.frame_size(b""), SIZE);
    assert!(session.held_size() < 1024);
    for _ in 0..10 {
        client.writer().write_all(&[0; 60_000]).expect("writes");
        exchange(&mut client, &mut session, 100_000).expect("more");
    }
    assert!(session.held_size() < 64 * 1024, "the announcement counts: {}", session.held_size());
}

#[test]
fn an_orderly_close_says_farewell_and_a_farewell_is_heard() {
    let authority = Authority::new();
    let port = authority.open(&[]).port;
    let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    session.finish();
    let farewell = session.output().take_all();
    client.read_tls(&mut &*farewell).expect("memory");
    assert!(client.process_new_packets().expect("good").peer_has_closed());

    let mut session = begin(&port);
    let mut client = authority.client(None, rustls::ALL_VERSIONS);
    exchange(&mut client, &mut session, 4096).expect("shakes hands");
    client.send_close_notify();
    exchange(&mut client, &mut session, 4096).expect("no error");
    let mut late = BytesMut::from(&b"whatever"[..]);
    session.receive(&mut late, at(0)).expect("not looked at");
    assert!(!late.has_remaining() && session.inner().taken == 0);
}

#[test]
fn clients_certificates_are_demanded_and_verified() {
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = format!("tls.client_ca={}", authority.path("ca.pem"));
    let meet = |client_auth: &str, own: Option<KeyPairFiles>| {
        let port = authority.open(&[&ca, client_auth, "tls.mode=enforcing"]).port;
        let mut session = begin(&port);
        let met = exchange(&mut authority.client(own, rustls::ALL_VERSIONS), &mut session, 4096);
        let proven = session.inner().subject.as_ref().map(|subject| subject.distinguished_name.clone());
        assert!(met.is_ok() || proven.is_none(), "who is refused has proven nothing");
        met.map(|()| proven).map_err(|reason| reason.0)
    };
    let client = || Some(authority.sign("client", 3000));
    assert_eq!(meet("tls.client_auth=require", client()).expect("admitted").as_deref(), Some("CN=client"));
    assert_eq!(meet("tls.client_auth=optional", client()).expect("admitted").as_deref(), Some("CN=client"));
    assert_eq!(meet("tls.client_auth=optional", None).expect("admitted"), None);
    assert_eq!(meet("tls.client_auth=none", client()).expect("admitted"), None, "nobody has asked");
    for (client_auth, own, told) in [
        ("tls.client_auth=require", None, "has no certificate"),
        ("tls.client_auth=require", Some(authority.sign("old", 2001)), "expired"),
        ("tls.client_auth=require", Some(other.sign("stranger", 3000)), "tls.client_ca"),
        ("tls.client_auth=optional", Some(other.sign("stranger", 3000)), "tls.client_ca"),
    ] {
        let refused = meet(client_auth, own).expect_err(told);
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn a_client_that_does_not_trust_us_is_named_so() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = authority.open(&[]).port;
    let mut session = begin(&port);
    let mut client = other.client(None, &[&rustls::version::TLS12]);
    let refused = exchange(&mut client, &mut session, 4096).expect_err("an alert");
    assert!(refused.0.contains("may not trust"), "{refused:?}");
}

#[test]
fn files_that_cannot_be_used_are_named_with_a_remedy() {
    let authority = Authority::new();
    authority.sign("other", 3000);
    std::fs::write(authority.path("empty.pem"), "nothing").expect("writes");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    std::fs::write(authority.path("locked.key"), locked).expect("writes");
    for (setting, file, told) in [
        ("tls.certificate", "missing.pem", "cannot be read"),
        ("tls.certificate", "empty.pem", "BEGIN CERTIFICATE"),
        ("tls.key", "empty.pem", "BEGIN PRIVATE KEY"),
        ("tls.key", "locked.key", "openssl pkey -in"),
        ("tls.key", "other.key", "server.pem cannot be used together"),
    ] {
        let path = authority.path(file);
        let mut settings = authority.settings(&[]);
        match setting {
            "tls.certificate" => settings.tls.certificate = Some(path.clone().into()),
            _ => settings.tls.key = Some(path.clone().into()),
        }
        let problem = open(&settings, Arc::default()).map(drop).expect_err(told).to_string();
        assert!(problem.contains(told) && problem.contains(&path) && problem.starts_with(setting), "{problem}");
    }
}

#[test]
fn a_self_signed_certificate_is_made_once_and_its_key_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("directory");
    let set = ["tls.self_signed=true".to_owned(), format!("storage.directory={}", folder.path().display())];
    let settings = load(Role::Serve, None, &set, &[]).expect("settings").settings;
    let (_, first) = open(&settings, Arc::default()).expect("made").watched.expect("files");
    let (_, second) = open(&settings, Arc::default()).expect("found").watched.expect("files");
    assert!(first == second);
    let key = std::fs::metadata(folder.path().join("tls/key.pem")).expect("it is there");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_changed_certificate_is_taken_over_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let Ports { port, watched } = authority.open(&[]);
    let (files, texts) = watched.expect("files");
    let mut watched = reload::Watched::new(files, texts);
    let shown = || {
        let (mut client, mut session) = (authority.client(None, rustls::ALL_VERSIONS), begin(&port));
        exchange(&mut client, &mut session, 4096).expect("shakes hands");
        client.peer_certificates().expect("shown")[0].to_vec()
    };
    let first = shown();
    watched.look(&port);
    assert_eq!(shown(), first);
    authority.sign("server", 2999);
    watched.look(&port);
    let second = shown();
    assert_ne!(second, first);
    std::fs::write(authority.path("server.pem"), "half a cer").expect("writes");
    for _ in 0..2 {
        watched.look(&port);
        assert!(watched.problem.as_ref().is_some_and(|problem| problem.contains("server.pem")));
        assert_eq!(shown(), second);
    }
    authority.sign("server", 2998);
    watched.look(&port);
    assert!(watched.problem.is_none() && shown() != second);
}

fn drive(traffic: Arc<Traffic>, stop: crate::drive::Stop, tls: Arc<TlsPort>) -> crate::drive::Drive {
    crate::drive::Drive {
        traffic,
        stop,
        connections_max: 100,
        refusals_quiet_until: Arc::default(),
        jobs: crate::jobs::Jobs::default(),
        budget: Arc::default(),
        tls,
        _alive: tokio::sync::mpsc::channel(1).0,
    }
}

/// Serves echoes on a port of loopback; gives its address, what is counted, and what ends it.
async fn serve(port: Arc<TlsPort>) -> (String, Arc<Traffic>, tokio::sync::watch::Sender<bool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("address").to_string();
    let (stopper, stop) = tokio::sync::watch::channel(false);
    let traffic = Arc::new(Traffic::default());
    let drive = drive(traffic.clone(), stop, port);
    let block = Bytes::from(vec![7; 4 << 20]);
    let echo = move |_, _| Echo::new(block.clone());
    tokio::spawn(drive.serve(listener, echo));
    (address, traffic, stopper)
}

/// A client that sends requests and ends once so many bytes were answered.
struct Asking {
    output: Output,
    wanted: usize,
    read: Vec<u8>,
}

impl Session for Asking {
    fn receive(&mut self, input: &mut BytesMut, _now: Now) -> Result<(), CloseReason> {
        self.read.extend(input.split());
        Ok(())
    }

    fn wake(&mut self, _now: Now) {}

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        None
    }

    fn wants_input(&self) -> bool {
        true
    }

    fn held_size(&self) -> usize {
        self.output.size()
    }

    fn frame_size(&self, _input: &[u8]) -> usize {
        0
    }

    fn share(&mut self, _budget: Arc<Budget>) {}

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(60_000)
    }

    fn is_busy(&self) -> bool {
        true
    }

    fn close_reason(&self) -> Option<CloseReason> {
        (self.read.len() >= self.wanted).then(|| CloseReason("all was answered".to_owned()))
    }

    fn take_job(&mut self) -> Option<Job> {
        None
    }

    fn closed(&mut self, _now: Now) {}
}

/// Sends `requests` and reads as many bytes; `None`: the connection was closed.
async fn ask(connector: &Connector, address: &str, requests: &[u8], wanted: usize) -> Option<Vec<u8>> {
    let mut output = Output::default();
    output.push(Bytes::copy_from_slice(requests));
    let mut connected = connector.connect(address, Asking { output, wanted, read: Vec::new() }).await.ok()?;
    let (_stopper, stop) = tokio::sync::watch::channel(false);
    let mut drive = drive(Arc::default(), stop, Arc::default());
    drive.converse(&mut connected.socket, &mut connected.session, &crate::wakeup::Wakeup::new().0).await;
    let read = connected.session.inner().read.clone();
    (read.len() >= wanted).then_some(read)
}

#[tokio::test]
async fn over_loopback_the_brokers_own_connector_is_served_by_the_mode_and_the_process_itself_always() {
    let authority = Authority::new();
    let outbound = [
        "tls.outbound=true".to_owned(),
        format!("tls.outbound_ca={}", authority.path("ca.pem")),
        format!("tls.outbound_certificate={}", authority.path("client.pem")),
        format!("tls.outbound_key={}", authority.path("client.key")),
    ];
    authority.sign("client", 3000);
    let outbound = connector(&load(Role::Broker, None, &outbound, &[]).expect("settings").settings.tls).expect("opens");
    let ca = format!("tls.client_ca={}", authority.path("ca.pem"));
    let guarded: &[&str] = &["tls.mode=enforcing", "tls.client_auth=require", &ca];
    for (set, plain_is_served, tls_is_served) in
        [(&["tls.mode=permissive"][..], true, true), (guarded, false, true), (&["tls.mode=disabled"], true, false)]
    {
        let port = authority.open(set).port;
        let own = Connector::Own(port.own());
        let (address, _, _stopper) = serve(port.clone()).await;
        // The certificate is for this name.
        let named = address.replace("127.0.0.1", "localhost");
        let is_served = async |connector: &Connector| ask(connector, &named, b"one ", 4).await.is_some();
        assert_eq!(is_served(&Connector::Plain).await, plain_is_served, "{set:?}");
        assert_eq!(is_served(&outbound).await, tls_is_served, "{set:?}");
        assert!(ask(&own, &address, b"one ", 4).await.is_some(), "{set:?}");
        assert!(!format!("{:?}", port.own()).contains("127.0.0.1"), "a connection that is over is forgotten");
        let (by, at) = if tls_is_served { (&outbound, &named) } else { (&own, &address) };
        let much = ask(by, at, b"much", (4 << 20) + 4).await;
        assert!(much.is_some_and(|much| much.ends_with(b"\x07much")), "{set:?}");
        let refused = u64::from(!plain_is_served) + u64::from(!tls_is_served);
        assert_eq!((port.traffic.tls_refused.get(), port.traffic.tls_handshakes.get() > 0), (refused, tls_is_served));
    }
}

/// The first answer is more than may wait: the other requests are kept decrypted, and no further byte comes that would offer them again.
#[tokio::test]
async fn requests_that_came_together_are_all_answered_though_each_answer_must_be_taken_first() {
    const REQUESTS: usize = 8;
    let (address, _, _stopper) = serve(Authority::new().open(&[]).port).await;
    let set = ["tls.outbound=true".to_owned(), "tls.outbound_verify=false".to_owned()];
    let blind = connector(&load(Role::Broker, None, &set, &[]).expect("settings").settings.tls).expect("opens");
    let requests = b"much".repeat(REQUESTS);
    let asking = ask(&blind, &address, &requests, REQUESTS * ((4 << 20) + FRAME));
    let answers = tokio::time::timeout(std::time::Duration::from_secs(60), asking).await;
    let answers = answers.expect("in time").expect("they all come");
    assert!(answers.ends_with(b"\x07much"));
}

#[tokio::test]
async fn a_name_servers_certificate_must_name_it_and_be_of_the_authorities_unless_nothing_is_verified() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (address, _, _stopper) = serve(authority.open(&[]).port).await;
    let named = address.replace("127.0.0.1", "localhost");
    let outbound = |set: String| {
        let set = ["tls.outbound=true".to_owned(), set];
        connector(&load(Role::Broker, None, &set, &[]).expect("settings").settings.tls).expect("opens")
    };
    let trusting = outbound(format!("tls.outbound_ca={}", authority.path("ca.pem")));
    let mistrusting = outbound(format!("tls.outbound_ca={}", other.path("ca.pem")));
    let blind = outbound("tls.outbound_verify=false".to_owned());
    assert!(ask(&trusting, &named, b"one ", 4).await.is_some());
    assert!(ask(&trusting, &address, b"one ", 4).await.is_none(), "another name than that of the certificate");
    assert!(ask(&mistrusting, &named, b"one ", 4).await.is_none());
    assert!(ask(&blind, &address, b"one ", 4).await.is_some());
}
