#!/usr/bin/env bash
# usage: tests/compatibility/keep_protos.sh VERSION [COMMIT]
# Keeps what VERSION says on the wire, as it stands at COMMIT (HEAD): the descriptors of its protos, in VERSION/protos.binpb
# in the folder of this script. check_protos.py holds later protos against it. To be run once for each minor version, after its release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git archive "${2:-HEAD}" proto | tar --extract --directory "$scratch"
mkdir -p "tests/compatibility/$1"
tests/compatibility/descriptors.sh "$scratch/proto" "$PWD/tests/compatibility/$1/protos.binpb"
