#!/usr/bin/env bash
# Builds the image of deploy/Dockerfile with buildah and no container engine, runs its server and decodes
# a word. For root; `./dev image` calls it. All storage is under build/image. The base image is made by
# debootstrap from the mirror that this machine's apt uses, once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$PWD/build/image
base=docker.io/library/debian:bookworm-slim
container=beamwright-try
mkdir -p "$work/tmp"
export BUILDAH_ISOLATION=chroot TMPDIR=$work/tmp

# Storage of its own, so that nothing is left on the machine outside build/; vfs works on every file
# system, also inside a container.
storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
buildah() { command buildah "${storage[@]}" "$@"; }
say() { echo "== $*"; }
fail() { echo "image: $*" >&2; exit 1; }
quietly() {
  local log=$work/$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 100 "$log" >&2; fail "failed: $* (all of its output: $log)"; }
}

make_base() {
  say "making $base with debootstrap"
  local mirror proxy='' tree=$work/base
  # shellcheck disable=SC2016  # apt's own placeholder
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  rm -rf "$tree"
  quietly debootstrap.log env ${proxy:+http_proxy="$proxy"} \
    debootstrap --variant=minbase bookworm "$tree" ${mirror:+"$mirror"}
  # As the published slim images: packages leave out their documentation and translations.
  printf 'path-exclude %s\n' '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/locale/*' \
    '/usr/share/info/*' >"$tree/etc/dpkg/dpkg.cfg.d/slim"
  rm -rf "$tree"/usr/share/{doc,man,locale,info}/* "$tree"/var/lib/apt/lists/* \
    "$tree"/var/cache/apt/* "$tree"/var/log/*
  # Where this machine gets its packages is no part of an image.
  : >"$tree/etc/apt/sources.list"
  rm -f "$tree/etc/hostname" "$tree/etc/resolv.conf"
  local scratch
  scratch=$(buildah from scratch)
  quietly add.log buildah add "$scratch" "$tree" /
  buildah config --cmd /bin/bash "$scratch"
  quietly commit.log buildah commit --rm "$scratch" "$base"
  rm -rf "$tree"
}

# apt inside the build works as it does on this machine: its configuration, keys and certificates are
# bound read-only and leave nothing in the image.
build_image() {
  # Every change of the sources leaves layers behind; beyond 8 GB all but the tagged images go.
  (($(du --summarize --block-size=G "$work/storage" | cut -dG -f1) < 8)) ||
    quietly prune.log buildah rmi --prune
  say "building the image from deploy/Dockerfile (build/image/build.log)"
  local bind=() path
  for path in /etc/apt /usr/share/keyrings /etc/ssl/certs /usr/share/ca-certificates; do
    [[ ! -e $path ]] || bind+=(--volume "$path:$path:ro")
  done
  local commit
  commit=$(git -c safe.directory="$PWD" describe --always --dirty --abbrev=12 --exclude='*' 2>&-) || true
  quietly build.log buildah build --pull-never --layers --format oci "${bind[@]}" \
    --build-arg COMMIT="$commit" \
    --ignorefile .dockerignore --file deploy/Dockerfile --tag beamwright .
}

server_pid=
clean_up() {
  if [[ -n $server_pid ]]; then
    kill -TERM "$server_pid" 2>&- || true
    wait "$server_pid" 2>&- || true
    server_pid=
  fi
  buildah rm "$container" >/dev/null 2>&1 || true
}

try_image() {
  local port deadline=$((SECONDS + 60)) shared=$work/shared
  rm -rf "$shared"
  mkdir -m 777 "$shared"
  trap clean_up EXIT
  trap 'exit 130' INT TERM
  buildah from --pull-never --name "$container" localhost/beamwright >/dev/null
  command buildah "${storage[@]}" run --volume "$shared:/run/shared" "$container" -- beamwright-server \
    --model-path /models/g2p-en --grpc-address 127.0.0.1:0 --http-address 127.0.0.1:0 \
    --metrics-address 127.0.0.1:0 --admin-address none --port-file /run/shared/port \
    >"$work/server.log" 2>&1 &
  server_pid=$!
  until [[ -s $shared/port ]]; do
    if ! kill -0 "$server_pid" 2>&- || ((SECONDS > deadline)); then
      cat "$work/server.log" >&2
      fail "the image's server did not start"
    fi
    sleep 0.1
  done
  port=$(<"$shared/port")
  say "the image's server runs on 127.0.0.1:$port as user $(stat --format %u "$shared/port")"
  buildah run "$container" -- beamwright decode --server "127.0.0.1:$port" --n-best 2 hello
}

buildah inspect --type image "$base" >/dev/null 2>&1 || make_base
build_image
try_image
clean_up
say "image localhost/beamwright: $(buildah images --format '{{.Size}}' localhost/beamwright)"
