#!/usr/bin/env bash
# usage: tests/install/check_completion.sh BUILD
# Asks bash's completion for words that the programs know, and for one that they do not.
set -euo pipefail
PATH=$(realpath "$1")/bin:$PATH
source deploy/completion/beamwright.bash

# completed WORD...: what the last word is completed to.
completed() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _beamwright
  echo "${COMPREPLY[*]}"
}
expect() {
  local wanted=$1 got
  shift
  got=$(completed "$@")
  [[ $got == "$wanted" ]] || { echo "'$*' is completed to '$got', not to '$wanted'" >&2; exit 1; }
}
expect decode beamwright dec
expect --beam-size beamwright decode --beam-s
expect "" beamwright align --no-such
expect --max-rows beamwright-server --max-ro
expect "show" beamwright-graph sh
expect LICENSE beamwright-server --config LICEN
