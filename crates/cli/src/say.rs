//! What a subcommand prints, all of it: whoever reads may have gone, and a full disk is told of instead of panicking.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How long the last words may take.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);

/// Prints `text` and a line's end on standard output. It is no fault if nobody reads it any more, as with `| head`.
pub fn line(text: impl std::fmt::Display) -> Result<(), String> {
    let mut out = io::stdout().lock();
    ended(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// How printing on standard output ended.
pub fn ended(printed: io::Result<()>) -> Result<(), String> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Text that cannot move the cursor of a terminal.
pub fn clean(text: &str) -> String {
    clean_but(text, &[])
}

/// The same, in which these stay as they are.
pub fn clean_but(text: &str, kept: &[char]) -> String {
    let is_shown = |one: char| !moves(one) || kept.contains(&one);
    text.chars().flat_map(|one| if is_shown(one) { vec![one] } else { one.escape_default().collect() }).collect()
}

/// Whether a character moves the cursor, or has letters run the other way.
fn moves(one: char) -> bool {
    const DIRECTIONS: [char; 12] = [
        '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}',
        '\u{2067}', '\u{2068}', '\u{2069}',
    ];
    one.is_control() || DIRECTIONS.contains(&one)
}

/// Says what went wrong on standard error, whatever names it has in it.
pub fn problem(text: impl std::fmt::Display) {
    note(format_args!("sluice: {}", clean_but(&text.to_string(), &['\n'])));
}

/// Says `text` on standard error, if it takes it.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A bar on standard error, which nobody sees where that is no terminal.
pub fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// The last that is said, on standard error. A broker's log may be a pipe that is full and that nobody reads: its end must not
/// wait for that.
pub fn last_words(text: String) {
    let (said, waited) = mpsc::channel();
    let saying = thread::Builder::new().spawn(move || {
        note(text);
        let _ = said.send(());
    });
    if saying.is_ok() {
        let _ = waited.recv_timeout(LAST_WORDS_LIMIT);
    }
}
