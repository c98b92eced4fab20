//! The `sluice` binary: one message broker that speaks RocketMQ and AMQP 0-9-1.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the command line reads files and clocks")]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads: see say.rs")]

mod allocator;
mod cmd;
mod say;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use settings::Role;

use cmd::settings::{Official, Sources};

/// One message broker that programs written for RocketMQ and RabbitMQ use unchanged.
#[derive(Parser)]
#[command(name = "sluice", version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Runs everything in one process: name server, broker, console.
    Serve(Sources),
    /// Runs a name server alone (as mqnamesrv).
    Namesrv(Official),
    /// Runs a broker alone (as mqbroker).
    Broker(cmd::broker::Arguments),
    /// Shows settings: the effective ones, or a commented sample file.
    Config(cmd::config::Arguments),
    /// Checks whether this machine suits a broker, and says what matters and why.
    Doctor(cmd::doctor::Arguments),
    /// Administrates a running broker: topics, groups and messages; virtual hosts, users, queues and what belongs to them.
    Admin(cmd::admin::Arguments),
    /// Sends messages: lines, files or JSON, to a topic, a queue or an exchange.
    Produce(cmd::produce::Arguments),
    /// Prints messages of a topic, a queue or a stream.
    Consume(cmd::consume::Arguments),
    /// Measures a broker: Sluice or an official one.
    Bench(cmd::bench::Arguments),
    /// Looks at a data directory: verifies it, prints its records, exports its documents.
    Store(cmd::store::Arguments),
    /// Prints what a shell needs to complete commands and options.
    Completions(cmd::completions::Arguments),
    /// Writes the manual pages of all commands into a directory.
    Manual(cmd::manual::Arguments),
}

fn main() -> ExitCode {
    allocator::give_back_at_once();
    let outcome = match Arguments::parse().command {
        Command::Serve(sources) => sources.run(Role::Serve, Vec::new()),
        Command::Namesrv(official) => official.run(Role::NameServer, Vec::new()),
        Command::Broker(arguments) => cmd::broker::run(&arguments),
        Command::Config(arguments) => cmd::config::run(&arguments),
        Command::Doctor(arguments) => cmd::doctor::run(&arguments),
        Command::Admin(arguments) => return cmd::admin::run(&arguments),
        Command::Produce(arguments) => return cmd::produce::run(&arguments),
        Command::Consume(arguments) => return cmd::consume::run(&arguments),
        Command::Bench(arguments) => cmd::bench::run(&arguments),
        Command::Store(arguments) => return cmd::store::run(&arguments),
        Command::Completions(arguments) => cmd::completions::run(&arguments, Arguments::command()),
        Command::Manual(arguments) => cmd::manual::run(&arguments, Arguments::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say::last_words(format!("sluice: {problem}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of a help text at most, see `max_term_width`.
    const HELP_COLUMNS: usize = 100;

    fn check_examples(command: &clap::Command) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("  ")) {
            let columns = line.chars().count();
            assert!(columns <= HELP_COLUMNS, "{}: {columns} columns: {line}", command.get_name());
        }
        command.get_subcommands().for_each(check_examples);
    }

    #[test]
    fn no_example_is_broken_into_two_lines() {
        check_examples(&Arguments::command());
    }
}
