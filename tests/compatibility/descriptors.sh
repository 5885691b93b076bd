#!/usr/bin/env bash
# usage: tests/compatibility/descriptors.sh PROTOS FILE: writes the descriptors of what clients speak, as one FileDescriptorSet.
set -euo pipefail
export LC_ALL=C
cd "$1"
protoc --proto_path=. --include_imports --descriptor_set_out="$2" beamwright/v1/*.proto inference/*.proto grpc/health/v1/*.proto
