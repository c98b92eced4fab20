//! What `cargo xtask mutants` is asked for.

const USAGE: &str = "cargo xtask mutants [CRATE...] [--sample K] [--one-in N] [--jobs N]";
/// Copies of the tree that are built and tested at a time.
const JOBS_DEFAULT: u32 = 2;

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Wish {
    /// Crates; none is all.
    crates: Vec<String>,
    /// Which of the samples.
    pub sample: u32,
    /// One of so many mutants, where that is not the crate's own number.
    pub one_in: Option<u32>,
    /// At a time.
    pub jobs: u32,
}

impl Wish {
    /// Whether the crate of that name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.crates.is_empty() || self.crates.iter().any(|one| one == name)
    }
}

/// Understands the arguments, `known` being the crates there are mutants of.
pub fn parse(arguments: &[&str], known: &[&str]) -> Result<Wish, String> {
    let mut wish = Wish { crates: Vec::new(), sample: 0, one_in: None, jobs: JOBS_DEFAULT };
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        let mut number = |least: u32| {
            let number = rest.next().and_then(|number| number.parse().ok()).filter(|&number| number >= least);
            number.ok_or_else(|| format!("{argument} needs a number, {least} or more; {USAGE}"))
        };
        match argument {
            "--sample" => wish.sample = number(0)?,
            "--one-in" => wish.one_in = Some(number(1)?),
            "--jobs" => wish.jobs = number(1)?,
            name if known.contains(&name) => wish.crates.push(name.to_owned()),
            other => return Err(format!("`{other}` is not understood; {USAGE}\ncrates: {}", known.join(", "))),
        }
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let parse = |arguments: &[&str]| super::parse(arguments, &["storage", "wire"]);
        let wish = parse(&[]).expect("nothing");
        assert_eq!((wish.sample, wish.one_in, wish.jobs), (0, None, JOBS_DEFAULT));
        assert!(wish.wants("storage") && wish.wants("wire"));
        let wish = parse(&["wire", "--sample", "3", "--one-in", "50", "--jobs", "1"]).expect("all of it");
        assert_eq!((wish.sample, wish.one_in, wish.jobs), (3, Some(50), 1));
        assert!(wish.wants("wire") && !wish.wants("storage"));
        for wrong in [&["base"][..], &["--sample"], &["--one-in", "0"], &["--jobs", "x"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
