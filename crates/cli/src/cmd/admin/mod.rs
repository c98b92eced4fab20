//! `sluice admin`: daily work at a running broker, through the admin API on its console port. One noun a file.

mod binding;
mod broker;
mod client;
mod cluster;
mod connection;
mod exchange;
mod group;
mod layout;
mod message;
pub(super) mod moment;
mod permission;
mod queue;
mod show;
mod topic;
mod topic_permission;
mod user;
mod vhost;
mod wait;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value};

use super::traffic::{NOT_ALL, UNASKED, WRONG};
use crate::say;
use client::{Client, Failure};

/// Variable of the environment that names the file of the token.
const TOKEN_FILE: &str = "SLUICE_TOKEN_FILE";

/// Arguments of `sluice admin`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin topic create orders --queues 8\n  \
    sluice admin group describe billing\n  \
    sluice admin vhost add /shop\n  \
    sluice admin user add alice --password-stdin < password.txt\n  \
    sluice admin permission set alice --vhost /shop\n  \
    sluice admin queue list --vhost /shop --json\n\n\
    Ends with 0 if it was done, 1 if the broker refused, 2 if the command line is wrong, 3 if no\n\
    broker could be asked.")]
pub struct Arguments {
    /// The broker's console, as its ready line names it; without a token it answers this machine alone.
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    console: String,
    /// File with the token that the broker's setting console.token_file names; or put its name into SLUICE_TOKEN_FILE.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(clap::Subcommand, Debug)]
enum Noun {
    /// The brokers of the process: how they are, and their slaves.
    #[command(subcommand)]
    Broker(broker::Action),
    /// The brokers that a name server knows, Java's too.
    #[command(subcommand)]
    Cluster(cluster::Action),
    /// Clients that are connected.
    #[command(subcommand)]
    Connection(connection::Action),
    /// Topics of RocketMQ.
    #[command(subcommand)]
    Topic(topic::Action),
    /// Consumer groups of RocketMQ: who is behind, and where they go on.
    #[command(subcommand)]
    Group(group::Action),
    /// Stored messages of topics.
    #[command(subcommand)]
    Message(message::Action),
    /// Virtual hosts: namespaces of exchanges and queues.
    #[command(subcommand)]
    Vhost(vhost::Action),
    /// Users, who connect with a name and a password.
    #[command(subcommand)]
    User(user::Action),
    /// What users may do in a virtual host.
    #[command(subcommand)]
    Permission(permission::Action),
    /// By which keys users may publish to topic exchanges and bind from them.
    #[command(subcommand)]
    TopicPermission(topic_permission::Action),
    /// Exchanges, which route messages to queues.
    #[command(subcommand)]
    Exchange(exchange::Action),
    /// Message queues: who waits in them, who consumes.
    #[command(subcommand)]
    Queue(queue::Action),
    /// Bindings, from an exchange to a queue or another exchange.
    #[command(subcommand)]
    Binding(binding::Action),
}

/// Where something is.
#[derive(clap::Args, Debug)]
struct In {
    /// Virtual host.
    #[arg(long, value_name = "NAME", default_value = "/")]
    vhost: String,
}

/// Arguments of something that is made.
#[derive(clap::Args, Debug)]
struct With {
    /// An argument, as x-max-length=1000; may be given often. What is no JSON is text.
    #[arg(long = "argument", value_name = "NAME=VALUE", value_parser = argument)]
    arguments: Vec<(String, Value)>,
}

impl With {
    fn json(&self) -> Value {
        Value::Object(self.arguments.iter().cloned().collect::<Map<_, _>>())
    }
}

fn argument(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("it needs a name and a value, with = between them")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

/// Who is asked, and how answers are told.
struct Asking {
    client: Client,
    is_json: bool,
}

impl Asking {
    fn of(arguments: &Arguments) -> Result<Self, Failure> {
        let from_environment = || std::env::var_os(TOKEN_FILE).filter(|name| !name.is_empty()).map(PathBuf::from);
        let file = arguments.token_file.clone().or_else(from_environment);
        let token = file.map(|file| token_in(&file)).transpose()?;
        Ok(Self { client: Client::of(&arguments.console, token)?, is_json: arguments.json })
    }

    /// Tells a whole list.
    fn list(&self, path: &str, columns: &[&str]) -> Result<(), Failure> {
        self.tell_list(self.client.list(path)?, columns)
    }

    fn tell_list(&self, items: Vec<Value>, columns: &[&str]) -> Result<(), Failure> {
        if self.is_json {
            return say::line(pretty(&Value::Array(items))).map_err(Failure::Untold);
        }
        if items.is_empty() {
            // Not among what a script counts.
            say::note("there are none");
            return Ok(());
        }
        say::line(show::list(&items, columns)).map_err(Failure::Untold)
    }

    /// Tells that something was done.
    fn tell(&self, answer: &Value, text: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
        let text = if self.is_json { pretty(answer) } else { say::clean_but(&text(answer), &['\n', '\t']) };
        say::line(text).map_err(Failure::Untold)
    }
}

/// The token that a file has.
fn token_in(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    let text =
        text.map_err(|error| Failure::Wrong(format!("the token cannot be read from {}: {error}", file.display())))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Wrong(format!(
            "{} has no token: that is one word of letters, digits and signs, the same as in the file of the broker's setting \
             console.token_file",
            file.display()
        )));
    }
    Ok(token.to_owned())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let done = Asking::of(arguments).and_then(|asking| run_with(&arguments.noun, &asking));
    let Err(failure) = done else { return ExitCode::SUCCESS };
    say::problem(&failure);
    ExitCode::from(match failure {
        Failure::Refused { .. } | Failure::Untold(_) => NOT_ALL,
        Failure::Wrong(_) => WRONG,
        Failure::Unasked(_) => UNASKED,
    })
}

fn run_with(noun: &Noun, asking: &Asking) -> Result<(), Failure> {
    match noun {
        Noun::Broker(action) => broker::run(action, asking),
        Noun::Cluster(action) => cluster::run(action, asking),
        Noun::Connection(action) => connection::run(action, asking),
        Noun::Topic(action) => topic::run(action, asking),
        Noun::Group(action) => group::run(action, asking),
        Noun::Message(action) => message::run(action, asking),
        Noun::Vhost(action) => vhost::run(action, asking),
        Noun::User(action) => user::run(action, asking),
        Noun::Permission(action) => permission::run(action, asking),
        Noun::TopicPermission(action) => topic_permission::run(action, asking),
        Noun::Exchange(action) => exchange::run(action, asking),
        Noun::Queue(action) => queue::run(action, asking),
        Noun::Binding(action) => binding::run(action, asking),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_json_or_text() {
        for (text, name, value) in [
            ("x-max-length=1000", "x-max-length", json!(1000)),
            ("x-overflow=reject-publish", "x-overflow", json!("reject-publish")),
            ("x-single-active-consumer=true", "x-single-active-consumer", json!(true)),
            ("a=b=c", "a", json!("b=c")),
            ("a=\"5\"", "a", json!("5")),
            ("a=", "a", json!("")),
        ] {
            assert_eq!(argument(text), Ok((name.to_owned(), value)));
        }
        assert!(argument("x-max-length").is_err());
    }
}
