//! The scripts that fetch and run the originals. The binary carries them, and puts them where the programs are kept.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::BenchError;

const ROCKETMQ: [(&str, &str); 2] = [
    ("rocketmq", include_str!("../../../../bench/peers/rocketmq/rocketmq")),
    ("pom.xml", include_str!("../../../../bench/peers/rocketmq/pom.xml")),
];

/// The script for RocketMQ, in `cache` or the user's own cache folder.
pub(super) fn rocketmq(cache: Option<&Path>) -> Result<PathBuf, BenchError> {
    let folder = cache.map_or_else(default_cache, Path::to_owned).join("rocketmq");
    let failed = |source| BenchError::Disk { directory: folder.display().to_string(), source };
    fs::create_dir_all(&folder).map_err(failed)?;
    for (name, text) in ROCKETMQ {
        let path = folder.join(name);
        // Not written anew while it may be running.
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            continue;
        }
        fs::write(&path, text).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(folder.join("rocketmq"))
}

/// Where programs of other makers are kept between runs.
fn default_cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).unwrap_or_else(|| PathBuf::from("/var/tmp")).join("sluice/peers")
}
