//! Stories as people read them.

use std::fmt;

use super::{After, Step, Story};

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.setup)?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "{number:3} {step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.action)?;
        if self.is_held {
            f.write_str(", which stays on its way")?;
        } else if self.piece_size < usize::MAX {
            write!(f, ", in pieces of {} bytes", self.piece_size)?;
        }
        match self.after {
            After::Nothing => f.write_str("; nobody goes on"),
            After::Wakes => f.write_str("; sessions go on"),
            After::Everything => Ok(()),
        }
    }
}
