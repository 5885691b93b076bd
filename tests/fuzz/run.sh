#!/usr/bin/env bash
# run.sh PROGRAM SECONDS [FLAG...]: replays the committed corpus of a fuzz target (corpus/TARGET.tar.gz), then tries new
# inputs for SECONDS. New files are written next to the program: inputs that reach new code into PROGRAM.corpus, inputs
# that fail as PROGRAM.found-*. The committed corpus is only read.
set -euo pipefail
program=$1 seconds=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${program##*/fuzz_}
rm -rf "$program.committed"
mkdir -p "$program.corpus" "$program.committed"
tar -xzf "$here/corpus/$target.tar.gz" -C "$program.committed"
# The build writes the dictionaries of graph files from the operators that it knows (dictionaries.py).
dictionary=${program%/*}/$target.dict
[[ -f $dictionary ]] || dictionary=$here/$target.dict
# Freed memory that AddressSanitizer holds back must not count as what an input takes.
export ASAN_OPTIONS=quarantine_size_mb=8:allocator_release_to_os_interval_ms=100:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export OMP_NUM_THREADS=1
# The sanitizers make code five to ten times slower and memory two to three times larger than it is served:
# 10 s and 512 MB here stand for the 2 s and 200 MB of docs/graph-files.md, 'Hostile files'.
exec "$program" -dict="$dictionary" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=512 \
  -malloc_limit_mb=200 -max_len=16384 -artifact_prefix="$program.found-" -print_final_stats=1 "${@:3}" \
  "$program.corpus" "$program.committed"
