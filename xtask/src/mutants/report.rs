//! What became of the mutants, and whether that is good enough.

/// Percent of the viable mutants that tests must catch, those with an excuse aside.
const CAUGHT_PERCENT_MIN: usize = 90;
/// Between a mutant and the reason why it need not be caught.
const REASON_MARK: &str = "  # ";

/// A mutant that need not be caught: where it stands without its line, which moves, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Excuse {
    name: String,
}

impl Excuse {
    /// The file it stands in.
    pub fn path(&self) -> &str {
        self.name.split(": ").next().unwrap_or_default()
    }
}

/// Mutants of a crate by what became of them, named as cargo-mutants names them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// A test failed.
    pub caught: Vec<String>,
    /// None did.
    pub missed: Vec<String>,
    /// They do not compile.
    pub unviable: Vec<String>,
    /// The tests did not end: somebody would notice.
    pub hung: Vec<String>,
}

impl Found {
    /// Those that were missed and have no excuse.
    pub fn missed_without<'a>(&'a self, excuses: &'a [Excuse]) -> impl Iterator<Item = &'a str> {
        let is_excused = |name: &str| excuses.iter().any(|excuse| excuse.name == without_line(name));
        self.missed.iter().map(String::as_str).filter(move |name| !is_excused(name))
    }

    /// What other tests found of those that were missed here, whatever else they were asked about.
    pub fn take_over(&mut self, other: &Self) {
        for name in std::mem::take(&mut self.missed) {
            let place = if other.caught.contains(&name) {
                &mut self.caught
            } else if other.hung.contains(&name) {
                &mut self.hung
            } else {
                &mut self.missed
            };
            place.push(name);
        }
    }

    fn add(&mut self, other: &Self) {
        self.caught.extend(other.caught.iter().cloned());
        self.missed.extend(other.missed.iter().cloned());
        self.unviable.extend(other.unviable.iter().cloned());
        self.hung.extend(other.hung.iter().cloned());
    }

    /// Caught and hung ones in percent of the viable, those with an excuse aside.
    fn percent(&self, excuses: &[Excuse]) -> usize {
        let caught = self.caught.len() + self.hung.len();
        let counted = caught + self.missed_without(excuses).count();
        (caught * 100).checked_div(counted).unwrap_or(100)
    }
}

/// The mutants with an excuse: a line `PATH: MUTATION in FUNCTION  # REASON` each, without line and column.
pub fn excuses(text: &str) -> Result<Vec<Excuse>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let excuse = |line: &str| {
        let (name, reason) = line.split_once(REASON_MARK)?;
        let is_whole = name.contains(": ") && !reason.trim().is_empty() && without_line(name) == name;
        is_whole.then(|| Excuse { name: name.trim().to_owned() })
    };
    let problem =
        |line: &str| format!("[{line}] is not PATH: MUTATION in FUNCTION{REASON_MARK}REASON, without a line number");
    lines.map(|line| excuse(line).ok_or_else(|| problem(line))).collect()
}

/// `PATH:LINE:COLUMN: MUTATION` as `PATH: MUTATION`.
fn without_line(name: &str) -> String {
    let Some((place, mutation)) = name.split_once(": ") else { return name.to_owned() };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = place.rsplitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(column), Some(line), Some(path)) if is_number(column) && is_number(line) => format!("{path}: {mutation}"),
        _ => name.to_owned(),
    }
}

