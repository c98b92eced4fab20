//! The scripts that fetch and run the originals. The binary carries them, and puts them where the programs are kept.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::PeerSetup;
use super::process::Process;
use crate::error::BenchError;

/// A JVM takes some seconds; the first time what it runs is downloaded too.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// A script and what it needs beside it.
pub(super) struct Script {
    /// Its name, and that of its folder.
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

pub(super) const ROCKETMQ: Script = Script {
    name: "rocketmq",
    files: &[
        ("rocketmq", include_str!("../../../../../bench/peers/rocketmq/rocketmq")),
        ("pom.xml", include_str!("../../../../../bench/peers/rocketmq/pom.xml")),
    ],
};

pub(super) const RABBITMQ: Script =
    Script { name: "rabbitmq", files: &[("rabbitmq", include_str!("../../../../../bench/peers/rabbitmq/rabbitmq"))] };

pub(super) const KAFKA: Script = Script {
    name: "kafka",
    files: &[
        ("kafka", include_str!("../../../../../bench/peers/kafka/kafka")),
        ("pom.xml", include_str!("../../../../../bench/peers/kafka/pom.xml")),
    ],
};

impl Script {
    /// Runs it with `arguments` until it listens on `port`; `name` is what the process is called here.
    pub(super) fn run(
        &self,
        setup: &PeerSetup,
        directory: &Path,
        name: &str,
        arguments: &[&str],
        port: u16,
    ) -> Result<Process, BenchError> {
        let (script, log) = (self.place(setup.cache.as_deref())?, directory.join(format!("{name}.log")));
        let mut process = Process::start(name, &script, arguments, setup.cpus.as_deref(), &log)?;
        process.wait_for_port(port, READY_WITHIN).map(|()| process)
    }

    /// Puts it into `cache` or the user's own cache folder, and tells where it is.
    fn place(&self, cache: Option<&Path>) -> Result<PathBuf, BenchError> {
        let folder = cache.map_or_else(default_cache, Path::to_owned).join(self.name);
        let failed = |source| BenchError::Disk { directory: folder.display().to_string(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        for (name, text) in self.files {
            let path = folder.join(name);
            // Not written anew while it may be running.
            if fs::read_to_string(&path).is_ok_and(|known| known == *text) {
                continue;
            }
            fs::write(&path, text).map_err(failed)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(folder.join(self.name))
    }
}

/// Where programs of other makers are kept between runs.
fn default_cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).unwrap_or_else(|| PathBuf::from("/var/tmp")).join("sluice/peers")
}
