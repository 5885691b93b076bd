#!/usr/bin/env bash
# merge.sh PROGRAM [FOLDER...]: makes the committed corpus of a fuzz target anew: the smallest inputs, of the
# committed ones, of those that run.sh found and of those in the folders, that reach all code that these reach.
# Inputs that once failed (regression-*) stay whatever they reach.
set -euo pipefail
program=$1
corpus=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/corpus/${program##*/fuzz_}
merged=$(mktemp -d)
trap 'rm -rf "$merged"' EXIT
mkdir -p "$corpus" "$program.corpus"
"$program" -merge=1 -max_len=16384 -timeout=10 -rss_limit_mb=1024 "$merged" "$corpus" "$program.corpus" "${@:2}"
find "$corpus" -type f ! -name 'regression-*' -delete
find "$merged" -type f -exec mv -t "$corpus" {} +
