# shellcheck shell=bash
# What the scripts in this folder share: one run of `sluice bench` and the figures of it. To be sourced with $sluice, $work and
# $fill set: the binary, the folder everything is written to, and GiB of the file that is kept in the page cache (0 for none).

# fill_cache: keeps a file in the page cache. On a virtual machine that hands out memory slowly, new pages are then recycled
# ones, as on a machine that has run for a while.
fill_cache() { [ "$fill" -eq 0 ] || dd if=/dev/zero of="$work/filler" bs=1M count="$((fill * 1024))" status=none; }

# rest: nothing is left to be written to the disk, and the page cache is as full as before.
rest() {
  sync
  [ "$fill" -eq 0 ] || cat "$work/filler" >/dev/null
  sleep 2
}

# bench_at PORT PID SCENARIO OPTIONS...: one run against the name server at PORT; the figures are left in $work/last.json. A run
# that leaves none ends the script: the figures of another run are not its own. With $data set, what of the files there is in
# the page cache is recorded too.
bench_at() {
  local port=$1 pid=$2 scenario=$3
  shift 3
  rm -f "$work/last.json"
  "$sluice" bench "$scenario" --target "rocketmq://127.0.0.1:$port" --broker-pid "$pid" ${data:+--broker-data "$data"} --json "$work/last.json" "$@" \
    >"$work/last.txt" 2>&1 || cat "$work/last.txt" >&2
  [ -s "$work/last.json" ]
}

# figure KEY [FILE]: its first value in the last run.
figure() { sed -n "s/^ *\"$1\": \"\{0,1\}\([0-9.]*\).*/\1/p" "${2:-$work/last.json}" | head -1; }

# within BLOCK KEY: the value of KEY in the object named BLOCK, or in the row whose name is BLOCK.
within() {
  awk -v block="\"$1\"" -v key="\"$2\":" 'index($0, block) { inside = 1 } inside && index($0, key) {
    sub(/.*: "?/, ""); sub(/[",]*$/, ""); print; exit }' "$work/last.json"
}

# calculate EXPRESSION: of awk, to two places.
calculate() { awk "BEGIN { printf \"%.2f\", $1 }"; }

# ratio A B: how many times B, in words where one of them is 0.
ratio() {
  awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN {
    if (b > 0) printf "%.2f", a / b; else printf (a > 0 ? "infinite" : "neither"); }'
}

# median VALUE...
median() { printf '%s\n' "$@" | sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
