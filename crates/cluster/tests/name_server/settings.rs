//! Promises about settings changed while running.

use cluster::name_server::options::Options;
use wire::rocketmq::code::{request, response};

use crate::client::{Client, ask, name_server};

#[test]
fn settings_are_shown_and_changed() {
    let server = name_server(Options::default());
    let mut client = Client::new(&server);
    let shown = client.ask(&ask(request::GET_NAME_SERVER_CONFIG, &[]));
    assert!(shown.text().contains("orderMessageEnable=false\n"), "{}", shown.text());
    let update = |body| ask(request::UPDATE_NAME_SERVER_CONFIG, &[]).body(body);
    assert_eq!(client.ask(&update(b"orderMessageEnable=true\n")).code, response::SUCCESS);
    let shown = client.ask(&ask(request::GET_NAME_SERVER_CONFIG, &[]));
    assert!(shown.text().contains("orderMessageEnable=true\n"), "{}", shown.text());
    assert_eq!(client.ask(&update(b"")).code, response::SUCCESS);
    // A file in which each is explained at length.
    let explained = "# What it does, and why.\n".repeat(2000) + "orderMessageEnable=false\n";
    assert_eq!(client.ask(&update(explained.as_bytes())).code, response::SUCCESS);
    let shown = client.ask(&ask(request::GET_NAME_SERVER_CONFIG, &[]));
    assert!(shown.text().contains("orderMessageEnable=false\n"), "{}", shown.text());
}

#[test]
fn a_setting_that_cannot_be_changed_is_refused_with_its_reason() {
    let mut client = Client::new(&name_server(Options::default()));
    let mut update = |body| client.ask(&ask(request::UPDATE_NAME_SERVER_CONFIG, &[]).body(body));
    let reply = update(b"kvConfigPath=/elsewhere");
    assert_eq!(reply.code, response::NO_PERMISSION);
    assert!(reply.remark().starts_with("Can not update config in black list."), "{:?}", reply.remark);
    let reply = update(b"orderMesageEnable=true");
    assert_eq!(reply.code, response::SYSTEM_ERROR);
    assert!(reply.remark().contains("orderMessageEnable"), "{:?}", reply.remark);
    assert!(update(b"waitSecondsForService=soon").remark().contains("a whole number"));
    assert_eq!(update(b"\xFF\xFE").code, response::SYSTEM_ERROR);
}
