//! `sluice admin user`. A password is never an argument: whoever lists processes would read it.

use std::io::{IsTerminal, Read as _};

use serde_json::json;

use super::Asking;
use super::client::{Failure, path};
use super::show::words;

/// Bytes of a password.
const PASSWORD_SIZE_MAX: u64 = 4096;

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "Examples:\n  \
    sluice admin user add alice\n  \
    pass show broker/alice | sluice admin user add alice --password-stdin\n  \
    sluice admin user tags alice administrator\n  \
    sluice admin user limit alice --connections 10 --channels 100")]
pub(super) enum Action {
    /// Lists users.
    List,
    /// Makes a user, who may do nothing until a permission is set.
    #[command(visible_alias = "create")]
    Add {
        /// Its name.
        name: String,
        #[command(flatten)]
        password: PasswordSource,
        /// A tag, such as administrator, monitoring or impersonator; may be given often.
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
    },
    /// Changes a user's password; who is connected stays so.
    Password {
        /// The user's name.
        name: String,
        #[command(flatten)]
        password: PasswordSource,
    },
    /// Gives a user these tags instead of the ones there are.
    Tags {
        /// The user's name.
        name: String,
        /// Tags; none: the user has none from then on.
        tags: Vec<String>,
    },
    /// Says how much a user may have at one time, instead of what was said before; what it has it keeps.
    Limit {
        /// The user's name.
        name: String,
        /// Connections; without it any number.
        #[arg(long, value_name = "COUNT")]
        connections: Option<u32>,
        /// Channels, on all connections together; without it any number.
        #[arg(long, value_name = "COUNT")]
        channels: Option<u32>,
    },
    /// Removes a user with all permissions; the user's connections are closed.
    Delete {
        /// The user's name.
        name: String,
    },
}

/// Where a password comes from. Without any of these it is asked for at the terminal.
#[derive(clap::Args, Debug)]
pub(super) struct PasswordSource {
    /// Reads the password from standard input, to the end of its first line.
    #[arg(long)]
    password_stdin: bool,
    /// Without a password nobody can connect as this user by one.
    #[arg(long, conflicts_with = "password_stdin")]
    no_password: bool,
}

impl PasswordSource {
    fn read(&self) -> Result<Option<String>, Failure> {
        if self.no_password {
            return Ok(None);
        }
        let password = if self.password_stdin { from_stdin() } else { ask() };
        let password = password.map_err(Failure::Wrong)?;
        if password.is_empty() { Err(Failure::Wrong("the password is empty".to_owned())) } else { Ok(Some(password)) }
    }
}

fn from_stdin() -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(PASSWORD_SIZE_MAX).read_to_string(&mut text);
    read.map_err(|error| format!("the password cannot be read from standard input: {error}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn ask() -> Result<String, String> {
    if !std::io::stdin().is_terminal() {
        return Err("there is no terminal to ask for the password: give it by --password-stdin".to_owned());
    }
    let read = |prompt| rpassword::prompt_password(prompt).map_err(|error| format!("no password was read: {error}"));
    let password = read("Password: ")?;
    if password == read("Once more: ")? { Ok(password) } else { Err("the two passwords differ".to_owned()) }
}

pub(super) fn run(action: &Action, asking: &Asking) -> Result<(), Failure> {
    let client = &asking.client;
    match action {
        Action::List => asking.list("/users", &["name", "tags", "has_password", "connections_max", "channels_max"]),
        Action::Add { name, password, tags } => {
            let new = json!({"name": name, "password": password.read()?, "tags": tags});
            let answer = client.post("/users", &new)?;
            asking.tell(&answer, |_| format!("user {name} was made"))
        }
        Action::Password { name, password } => {
            let answer = client.put(&path(["users", name, "password"]), &json!({"password": password.read()?}))?;
            asking.tell(&answer, |_| format!("user {name} has another password"))
        }
        Action::Tags { name, tags } => {
            let answer = client.put(&path(["users", name, "tags"]), &json!({"tags": tags}))?;
            asking.tell(&answer, |_| format!("user {name} has these tags: {}", words(tags)))
        }
        Action::Limit { name, connections, channels } => {
            let limits = json!({"connections": connections, "channels": channels});
            let answer = client.put(&path(["users", name, "limits"]), &limits)?;
            asking.tell(&answer, |_| format!("user {name} is limited"))
        }
        Action::Delete { name } => {
            let answer = client.delete(&path(["users", name]))?;
            asking.tell(&answer, |_| format!("user {name} was deleted"))
        }
    }
}
