#!/usr/bin/env bash
# usage: deploy/portable/check.sh FILE...
# Fails if a program or library needs more than the C library and libgcc_s, or a glibc newer than 2.34.
set -euo pipefail
newest=2.34
allowed='libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux-x86-64\.so\.2'
for file in "$@"; do
  extra=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | grep -vxE "$allowed" | tr '\n' ' ') || true
  [[ -z $extra ]] || { echo "$file needs ${extra% }; only the C library and libgcc_s are everywhere" >&2; exit 1; }
  glibc=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
  [[ $(printf '%s\n' "$newest" "${glibc#GLIBC_}" | sort -V | tail -n 1) == "$newest" ]] ||
    { echo "$file needs $glibc; $newest is the newest that may be asked for:" >&2
      objdump -T "$file" | grep "$glibc" >&2; exit 1; }
  echo "$(basename "$file"): $glibc, $(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | tr '\n' ' ')"
done
