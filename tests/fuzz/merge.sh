#!/usr/bin/env bash
# merge.sh PROGRAM [FOLDER...]: writes the committed corpus of a fuzz target (corpus/TARGET.tar.gz) anew. It keeps the
# smallest set of inputs that reaches the same code as the committed inputs, those that run.sh found and those in the
# folders together. Inputs that once failed (regression-*) stay in any case.
set -euo pipefail
program=$1
corpus=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/corpus/${program##*/fuzz_}.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/merged" "$work/committed" "$program.corpus"
[[ ! -f $corpus ]] || tar -xzf "$corpus" -C "$work/committed"
"$program" -merge=1 -max_len=16384 -timeout=10 -rss_limit_mb=1024 "$work/merged" "$work/committed" "$program.corpus" "${@:2}"
find "$work/committed" "${@:2}" -type f -name "regression-*" -exec cp -t "$work/merged" {} +
# The same inputs give the same archive.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work/merged" -cf - . | gzip -9n >"$corpus"
