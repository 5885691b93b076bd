#!/usr/bin/env bash
# usage: check_hardening_test.sh SOURCE_DIR
# deploy/release/check_hardening.sh takes a program with all that it asks for, and refuses each program that lacks one thing.
set -euo pipefail
check=$1/deploy/release/check_hardening.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/program.c" <<'CODE'
#include <stdio.h>
#include <string.h>
int main(int count, char** arguments) {
  char text[64];
  strcpy(text, arguments[count - 1]);
  puts(text);
  puts(__FILE__);
}
CODE
all=(-O2 -fPIE -pie "-ffile-prefix-map=$scratch/=" -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now)
build() { cc "${all[@]}" "$@" "$scratch/program.c" -o "$scratch/program"; }

build
"$check" "$scratch" "$scratch/program"
# refused MESSAGE FLAG...: the flags undo one of the above.
refused() {
  local message=$1 answer
  shift
  build "$@"
  ! answer=$("$check" "$scratch" "$scratch/program" 2>&1) || { echo "taken: $*"; exit 1; }
  [[ $answer == *"$message"* ]] || { echo "$*: $answer"; exit 1; }
}
refused position-independent -no-pie
refused RELRO -Wl,-z,lazy
refused RELRO -Wl,-z,norelro
refused stack -Wl,-z,execstack
refused 'stack protector' -fno-stack-protector
refused FORTIFY -U_FORTIFY_SOURCE
refused 'holds a path' "-ffile-prefix-map=$scratch/=$scratch/"
