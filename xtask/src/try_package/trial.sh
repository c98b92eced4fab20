# Run by root in a Debian that was just started, without a network: /trial has older.deb and newest.deb.
set -eu

say() { echo "== $*"; }
fail() { echo "FAILED: $*"; journalctl --no-pager --unit sluice | tail -n 50; exit 1; }
is() { [ "$1" = "$2" ] || fail "$3: [$1] instead of [$2]"; }
prop() { systemctl show sluice --property "$1" --value; }
until_ready() {
    for _ in $(seq 300); do
        if [ "$(systemctl is-active sluice)" = active ] && sluice admin broker ready >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    fail "not ready within 30 s"
}
export DEBIAN_FRONTEND=noninteractive

say "an older version is installed, and runs at once"
apt-get --quiet --yes install /trial/older.deb >/dev/null 2>&1 || fail "it cannot be installed"
is "$(systemctl is-active sluice)" active "after the installation"
is "$(systemctl is-enabled sluice)" enabled "after the installation"
prop StatusText | grep -q 'ready in' || fail "the unit does not say that it is ready: $(prop StatusText)"
is "$(stat -c %U "/proc/$(prop MainPID)")" sluice "user"
is "$(stat -c '%U:%G %a' /var/lib/sluice)" "sluice:sluice 750" "data directory"
is "$(stat -c '%U:%G %a' /etc/sluice/sluice.toml)" "root:root 644" "settings"
# As many files as the unit says, or as the machine that this one runs on lets it.
allowed=$(awk '/Max open files/ {print ($5 < 1048576) ? $5 : 1048576}' /proc/1/limits)
is "$(awk '/Max open files/ {print $4}' "/proc/$(prop MainPID)/limits")" "$allowed" "open files"
until_ready

say "the console asks for a token, which the service alone can read"
seq -s x 20 | install -m 640 -g sluice /dev/stdin /etc/sluice/console.token
printf '\n[console]\ntoken_file = "/etc/sluice/console.token"\n' >>/etc/sluice/sluice.toml
systemctl restart sluice
until_ready
if sluice admin topic list >/dev/null 2>&1; then fail "it asks for none"; fi
export SLUICE_TOKEN_FILE=/etc/sluice/console.token
sluice admin topic list >/dev/null || fail "it does not take its token"

say "messages are stored, a group takes some of them"
seq 1000 | sluice produce orders --create --queue 0 --quiet
is "$(sluice consume orders --group billing --count 400 | tail -n 1)" 400 "consumed"

say "another setting counts after a reload"
printf '\n[retention]\nage = "48h"\n' >>/etc/sluice/sluice.toml
pid=$(prop MainPID)
systemctl reload sluice
sleep 1
sluice admin broker settings --changed --json | grep -q '"48h"' || fail "the setting does not count: $(sluice admin broker settings --changed)"
is "$(prop MainPID)" "$pid" "process after a reload"

say "an upgrade keeps messages, the group's place and the settings"
apt-get --quiet --yes --reinstall install /trial/newest.deb >/dev/null 2>&1 || fail "it cannot be installed"
until_ready
[ "$(prop MainPID)" != "$pid" ] || fail "the old process still runs"
is "$(sluice consume orders | wc -l)" 1000 "messages"
is "$(sluice consume orders --group billing | head -n 1)" 401 "the group's next message"
grep -q '48h' /etc/sluice/sluice.toml || fail "the settings were overwritten"
! journalctl --unit sluice | grep -q 'killed process' || fail "the older version was not stopped in good order"

say "killed, it is started again, with all it had"
pid=$(prop MainPID)
kill -KILL "$pid"
sleep 3
until_ready
is "$(prop NRestarts)" 1 "restarts"
is "$(sluice consume orders | wc -l)" 1000 "messages"

say "hanging, it is noticed by the watchdog and started again"
mkdir -p /etc/systemd/system/sluice.service.d
printf '[Service]\nWatchdogSec=2s\n' >/etc/systemd/system/sluice.service.d/trial.conf
systemctl daemon-reload
systemctl restart sluice
until_ready
sleep 5
is "$(prop NRestarts)" 0 "restarts of a process that answers"
kill -STOP "$(prop MainPID)"
sleep 8
until_ready
is "$(prop NRestarts)" 1 "restarts of a process that hangs"
is "$(sluice consume orders | wc -l)" 1000 "messages"
rm -r /etc/systemd/system/sluice.service.d
systemctl daemon-reload

say "what it may do is little"
systemd-analyze verify sluice.service 2>&1 | grep -v man || true
systemd-analyze security --no-pager sluice.service | tail -n 1
journalctl --no-pager --unit sluice | grep -iE 'warn|not permitted' || true

say "it is stopped in good order"
systemctl stop sluice
is "$(prop Result)" success "result"
[ ! -e /var/lib/sluice/abort ] || fail "it left the mark of a process that was killed"
sluice store check /var/lib/sluice >/dev/null || fail "sluice store check finds something"

say "removed, it leaves settings and messages; installed again, it has them"
systemctl start sluice
apt-get --quiet --yes remove sluice >/dev/null 2>&1 || fail "it cannot be removed"
[ ! -e /usr/bin/sluice ] || fail "the binary is still there"
! grep -qsx sluice /proc/[0-9]*/comm || fail "the process still runs"
[ -e /etc/sluice/sluice.toml ] && [ -d /var/lib/sluice/commitlog ] || fail "settings or messages are gone"
apt-get --quiet --yes --reinstall install /trial/newest.deb >/dev/null 2>&1 || fail "it cannot be installed"
until_ready
is "$(sluice consume orders | wc -l)" 1000 "messages"

say "purged, it leaves nothing"
rm /etc/sluice/console.token
apt-get --quiet --yes purge sluice >/dev/null 2>&1 || fail "it cannot be purged"
for left in /etc/sluice /var/lib/sluice /usr/share/doc/sluice /usr/bin/sluice; do
    [ ! -e "$left" ] || fail "$left is left"
done
! find / -xdev -path /trial -prune -o -name '*sluice*' -print 2>/dev/null | grep -v '^/proc\|^/sys\|^/var/log/journal' | grep . || fail "files are left"
! systemctl cat sluice >/dev/null 2>&1 || fail "the unit is left"
say "all of it holds"
