#!/usr/bin/env bash
# usage: deploy/release/check_hardening.sh BUILDER FILE...
# Fails if a program or library lacks what a release is built with (BEAMWRIGHT_HARDEN, cmake/beamwright.cmake), or holds a
# path in the folder BUILDER, so that another folder would make other bytes.
set -euo pipefail
builder=$1
shift
fail() { echo "check_hardening: $file: $*" >&2; exit 1; }
# has PATTERN TEXT. A here-string, for grep leaves as soon as it has found something.
has() { grep -qE "$1" <<<"$2"; }
for file in "$@"; do
  header=$(readelf --wide --file-header "$file") segments=$(readelf --wide --program-headers "$file")
  dynamic=$(readelf --wide --dynamic "$file") symbols=$(readelf --wide --dyn-syms "$file")
  has 'Type: +DYN' "$header" || fail "is no position-independent program"
  has GNU_RELRO "$segments" && has 'BIND_NOW|FLAGS.* NOW' "$dynamic" || fail "has no full RELRO (-z relro -z now)"
  has 'GNU_STACK.* RW ' "$segments" || fail "has an executable stack"
  has __stack_chk_fail "$symbols" || fail "has no stack protector"
  # A library may copy nothing that the compiler has to check.
  [[ $file == *.so* ]] || has '__[a-z]+_chk(@|$)' "$symbols" || fail "has no checked copies (_FORTIFY_SOURCE)"
  found=$(strings "$file" | grep -F "$builder/") || true
  [[ -z $found ]] || fail "holds a path of the folder that it was built in: ${found%%$'\n'*}"
done
