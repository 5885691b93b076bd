#!/usr/bin/env bash
# usage: tests/library/check_library.sh LIBRARY [PROGRAM]
# Fails if the library shows other symbols than library/exports.map lists, or if the header declares others; PROGRAM, the
# example in C, then decodes with it.
set -euo pipefail
library=$1
listed=$(sed -n 's/^ *\(beamwright_[a-z_]*\);$/\1/p' library/exports.map | LC_ALL=C sort)
declared=$(grep -o 'beamwright_[a-z_]*(' include/beamwright/beamwright.h | tr -d '(' | LC_ALL=C sort -u)
# Lines of readelf: number, value, size, type, binding, visibility, section, name@version.
shown=$(readelf --dyn-syms --wide "$library" |
  awk '$7 != "UND" && $7 != "ABS" && $8 ~ /./ && $1 ~ /^[0-9]+:$/ { sub(/@.*/, "", $8); print $8 }' | LC_ALL=C sort)
[[ $shown == "$listed" ]] || { diff <(echo "$listed") <(echo "$shown") >&2 || true; echo "$library: symbols are shown that exports.map does not list, or are missing" >&2; exit 1; }
[[ $declared == "$(grep -v '^$' <<<"$listed")" ]] || { diff <(echo "$listed") <(echo "$declared") >&2 || true; echo "the header declares other functions than exports.map lists" >&2; exit 1; }
echo "$(wc -l <<<"$shown") symbols are shown"
[[ -n ${2:-} ]] || exit 0
answer=$("$2" models/g2p-en recurrent)
[[ $answer == $'recurrent\tR IY0 K ER1 AH0 N T' ]] || { echo "the example in C says '$answer'" >&2; exit 1; }
! wrong=$("$2" models/no-such 2>&1) || { echo "a model that is not there is loaded" >&2; exit 1; }
[[ $wrong == *models/no-such* ]] || { echo "the message does not name the folder: $wrong" >&2; exit 1; }
