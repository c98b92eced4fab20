//! Who is let in, and what each may do.

use base::session::{Session as _, Subject};
use dialect::amqp::CertificateUser;
use format::model::{PermissionSettings, UserSettings};

use super::client::Bench;

/// Has a user there who may do everything in the virtual host `/`.
fn make_user(bench: &Bench, name: &str) {
    let all = || ".*".to_owned();
    let allowed = PermissionSettings { configure: all(), write: all(), read: all() };
    bench.broker.model.make_user(name, UserSettings::default(), bench.now).expect("made");
    bench.broker.model.permit("/", name, allowed, bench.now).expect("permitted");
}

fn anna() -> Subject {
    Subject { distinguished_name: "CN=anna,O=Example".to_owned(), common_name: Some("anna".to_owned()) }
}

#[test]
fn who_has_proven_by_a_certificate_to_be_a_user_needs_no_password() {
    let mut bench = Bench::new();
    make_user(&bench, "anna");
    let refused = "connection.close ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For \
                   details see the broker logfile.";
    let enter = |bench: &Bench, remote: &str, subject: Subject, response: &[u8]| {
        let mut client = bench.stranger(remote);
        client.session.proven(subject);
        client.enter("EXTERNAL", response, "/").remove(0)
    };
    let local = "127.0.0.1:1";
    assert_eq!(enter(&bench, "10.0.0.9:1", anna(), b""), "connection.open-ok");
    assert_eq!(enter(&bench, local, anna(), b"guest"), "connection.open-ok", "the certificate alone counts");
    let of = |name: &str| Subject { common_name: Some(name.to_owned()), ..anna() };
    assert_eq!(enter(&bench, local, of("bert"), b"anna"), refused, "there is no such user");
    assert_eq!(enter(&bench, local, Subject { common_name: None, ..anna() }, b"anna"), refused);
    assert_eq!(enter(&bench, local, of("guest"), b""), "connection.open-ok");
    let by_network = "connection.close ACCESS_REFUSED - user 'guest' can only connect via localhost";
    assert_eq!(enter(&bench, "10.0.0.9:1", of("guest"), b""), by_network);
    bench.options.certificate_user = CertificateUser::DistinguishedName;
    assert_eq!(enter(&bench, local, anna(), b""), refused);
    make_user(&bench, "CN=anna,O=Example");
    assert_eq!(enter(&bench, local, anna(), b""), "connection.open-ok");
}

#[test]
fn external_is_offered_where_a_certificate_was_verified() {
    let bench = Bench::new();
    assert_eq!(bench.stranger("127.0.0.1:1").offered(), "AMQPLAIN PLAIN");
    let mut client = bench.stranger("127.0.0.1:1");
    client.session.proven(anna());
    assert_eq!(client.offered(), "AMQPLAIN PLAIN EXTERNAL");
}
