//! `sluice store export`: RocketMQ's documents of a broker that is stopped, for a Java broker that is started next.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{Given, grouped, process, settings_of};
use crate::say;

#[derive(clap::Args, Debug)]
#[command(after_help = "Example, after a broker was killed that is to be replaced by a RocketMQ broker:\n  \
    sluice store export /var/lib/sluice -c broker.conf\n  \
    mqbroker -c broker.conf")]
pub(super) struct Export {
    /// Data directory of a broker that is stopped, also by a kill.
    directory: PathBuf,
    #[command(flatten)]
    settings: Given,
}

pub(super) fn run(arguments: &Export) -> Result<ExitCode, String> {
    let settings = settings_of(&arguments.settings, &arguments.directory)?;
    let directory = arguments.directory.display();
    if let Some(holder) = inspect::holder(&server::store_options(&settings)) {
        return Err(format!(
            "{directory} is in use by {}, and its documents are that one's to write; stop it first (a Sluice that stops in order has written them then)",
            process(holder)
        ));
    }
    let bar = say::bar("{msg} [{bar:40}] {percent:>3} %  {bytes} of {total_bytes}");
    bar.set_message(format!("read {directory}"));
    let exported = server::export_documents(&settings, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let exported = exported.map_err(|error| error.to_string())?.ok_or_else(|| {
        format!(
            "{directory} holds no state of Sluice's: its documents are those of a RocketMQ broker, and stay as they are"
        )
    })?;
    let mut text = String::new();
    for document in &exported.written {
        let count = grouped(document.count as u64);
        let _ = writeln!(text, "wrote {}: {count} {}", document.path.display(), document.unit);
    }
    for path in &exported.left {
        let _ = writeln!(text, "left {}: a RocketMQ broker has written it since", path.display());
    }
    let _ = write!(
        text,
        "A RocketMQ broker that is started now finds every change up to log offset {}, where the log ends.",
        grouped(exported.log_end.0)
    );
    say::line(text)?;
    Ok(ExitCode::SUCCESS)
}
