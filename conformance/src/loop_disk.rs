//! A disk of its own for a process: an ext4 file system on a sparse file, whose power can be cut.
//!
//! It is mounted in a mount namespace of the process that runs on it, and goes with that process, however a test ends.
//! **Always holds**: it is mounted at most once, since two mounts of one file would destroy what is on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::skip;
use crate::sluice::binary;

/// Taking down a file system is a matter of milliseconds; a loaded machine gets more.
const FREE_LIMIT: Duration = Duration::from_secs(60);

/// `FS_IOC_SHUTDOWN` of `linux/fs.h`: the file system stops as if the power were cut.
const SHUTDOWN: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(b'X', 125);
/// `FS_SHUTDOWN_FLAGS_NOLOGFLUSH`: what the journal has not written yet is lost too.
const WITHOUT_JOURNAL_FLUSH: u32 = 2;

/// The disk.
#[derive(Debug)]
pub struct LoopDisk {
    image: PathBuf,
    directory: PathBuf,
}

impl LoopDisk {
    /// Makes one of `size` bytes in the folder `scratch`. `Err` is the reason why this machine cannot.
    fn make(scratch: &Path, size: u64) -> Result<Self, String> {
        let disk = Self { image: scratch.join("disk.image"), directory: scratch.join("disk") };
        std::fs::create_dir(&disk.directory).map_err(|error| error.to_string())?;
        let image = File::create(&disk.image).map_err(|error| error.to_string())?;
        image.set_len(size).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk.image))?;
        run(&mut disk.command("true"))?;
        disk.wait_until_free();
        Ok(disk)
    }

    /// The same for a test that needs it as `what`; `None`: it has been said why this machine cannot, and the test is over.
    pub fn make_or_skip(scratch: &Path, size: u64, what: &str) -> Option<Self> {
        let made = Self::make(scratch, size);
        made.map_err(|why| skip(&format!("{what} needs root, loop devices and mkfs.ext4: {why}"))).ok()
    }

    /// Where it is mounted, as processes on it see it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What `Setup::within` is told, for a process to run on it.
    pub fn wrapper(&self) -> Vec<String> {
        let mount = format!("mount -o loop '{}' '{}' && exec \"$@\"", self.image.display(), self.directory.display());
        ["unshare", "--mount", "sh", "-c", &mount, "sh"].map(str::to_owned).to_vec()
    }

    /// A command that runs on it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let wrapper = self.wrapper();
        let mut words = wrapper.iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).arg(program);
        command
    }

    /// Its directory, as others see it while the process `id` runs on it.
    pub fn seen_through(&self, id: u32) -> PathBuf {
        PathBuf::from(format!("/proc/{id}/root{}", self.directory.display()))
    }

    /// Has all that was written on the disk while the process `id` runs on it, as it is some seconds after it was written.
    pub fn sync(&self, id: u32) {
        let root = File::open(self.seen_through(id)).expect("the process runs on the disk");
        rustix::fs::syncfs(&root).expect("a disk that takes what was written");
    }

    /// Cuts the power under the process `id`: nothing more reaches the disk, and what was not synced is gone.
    pub fn cut_power(&self, id: u32) {
        let root = File::open(self.seen_through(id)).expect("the process runs on the disk");
        #[expect(unsafe_code, reason = "a request to the kernel that no library has a name for")]
        // SAFETY: the request reads one `u32`, which the setter owns, and is sent to an open file.
        let cut = unsafe {
            let request = rustix::ioctl::Setter::<SHUTDOWN, u32>::new(WITHOUT_JOURNAL_FLUSH);
            rustix::ioctl::ioctl(&root, request)
        };
        cut.expect("ext4 can be shut down");
    }

    /// Has the store in its folder `data` examined, which finds nothing damaged; what was being written when the power went is no damage. Of
    /// what was not synced a later segment may be on the disk and an earlier one not: that the examination cannot tell from damage, and says
    /// where the next start takes the log to end. `may_have_hole`: that is no fault either.
    pub fn check_store(&self, may_have_hole: bool) {
        let mut command = self.command(binary());
        let output = command.args(["store", "check"]).arg(self.directory.join("data")).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let code = output.status.code();
        let damage: Vec<_> = said.lines().filter(|line| line.starts_with("damage: ")).collect();
        let is_hole = may_have_hole && damage == ["damage: log-broken (1)"];
        let is_fine = matches!(code, Some(0 | 1)) || (code == Some(2) && is_hole);
        assert!(is_fine, "{code:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        self.wait_until_free();
    }

    /// Waits until no process has it any more.
    pub fn wait_until_free(&self) {
        let deadline = Instant::now() + FREE_LIMIT;
        loop {
            let found = Command::new("losetup").arg("-j").arg(&self.image).output().expect("losetup");
            if found.stdout.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{} stays mounted", self.image.display());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", said.trim())) }
}
