//! The tables of a master as a slave asks for them, one after the other.

use base::LogOffset;
use bytes::Bytes;
use format::master_tables::MasterTables;
use format::state;
use format::state_documents::{self, DELAY_FILE, GROUPS_FILE, OFFSETS_FILE, REQUEST_MODES_FILE, TOPICS_FILE};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, TypedHeader};
use wire::rocketmq::frame::Command;
use wire::rocketmq::header::{StatePart, TableResponse};

/// The tables, and the documents they are.
const TABLES: [(i32, &str); 5] = [
    (request::GET_ALL_TOPIC_CONFIG, TOPICS_FILE),
    (request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG, GROUPS_FILE),
    (request::GET_ALL_CONSUMER_OFFSET, OFFSETS_FILE),
    (request::GET_ALL_DELAY_OFFSET, DELAY_FILE),
    // Of 5.x: one of 4.9 does not know the request.
    (request::GET_ALL_MESSAGE_REQUEST_MODE, REQUEST_MODES_FILE),
];

/// Parts of what no table tells, that a master may have: at 4 MiB each, more than fits into any memory.
const PARTS_MAX: u32 = 4096;

/// What came in a round.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    tables: Vec<Option<Bytes>>,
    /// Parts of what no table tells,
    parts: Vec<Bytes>,
    /// and how many there are; 0: they are not asked for, or the master has none.
    part_count: u32,
    position: Option<LogOffset>,
}

impl Gathered {
    /// Nothing yet; what no table tells is asked for, or not.
    pub(super) fn asking(for_undocumented: bool) -> Self {
        Self { part_count: u32::from(for_undocumented), ..Self::default() }
    }

    /// What is asked for next: its code, and its fields.
    pub(super) fn wanted(&self) -> Option<(i32, impl Fn(&mut FieldSink<'_>) + use<>)> {
        let (code, part) = match TABLES.get(self.tables.len()) {
            Some((code, _)) => (*code, StatePart::default()),
            None => (request::GET_ALL_UNDOCUMENTED_STATE, self.next_part()?),
        };
        Some((code, move |sink: &mut FieldSink<'_>| part.encode(sink)))
    }

    fn next_part(&self) -> Option<StatePart<'static>> {
        let part = self.parts.len() as u32;
        let number = |number: u32| i32::try_from(number).ok();
        // Of how many, the first answer says.
        let parts = if part == 0 { None } else { number(self.part_count) };
        (part < self.part_count).then(|| StatePart { part: number(part), parts, ..StatePart::default() })
    }

    /// Takes in the answer to what was asked for. An error is for people.
    pub(super) fn take(&mut self, frame: &Bytes, answer: &Command<'_>) -> Result<(), String> {
        let code = answer.header.code;
        let is_unknown = code == response::REQUEST_CODE_NOT_SUPPORTED;
        match TABLES.get(self.tables.len()) {
            Some((_, document)) => {
                // So a master of Java says that a table is empty.
                let says_none =
                    answer.header.remark.as_deref().is_some_and(|remark| remark.ends_with("in this broker"));
                let is_empty = match code {
                    response::SYSTEM_ERROR => says_none,
                    response::REQUEST_CODE_NOT_SUPPORTED => *document == REQUEST_MODES_FILE,
                    _ => answer.body.is_empty(),
                };
                if !is_empty {
                    succeeded(answer)?;
                }
                self.note_position(answer, self.tables.is_empty())?;
                self.tables.push((!is_empty).then(|| frame.slice_ref(answer.body)));
            }
            // No master of Java knows it: it has nothing of the kind.
            None if is_unknown && self.parts.is_empty() => self.part_count = 0,
            None => {
                succeeded(answer)?;
                self.note_position(answer, false)?;
                self.part_count = part_count(answer)?;
                self.parts.push(frame.slice_ref(answer.body));
            }
        }
        Ok(())
    }

    fn note_position(&mut self, answer: &Command<'_>, is_first: bool) -> Result<(), String> {
        let fields = TableResponse::decode(&answer.fields).map_err(|error| error.to_string())?;
        let position = fields.log_position.and_then(|position| u64::try_from(position).ok()).map(LogOffset);
        self.position = if is_first { position } else { self.position.min(position) };
        Ok(())
    }

    /// Bytes of it.
    pub(super) fn size(&self) -> usize {
        self.tables.iter().flatten().chain(&self.parts).map(Bytes::len).sum()
    }

    /// What it says.
    pub(super) fn read(&self) -> Result<MasterTables, String> {
        let mut tables = MasterTables { position: self.position, ..MasterTables::default() };
        for ((_, name), body) in TABLES.iter().zip(&self.tables) {
            let Some(body) = body else { continue };
            let unreadable = |problem: String| format!("the master's {name} cannot be read: {problem}");
            let document = state_documents::parse(body).map_err(|error| unreadable(error.to_string()))?;
            tables.documents.take_in(name, document).map_err(|error| unreadable(error.to_string()))?;
        }
        for part in &self.parts {
            let changes = state::decode(part);
            let changes =
                changes.map_err(|error| format!("what the master's state is besides cannot be read: {error}"));
            tables.undocumented.get_or_insert_default().extend(changes?);
        }
        Ok(tables)
    }
}

fn part_count(answer: &Command<'_>) -> Result<u32, String> {
    let parts = StatePart::decode(&answer.fields).map_err(|error| error.to_string())?.parts;
    let parts = parts.and_then(|parts| u32::try_from(parts).ok()).filter(|parts| (1..=PARTS_MAX).contains(parts));
    parts.ok_or_else(|| "the master does not say in how many parts it tells its state".to_owned())
}

/// Whether the master has done what it was asked for; else what it says.
pub(super) fn succeeded(answer: &Command<'_>) -> Result<(), String> {
    let code = answer.header.code;
    if code == response::SUCCESS {
        return Ok(());
    }
    let remark = answer.header.remark.as_deref().unwrap_or("no reason given");
    Err(format!("the master refused with code {code} ({}): {remark}", response::name(code)))
}
