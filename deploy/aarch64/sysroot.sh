#!/usr/bin/env bash
# usage: deploy/aarch64/sysroot.sh FOLDER PACKAGE...
# Debian packages for arm64, with all that they depend on, unpacked into FOLDER: what the preset `aarch64` compiles and links
# against, and what qemu-user finds shared libraries in. The packages of this machine stay as they are: apt works on lists and
# on a separate record of installed packages. Nothing is done if FOLDER holds these packages.
set -euo pipefail
folder=$1
shift
wanted="$(cat "${BASH_SOURCE[0]}") $*"
[[ -e $folder/.made && $(cat "$folder/.made") == "$wanted" ]] && exit 0
rm -rf "$folder"
mkdir -p "$folder/.apt"/{lists,archives}/partial
: >"$folder/.apt/status"
apt=(apt-get --quiet=2 -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$folder/.apt"
  -o Dir::State::status="$folder/.apt/status" -o Dir::State::lists="$folder/.apt/lists" -o Dir::Cache="$folder/.apt"
  -o Acquire::Languages=none -o APT::Sandbox::User=root -o APT::Install-Recommends=false
  -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
"${apt[@]}" update
"${apt[@]}" --yes --download-only install libc6-dev libgomp1 "$@"
for package in "$folder"/.apt/archives/*.deb; do dpkg --extract "$package" "$folder"; done
rm -rf "$folder/.apt"
# Links to / lead into the folder.
find "$folder" -type l -lname '/*' | while read -r link; do
  ln --symbolic --force --no-dereference --relative "$folder$(readlink "$link")" "$link"
done
# Generators of code run here: gRPC's package file names those of the folder.
mkdir -p "$folder/usr/bin"
for plugin in /usr/bin/grpc_*_plugin; do ln --symbolic --force "$plugin" "$folder/usr/bin/"; done
echo "$wanted" >"$folder/.made"