/// A line for each crate, what was missed, and whether enough was caught.
pub fn report(found: &[(&str, Found)], excuses: &[Excuse]) -> (String, Result<(), String>) {
    let mut all = Found::default();
    let mut text =
        format!("{:8} {:>7} {:>7} {:>8} {:>9} {:>5}\n", "", "caught", "missed", "excused", "unviable", "hung");
    let line = |name: &str, found: &Found| {
        let missed = found.missed_without(excuses).count();
        let (caught, excused) = (found.caught.len(), found.missed.len() - missed);
        let (unviable, hung) = (found.unviable.len(), found.hung.len());
        let percent = found.percent(excuses);
        format!("{name:8} {caught:>7} {missed:>7} {excused:>8} {unviable:>9} {hung:>5}   {percent:>3} %\n")
    };
    for (name, of_crate) in found {
        text.push_str(&line(name, of_crate));
        all.add(of_crate);
    }
    text.push_str(&line("in all", &all));
    for name in all.missed_without(excuses) {
        text.push_str(&format!("missed: {name}\n"));
    }
    let caught = all.caught.iter().chain(&all.hung).map(|name| without_line(name));
    // The same mutation may stand in a function more than once, and be missed in one place.
    let is_missed = |name: &String| all.missed.iter().any(|missed| without_line(missed) == *name);
    for name in caught.filter(|name| excuses.iter().any(|excuse| excuse.name == *name) && !is_missed(name)) {
        text.push_str(&format!("caught, and need not be excused any more: {name}\n"));
    }
    let percent = all.percent(excuses);
    let outcome = if percent >= CAUGHT_PERCENT_MIN {
        Ok(())
    } else {
        Err(format!(
            "tests catch {percent} % of these mutants and should catch {CAUGHT_PERCENT_MIN} %: write a test for what was \
             missed, or say in xtask/mutants.txt why none can or need be"
        ))
    };
    (text, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize, what: &str) -> Vec<String> {
        (0..count).map(|line| format!("crates/x/src/{what}.rs:{line}:9: replace + with - in f")).collect()
    }

    fn found(caught: usize, missed: usize) -> Found {
        Found { caught: names(caught, "a"), missed: names(missed, "b"), unviable: names(3, "c"), hung: Vec::new() }
    }

    #[test]
    fn under_ninety_percent_of_the_viable_ones_fails() {
        let outcome = |caught, missed| report(&[("x", found(caught, missed))], &[]).1;
        assert_eq!((outcome(9, 1), outcome(0, 0)), (Ok(()), Ok(())));
        assert!(outcome(89, 11).expect_err("too few").contains("catch 89 %"));
        let hung = Found { hung: names(9, "h"), ..found(0, 1) };
        assert_eq!(report(&[("x", hung)], &[]).1, Ok(()), "who never ends is noticed");
    }

    #[test]
    fn a_mutant_with_a_reason_is_not_counted_wherever_its_line_has_moved() {
        let excuses =
            excuses("# a remark\n\ncrates/x/src/b.rs: replace + with - in f  # nobody can tell\n").expect("one");
        assert_eq!(excuses[0].path(), "crates/x/src/b.rs");
        let (text, outcome) = report(&[("x", found(1, 5))], &excuses);
        assert_eq!(outcome, Ok(()), "{text}");
        assert!(text.contains("x              1       0        5         3     0   100 %\n"), "{text}");
        assert!(!text.contains("missed:"), "{text}");
        let caught = Found { caught: names(1, "b"), ..Found::default() };
        assert!(report(&[("x", caught)], &excuses).0.contains("need not be excused any more"));
    }

    #[test]
    fn an_excuse_without_reason_or_with_a_line_number_is_refused() {
        let of = |line: &str| excuses(line).is_ok();
        assert!(of("crates/x/src/b.rs: replace + with - in f  # why"));
        assert!(!of("crates/x/src/b.rs: replace + with - in f"));
        assert!(!of("crates/x/src/b.rs: replace + with - in f  #  "));
        assert!(!of("crates/x/src/b.rs:3:5: replace + with - in f  # why"));
    }

    #[test]
    fn what_other_tests_catch_is_not_missed() {
        let mut here = found(1, 2);
        let caught = [names(1, "b"), names(1, "of a file beside it")].concat();
        let other = Found { caught, missed: names(2, "b").split_off(1), ..Found::default() };
        here.take_over(&other);
        assert_eq!((here.caught.len(), here.missed.len()), (2, 1));
    }
}
