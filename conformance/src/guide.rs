//! A page that tells how something is done: its commands, in their order.
//!
//! A command is a line of a code block whose first line says where its lines are run: `# on ADDRESS`.

use std::path::Path;

/// A code block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The heading it is under, and the words in italics that begin the paragraph before it, such as `2. The slave: Way back`.
    pub step: String,
    /// Address of the machine.
    pub machine: String,
    /// Lines of shell.
    pub commands: Vec<String>,
}

/// A page.
#[derive(Debug)]
pub struct Guide {
    /// All of it.
    pub text: String,
    /// Code blocks that say no machine.
    pub others: Vec<String>,
    /// Code blocks that do.
    pub blocks: Vec<Block>,
}

impl Guide {
    /// Reads a page.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut guide = Self { text: text.clone(), others: Vec::new(), blocks: Vec::new() };
        let (mut heading, mut label) = (String::new(), String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(title) = line.strip_prefix("## ") {
                title.clone_into(&mut heading);
                label.clear();
            } else if let Some((words, _)) = line.strip_prefix('*').and_then(|rest| rest.split_once('*')) {
                label = format!(": {words}");
            } else if line.trim_start().starts_with("```") {
                let block: Vec<_> = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
                guide.add(&format!("{heading}{label}"), &block);
            }
        }
        guide
    }

    fn add(&mut self, step: &str, lines: &[&str]) {
        let Some(machine) = lines.first().and_then(|line| line.strip_prefix("# on ")) else {
            self.others.push(lines.join("\n"));
            return;
        };
        let commands = lines[1..].iter().map(|&line| line.to_owned()).collect();
        self.blocks.push(Block { step: step.to_owned(), machine: machine.to_owned(), commands });
    }

    /// Its steps, each once.
    pub fn steps(&self) -> Vec<&str> {
        let mut steps: Vec<_> = self.blocks.iter().map(|block| &*block.step).collect();
        steps.dedup();
        steps
    }
}
