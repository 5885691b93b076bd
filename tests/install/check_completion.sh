#!/usr/bin/env bash
# usage: tests/install/check_completion.sh BUILD
# Asks the completions of bash, fish and zsh for words that the programs know, and for one that they do not.
set -euo pipefail
PATH=$(realpath "$1")/bin:$PATH
export PATH
source deploy/completion/beamwright.bash

# Each prints what the last of its words is completed to, on one line.
by_bash() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _beamwright
  echo "${COMPREPLY[*]}"
}
by_fish() {
  fish --no-config -c "source deploy/completion/beamwright.fish; complete -C '$*'" | cut -f1 | paste -sd' '
}
# Replaces what zsh's own system provides while a word is completed.
by_zsh() {
  zsh -f -c '
    compdef() { }
    compadd() { shift; local each; for each; do [[ $each == ${words[CURRENT]}* ]] && found+=($each); done }
    _files() { found+=(${words[CURRENT]}*(N)) }
    found=() words=("$@") CURRENT=$#
    source deploy/completion/_beamwright
    _beamwright
    print -r -- $found' zsh "$@"
}
expect() {
  local wanted=$1 shell got
  shift
  for shell in bash fish zsh; do
    got=$("by_$shell" "$@")
    [[ $got == "$wanted" ]] || { echo "$shell: '$*' is completed to '$got', not to '$wanted'" >&2; exit 1; }
  done
}
expect decode beamwright dec
expect decode beamwright help dec
expect --beam-size beamwright decode --beam-s
expect --find-max-rate beamwright load-test --find
expect "" beamwright align --no-such
expect --max-rows beamwright-server --max-ro
expect show beamwright-graph sh
expect LICENSE beamwright-server --config LICEN
