//! A disk in memory that fails when it is told to, and that a power cut can rob of what was not synced.
//!
//! Owns a `MemoryDisk`, which is what the page cache shows, and the history of what was done to it. **Always holds**: while no
//! failure is set and nothing held, it cannot be told from the memory disk. `after_power_cut` makes the disk of any moment of the
//! history anew; `disk::history` says what may be lost. A killed process loses nothing: open the same disk again.

mod gate;
mod patience;

use std::fmt;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use gate::Gates;
pub use patience::without_waiting;

use super::failure::{Effect, Failure, Operation};
use super::history::{Change, History};
use super::memory::{MemoryDisk, MemoryFile};
use super::{FileHandle, FileState, FileSystem, Opening, Reading};

/// A disk that fails on demand. Copies of the value are the same disk.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Shared>);

struct Shared {
    memory: MemoryDisk,
    /// Held through each operation, so that the history is in the order things happened.
    state: Mutex<State>,
    gates: Gates,
}

struct State {
    history: History,
    failures: Vec<Failure>,
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyDisk({} changes)", self.points())
    }
}

impl FaultyDisk {
    /// A disk that holds what `memory` holds, all of it synced. `memory` is left alone from now on.
    pub fn over(memory: &MemoryDisk) -> Self {
        let state = State { history: History::starting_with(memory.copy()), failures: Vec::new() };
        let (memory, state) = (memory.copy(), Mutex::new(state));
        Self(Arc::new(Shared { memory, state, gates: Gates::default() }))
    }

    /// Lets something fail from now on.
    pub fn fail(&self, failure: Failure) {
        self.0.state.lock().failures.push(failure);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.0.state.lock().failures.clear();
    }

    /// The disk is slow: no sync of a file comes back before `release(Operation::Sync)`.
    pub fn hold_syncs(&self) {
        self.0.gates.of(Operation::Sync).hold(usize::MAX);
    }

    /// The disk is slow once: the next such operation waits for `release`. A reservation and a read wait when they are done, and nobody
    /// hears of it before; all else waits before it is done.
    pub fn hold_next(&self, operation: Operation) {
        self.0.gates.of(operation).hold(1);
    }

    /// No operation waits any more, of whatever kind.
    pub fn release_all(&self) {
        Operation::ALL.into_iter().for_each(|operation| self.release(operation));
    }

    /// How many such operations are being held.
    pub fn held_count(&self, operation: Operation) -> usize {
        self.0.gates.of(operation).waiting()
    }

    /// Waits until such an operation is being held.
    pub fn wait_for_held(&self, operation: Operation) {
        self.0.gates.of(operation).wait_for_one();
    }

    /// Lets all such operations go on.
    pub fn release(&self, operation: Operation) {
        self.0.gates.of(operation).release();
    }

    /// The disk as programs see it, to look at and to damage behind the store's back.
    pub fn memory(&self) -> &MemoryDisk {
        &self.0.memory
    }

    /// Moments a power can be cut at so far: after each change, and before all of them.
    pub fn points(&self) -> usize {
        self.0.state.lock().history.changes.len()
    }

    /// What was done since, one line a change, without the bytes.
    pub fn trace(&self) -> Vec<String> {
        let state = self.0.state.lock();
        let line = |change: &Change| match change {
            Change::Write(file, position, bytes) => {
                format!("Write({file}, {position}, {} bytes, crc {:08x})", bytes.len(), crc32fast::hash(bytes))
            }
            other => format!("{other:?}"),
        };
        state.history.changes.iter().map(line).collect()
    }

    /// The disk after the power was cut once `point` changes were made. `survives` is asked about everything that was not
    /// sure by then, in order.
    pub fn after_power_cut(&self, point: usize, mut survives: impl FnMut() -> bool) -> MemoryDisk {
        let image = self.0.state.lock().history.image(point, &mut survives);
        // The history has no times: a file that is there still was written when it was.
        image.take_times_of(&self.0.memory);
        image
    }

