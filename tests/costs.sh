#!/usr/bin/env bash
# What noise cannot move: fsyncs and opened files per append and per turn, and that asking where a
# session stands writes nothing. Needs strace and the release build of rethread-bench.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${1:-target/release/rethread-bench}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$bench" data "{\"path\":\"$dir/short.jsonl\",\"messages\":10}" >/dev/null
"$bench" data "{\"path\":\"$dir/long.jsonl\",\"messages\":10000,\"open\":true}" >/dev/null
"$bench" fixture "{\"store\":\"$dir/short.db\",\"data\":\"$dir/short.jsonl\"}" >/dev/null
"$bench" fixture "{\"store\":\"$dir/long.db\",\"data\":\"$dir/long.jsonl\"}" >/dev/null

# calls NAMES WORKLOAD OPERATIONS: how many of these system calls it makes
calls() {
  cp "$dir/short.db" "$dir/s.db"
  rm -f "$dir/s.db-wal" "$dir/s.db-shm"
  strace -f -c -e "trace=$1" -o "$dir/trace" "$bench" "$2" \
    "{\"store\":\"$dir/s.db\",\"append\":\"$dir/short.jsonl\",\"k\":$3,\"turns\":$3}" >/dev/null
  awk -v names=",$1," 'index(names, "," $NF ",") { n += $4 } END { print n + 0 }' "$dir/trace"
}

# per NAMES WORKLOAD WANT: the calls of one more operation, by difference
per() {
  local few many got
  few=$(calls "$1" "$2" 10)
  many=$(calls "$1" "$2" 20)
  got=$(awk -v a="$few" -v b="$many" 'BEGIN { print (b - a) / 10 }')
  echo "$2: $got of $1 an operation, want $3"
  [ "$got" = "$3" ] || { echo "FAILED"; exit 1; }
}

per fsync,fdatasync w1 1
per open,openat w1 0
# Both results of a turn are ready together here, so they share a commit; otherwise it would be 5.
per fsync,fdatasync w4 4
per open,openat w4 0

# Asking where a session stands: the index beside the file (-shm) is made anew when nobody has it
# open; the store itself is not touched.
before=$(sha256sum "$dir/long.db")
strace -f -c -e trace=fsync,fdatasync -o "$dir/trace" "$bench" w2 "{\"store\":\"$dir/long.db\"}" >"$dir/answer"
grep -q '"kind":"recover_tools"' "$dir/answer" || { cat "$dir/answer"; echo "FAILED: the wrong resume point"; exit 1; }
synced=$(awk '$NF == "fsync" || $NF == "fdatasync" { n += $4 } END { print n + 0 }' "$dir/trace")
logged=$(stat -c %s "$dir/long.db-wal" 2>/dev/null || echo 0)
echo "w2: $synced fsyncs and $logged bytes in the log, want none"
[ "$synced" = 0 ] && [ "$logged" = 0 ] && [ "$before" = "$(sha256sum "$dir/long.db")" ] || { echo "FAILED"; exit 1; }

# The cost of a resume point does not grow: medians of nine, with slack for a busy machine.
cpu() {
  for _ in 1 2 3 4 5 6 7 8 9; do
    "$bench" w2 "{\"store\":\"$1\"}" | sed 's/.*"cpu_s":\([0-9.e-]*\).*/\1/'
  done | sort -g | sed -n 5p
}
short=$(cpu "$dir/short.db")
long=$(cpu "$dir/long.db")
awk -v a="$short" -v b="$long" 'BEGIN {
  printf "w2: CPU of 10,000 messages / CPU of 10 = %.2f, want at most 1.8\n", b / a
  exit !(b / a <= 1.8)
}' || { echo "FAILED"; exit 1; }
