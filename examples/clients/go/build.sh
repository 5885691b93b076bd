#!/usr/bin/env bash
# usage: build.sh OUT [GO]
# Makes Go stubs of the protos and builds the example with them, all in the folder OUT: OUT/decode. Needs Go 1.22 or newer
# and protoc; plugins and libraries come from the Go module proxy. In a project of your own, run the same protoc line once
# and keep what it wrote.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
protos=$here/../../../proto
go=${2:-go}
mkdir -p "$1"
cd "$1"
export GOBIN=$PWD/bin GOWORK=off GOFLAGS=-mod=mod
"$go" install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.5
"$go" install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1

module=beamwright.example/decode
status=google.golang.org/genproto/googleapis/rpc/status
options=()
for plugin in go go-grpc; do
  options+=("--${plugin}_out=." "--${plugin}_opt=module=$module" "--${plugin}_opt=Mgoogle/rpc/status.proto=$status")
  for name in rule decode; do
    options+=("--${plugin}_opt=Mbeamwright/v1/$name.proto=$module/beamwright/v1")
  done
done
PATH=$GOBIN:$PATH protoc -I "$protos" "${options[@]}" beamwright/v1/rule.proto beamwright/v1/decode.proto

cp "$here"/main.go "$here"/go.mod "$here"/go.sum .
"$go" build -o decode .
