#!/usr/bin/env bash
# Trains the network that hears digits and writes its bundle: voices, recordings of people, the check that it can learn,
# training, word errors, export.
#
#   run.sh --kokoro FOLDER [--minutes N] [--seed N] [--threads N] [--out FOLDER]
#
# --kokoro: kokoro.onnx, vocab.json and voices/*.bin; README.md says where they come from. The network is so small
# that a second thread costs more than it brings. Everything but the bundle (default: build/digits/bundle) lies under
# build/digits. Debian's packages that are needed: python3-torch python3-venv libopenblas0-openmp (and not libblas3
# alone, with which a step takes seven times as long) espeak-ng flite festival festvox-kallpc16k festvox-kdlpc16k
# festvox-us-slt-hts sox ffmpeg
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$root/build/digits
kokoro=
minutes=30
seed=1
threads=1
out=$work/bundle
while (($#)); do
  (($# > 1)) || { echo "run.sh: $1 needs a value" >&2; exit 2; }
  case $1 in
    --kokoro) kokoro=$(realpath -e -- "$2") ;;
    --minutes) minutes=$2 ;;
    --seed) seed=$2 ;;
    --threads) threads=$2 ;;
    --out) out=$2 ;;
    *) echo "run.sh: unknown option '$1' (the options are in the first lines of this script)" >&2; exit 2 ;;
  esac
  shift 2
done
[[ -n $kokoro ]] || { echo "run.sh: --kokoro is missing: README.md says where its files come from" >&2; exit 2; }

venv=$work/venv
[[ -x $venv/bin/python ]] || /usr/bin/python3 -m venv --system-site-packages "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
python=$venv/bin/python
# OpenBLAS 0.3.21 takes recent server processors for old ones and runs at a fifth of their speed.
if lscpu | grep -q avx512f; then export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SKYLAKEX}; fi
export OMP_NUM_THREADS=$threads PYTHONDONTWRITEBYTECODE=1

speak() {
  [[ -s $work/$1/done ]] || "$python" "$here/voices.py" "$work/$1" --engine "$2" "${@:3}"
  date >"$work/$1/done"
}
mkdir -p "$work"
speak espeak espeak --count 269 --seed 2
speak flite flite --count 183 --seed 3
speak festival festival --count 300 --seed 4
speak kokoro kokoro --count 300 --seed 11 --kokoro "$kokoro"
speak held-out kokoro --count 40 --seed 12 --kokoro "$kokoro" --held-out
[[ -d $work/people/usr ]] || "$python" "$here/people.py" "$work/people"

"$python" "$here/train_digits.py" "$work/overfit" --voices "$work/festival" --overfit 50 --threads "$threads"
nice -n 10 "$python" "$here/train_digits.py" "$work/weights" \
  --voices "$work"/{kokoro,flite,festival,espeak} \
  --shares 0.6 0.15 0.1 0.15 --held-out "$work/held-out" --minutes "$minutes" --seed "$seed" --threads "$threads"
for part in dev test; do
  "$python" "$here/scoring_digits.py" "$work/weights/best.pt" --people "$work/people" --part "$part" --show
done
"$python" "$here/export_digits.py" "$work/weights/best.pt" --out "$out"
