//! The kernel's tables of mounts and of locks.

use std::path::Path;

use super::super::facts::Mount;

/// The mount that `path`, which is absolute and has no links in it, lies on; `table` is `/proc/self/mountinfo`.
pub fn mount_of(table: &str, path: &Path) -> Option<Mount> {
    let mounts = table.lines().filter_map(parse);
    // Of two on one point the later one is on top.
    mounts.filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.len())
}

/// One line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn parse(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(4);
    let (point, of_mount) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let (kind, source, of_system) = (system.next()?, system.next()?, system.next().unwrap_or_default());
    let mut options: Vec<String> = Vec::new();
    for option in of_mount.split(',').chain(of_system.split(',')).filter(|option| !option.is_empty()) {
        // What can be written may still be mounted for reading only: `rw` of the file system says nothing then.
        if !options.iter().any(|known| known == option || (known == "ro" && option == "rw")) {
            options.push(option.to_owned());
        }
    }
    Some(Mount { point: unescape(point), kind: kind.to_owned(), source: unescape(source), options })
}

/// White space and backslashes are written as octal numbers.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

/// The process that holds a lock for writing on the file; `table` is `/proc/locks`.
pub fn lock_holder(table: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    let holder = |line: &str| {
        // 1: POSIX  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
        let fields: Vec<&str> = line.split_whitespace().collect();
        let at = fields.iter().position(|&field| field == file)?;
        let is_held = fields.get(1) != Some(&"->");
        fields.get(at.checked_sub(1)?).filter(|_| is_held)?.parse().ok()
    };
    table.lines().find_map(holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 27 0:30 / /srv rw - tmpfs tmpfs rw,size=10k
31 27 254:1 / /srv/with\\040space ro,noatime - xfs /dev/vdb rw,noquota
";

    #[test]
    fn the_longest_point_that_leads_to_a_path_is_its_mount() {
        for (path, kind, options) in [
            ("/var/data", "ext4", "rw,relatime,discard"),
            ("/srv", "tmpfs", "rw,size=10k"),
            ("/srv/within", "tmpfs", "rw,size=10k"),
            ("/srvices", "ext4", "rw,relatime,discard"),
            ("/srv/with space/deep", "xfs", "ro,noatime,noquota"),
        ] {
            let mount = mount_of(TABLE, Path::new(path)).expect("a mount");
            assert_eq!((mount.kind.as_str(), mount.options.join(",").as_str()), (kind, options), "{path}");
        }
        assert_eq!(mount_of("nonsense\n", Path::new("/")), None);
    }

    #[test]
    fn the_holder_of_a_lock_is_found_and_those_who_wait_for_it_are_not() {
        let table = "\
1: -> POSIX  ADVISORY  WRITE 99 fe:00:5678 0 EOF
2: POSIX  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
3: FLOCK  ADVISORY  WRITE 1234 fe:00:56789 0 EOF
";
        assert_eq!(lock_holder(table, (254, 0), 5678), Some(1234));
        assert_eq!(lock_holder(table, (254, 0), 567), None);
        assert_eq!(lock_holder(table, (8, 0), 5678), None);
    }
}