    /// Does `act` if nothing keeps `operation` from it, and notes what it says was changed.
    fn step<T>(
        &self,
        operation: Operation,
        path: &Path,
        act: impl FnOnce(&MemoryDisk, Option<usize>, &mut Vec<Change>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.step_at(operation, path, 0..u64::MAX, act)
    }

    /// The same for an operation that touches these bytes.
    fn step_at<T>(
        &self,
        operation: Operation,
        path: &Path,
        touched: Range<u64>,
        act: impl FnOnce(&MemoryDisk, Option<usize>, &mut Vec<Change>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.0.state.lock();
        let mut size_max = None;
        match state.effect_on(operation, path, &touched) {
            Some((_, Effect::Error(code))) => return Err(io::Error::from_raw_os_error(code)),
            Some((_, Effect::Short(size))) => size_max = Some(size),
            None => {}
        }
        act(&self.0.memory, size_max, &mut state.history.changes)
    }

    /// Asks for something that changes nothing, and of which the history has nothing.
    fn look<T>(&self, path: &Path, ask: impl FnOnce(&MemoryDisk) -> io::Result<T>) -> io::Result<T> {
        self.0.gates.of(Operation::Examine).pass();
        self.step(Operation::Examine, path, |memory, _, _| ask(memory))
    }

    /// Puts a file on the disk, unless that is to fail.
    fn sync(&self, path: &Path, number: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        match state.effect_on(Operation::Sync, path, &(0..u64::MAX)) {
            Some((meant, Effect::Error(code))) => {
                // Where every change fails, the machine has stopped: the disk was not even asked.
                if meant == Operation::Sync {
                    state.history.changes.push(Change::FailedSync(number));
                }
                Err(io::Error::from_raw_os_error(code))
            }
            _ => {
                state.history.changes.push(Change::Sync(number));
                Ok(())
            }
        }
    }
}

impl State {
    /// What keeps `operation` from going well, and as which operation it was told to fail.
    fn effect_on(&mut self, operation: Operation, path: &Path, touched: &Range<u64>) -> Option<(Operation, Effect)> {
        let mut effect = None;
        for failure in &mut self.failures {
            if let Some(own) = failure.effect_on(operation, path, touched) {
                effect.get_or_insert((failure.operation, own));
            }
        }
        effect
    }
}

impl FileSystem for FaultyDisk {
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn FileHandle>> {
        self.0.gates.of(Operation::Open).pass();
        let file = self.step(Operation::Open, path, |memory, _, changes| {
            let (file, is_made) = memory.open_file(path, opening)?;
            if is_made {
                changes.push(Change::Name(path.to_owned(), file.contents.number));
            }
            Ok(file)
        })?;
        Ok(Box::new(FaultyFile { disk: self.clone(), file, path: path.to_owned() }))
    }

    fn examine(&self, path: &Path) -> io::Result<FileState> {
        self.look(path, |memory| memory.examine(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        patience::wait("list", path);
        self.look(path, |memory| memory.list(path))
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::Name, path, |memory, _, changes| {
            memory.make_directory(path)?;
            changes.push(Change::MakeDirectory(path.to_owned()));
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.gates.of(Operation::Name).pass();
        self.step(Operation::Name, path, |memory, _, changes| {
            memory.remove_file(path)?;
            changes.push(Change::Remove(path.to_owned()));
            Ok(())
        })
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        patience::wait("remove", path);
        self.0.memory.list(path)?;
        self.0.gates.of(Operation::Name).pass();
        // Name by name, as the system does it.
        for (name, _) in self.0.memory.everything_in(path) {
            self.step(Operation::Name, &name, |memory, _, changes| {
                memory.remove_name(&name);
                changes.push(Change::Remove(name.clone()));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        patience::wait("rename", to);
        self.step(Operation::Name, to, |memory, _, changes| {
            let number = memory.number_of(from)?;
            memory.rename(from, to)?;
            changes.push(Change::Rename(from.to_owned(), to.to_owned(), number));
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        patience::wait("link", to);
        self.step(Operation::Name, to, |memory, _, changes| {
            let number = memory.number_of(from)?;
            memory.link(from, to)?;
            changes.push(Change::Name(to.to_owned(), number));
            Ok(())
        })
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        patience::wait("sync", path);
        self.0.gates.of(Operation::SyncDirectory).pass();
        self.step(Operation::SyncDirectory, path, |memory, _, changes| {
            memory.sync_directory(path)?;
            changes.push(Change::SyncDirectory(path.to_owned()));
            Ok(())
        })
    }

    fn sync_everything(&self, path: &Path) -> io::Result<()> {
        patience::wait("sync", path);
        for (name, is_directory) in self.0.memory.everything_in(path) {
            if is_directory {
                self.sync_directory(&name)?;
            } else {
                self.sync(&name, self.0.memory.number_of(&name)?)?;
            }
        }
        Ok(())
    }

    fn usage(&self, path: &Path) -> io::Result<(u64, u64)> {
        self.look(path, |memory| memory.usage(path))
    }

    fn boot(&self) -> io::Result<String> {
        self.0.memory.boot()
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    file: MemoryFile,
    path: PathBuf,
}

impl FaultyFile {
    fn number(&self) -> u64 {
        self.file.contents.number
    }

    /// Changes the file and notes its new size, if that is another one.
    fn change(
        &self,
        operation: Operation,
        act: impl FnOnce(&MemoryFile, Option<usize>) -> io::Result<(usize, Option<Change>)>,
    ) -> io::Result<usize> {
        self.disk.step(operation, &self.path, |_, size_max, changes| {
            let before = self.file.size()?;
            let outcome = act(&self.file, size_max);
            let after = self.file.size()?;
            if after != before {
                changes.push(Change::Size(self.number(), after));
            }
            let (count, change) = outcome?;
            changes.extend(change);
            Ok(count)
        })
    }
}

impl FileHandle for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn write(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.disk.0.gates.of(Operation::Write).pass();
        self.change(Operation::Write, |file, size_max| {
            let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            bytes.truncate(size_max.unwrap_or(usize::MAX));
            let count = file.write(&[IoSlice::new(&bytes)], position)?;
            Ok((count, Some(Change::Write(self.number(), position, bytes))))
        })
    }

    fn read(&self, buffer: &mut [u8], position: u64, reading: Reading) -> io::Result<usize> {
        if reading != Reading::IfCached {
            patience::wait("read", &self.path);
        }
        let touched = position..position + buffer.len() as u64;
        let read = |_: &_, _, _: &mut _| self.file.read(buffer, position, reading);
        let is_past_cache = matches!(reading, Reading::PastCache | Reading::Directly);
        let operation = if is_past_cache { Operation::ReadPastCache } else { Operation::Read };
        let done = self.disk.step_at(operation, &self.path, touched, read);
        self.disk.0.gates.of(Operation::Read).pass();
        done
    }

    fn read_into(&self, buffer: &mut Vec<u8>, count: usize, position: u64, may_wait: bool) -> io::Result<usize> {
        if may_wait {
            patience::wait("read", &self.path);
        }
        let touched = position..position + count as u64;
        let read = |_: &_, _, _: &mut _| self.file.read_into(buffer, count, position, may_wait);
        let done = self.disk.step_at(Operation::Read, &self.path, touched, read);
        self.disk.0.gates.of(Operation::Read).pass();
        done
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.change(Operation::Resize, |file, _| file.set_size(size).map(|()| (0, None))).map(|_| ())
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        let reserved = self.change(Operation::Resize, |file, _| file.reserve(size).map(|()| (0, None)));
        self.disk.0.gates.of(Operation::Resize).pass();
        reserved.map(|_| ())
    }

    fn clear(&self, position: u64, end: u64, keep_allocated: bool) -> io::Result<()> {
        let change = Change::Clear(self.number(), position, end);
        self.change(Operation::Write, |file, _| {
            file.clear(position, end, keep_allocated)?;
            Ok((0, Some(change)))
        })
        .map(|_| ())
    }

    fn sync(&self) -> io::Result<()> {
        patience::wait("sync", &self.path);
        self.disk.0.gates.of(Operation::Sync).pass();
        self.disk.sync(&self.path, self.number())
    }

    fn start_write_back(&self, _position: u64, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}
