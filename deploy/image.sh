#!/usr/bin/env bash
# usage: deploy/image.sh
# Builds the images of deploy/Dockerfile with buildah and no container engine, out of the portable programs that are
# built: localhost/beamwright:VERSION, and beamwright:VERSION-without-model. Runs both, asks their health checks and
# decodes a word. For root; `./dev image` calls it. All storage is under build/image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$PWD/build/image
context=$work/context
limit=$((60 * 1000 * 1000))
container=beamwright-try
mkdir -p "$work/tmp"
export BUILDAH_ISOLATION=chroot TMPDIR=$work/tmp

# Separate storage, so that nothing is left on the machine outside build/; vfs works on every file
# system, also inside a container.
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
say() { echo "== $*"; }
fail() { echo "image: $*" >&2; exit 1; }
quietly() {
  local log=$work/$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 100 "$log" >&2; fail "failed: $* (all of its output: $log)"; }
}

# What the programs load: the C library, its loader and libgcc_s, from this machine.
copy_libraries() {
  local root=$1 library
  mkdir -p "$root"/{lib64,lib/x86_64-linux-gnu}
  cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
  for library in libc.so.6 libm.so.6 libgcc_s.so.1; do
    cp -L "/lib/x86_64-linux-gnu/$library" "$root/lib/x86_64-linux-gnu/"
  done
  mkdir -p "$root/usr/share/doc/beamwright/licences"
  cp /usr/share/doc/libc6/copyright "$root/usr/share/doc/beamwright/licences/glibc.txt"
}

put_together() {
  local root=$context/root
  rm -rf "$context" "$work/staged"
  mkdir -p "$root"/{etc/ssl/certs,tmp,models} "$root/usr"
  python3 -B deploy/release/stage.py "$work/staged"
  cp -a "$work"/staged/image/{bin,lib,share} "$root/usr/"
  mv "$root/usr/share/beamwright/models" "$context/model"
  copy_libraries "$root"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  echo 'beamwright:x:10001:10001::/:/' >"$root/etc/passwd"
  echo 'beamwright:x:10001:' >"$root/etc/group"
  chmod 1777 "$root/tmp"
  cp deploy/Dockerfile "$context/"
}

# The format of Docker: OCI's has no health checks.
build_images() {
  local arguments
  read -r version <"$work/staged/version"
  arguments=(--pull-never --format docker --timestamp "$(<"$work/staged/epoch")" --build-arg VERSION="$version"
    --build-arg COMMIT="$(<"$work/staged/commit")"
    --build-arg CREATED="$(date --utc --date "@$(<"$work/staged/epoch")" +%Y-%m-%dT%H:%M:%SZ)")
  quietly build.log buildah build "${arguments[@]}" --target without-model \
    --tag "beamwright:$version-without-model" "$context"
  quietly build-model.log buildah build "${arguments[@]}" --tag "beamwright:$version" --tag beamwright:latest "$context"
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

# try_image TAG FLAG...: starts its server, with flags for buildah, waits until it serves, asks its health check and
# decodes a word.
try_image() {
  local tag=$1 port deadline=$((SECONDS + 60)) shared=$work/shared ids status=0
  shift
  rm -rf "$shared"
  mkdir -m 777 "$shared"
  buildah from --pull-never --name "$container" "localhost/beamwright:$tag" >/dev/null
  command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs run \
    --volume "$shared:/run/shared" "$@" "$container" -- beamwright-server --model-repository /models \
    --grpc-address 127.0.0.1:0 --http-address none --metrics-address none --admin-address none \
    --ports-file /run/shared/ports >"$work/server.log" 2>&1 &
  server_pid=$!
  until [[ -s $shared/ports ]]; do
    if ! kill -0 "$server_pid" 2>&- || ((SECONDS > deadline)); then
      cat "$work/server.log" >&2
      fail "the image's server did not start"
    fi
    sleep 0.1
  done
  port=$(sed -n 's/^grpc //p' "$shared/ports")
  ids=$(stat --format %u "$shared/ports")
  [[ $ids == 10001 ]] || fail "the server runs as user $ids"
  buildah run "$container" -- beamwright health --server "127.0.0.1:$port"
  buildah run "$container" -- beamwright decode --server "127.0.0.1:$port" --model g2p-en --n-best 2 hello
  buildah run "$container" -- beamwright health --server 127.0.0.1:1 >/dev/null 2>&1 || status=$?
  ((status)) || fail "the health check is content without a server"
  clean_up
}

# hostile ROOT: as an engine runs it with a read-only root (buildah cannot), as root, with a full disk behind its log: it serves,
# and says what it cannot write. In separate namespaces.
hostile() {
  set -euo pipefail
  local root=$1 port i file said
  mount --bind "$root" "$root"
  mount --options remount,bind,ro "$root"
  mount --types tmpfs --options size=64k none "$root/tmp"
  local -a serve=(chroot "$root" /usr/bin/beamwright-server --model-repository /models --grpc-address 127.0.0.1:0
    --http-address none --metrics-address none --admin-address none --ports-file)
  "${serve[@]}" /tmp/ports >"$root/tmp/log" 2>&1 &
  for ((i = 0; i < 600; ++i)); do [[ ! -s $root/tmp/ports ]] || break; sleep 0.1; done
  port=$(sed -n 's/^grpc //p' "$root/tmp/ports")
  head --bytes=1M /dev/zero >"$root/tmp/rest" || true
  for i in hello world; do chroot "$root" /usr/bin/beamwright decode --server "127.0.0.1:$port" "$i"; done
  kill -TERM %1
  wait %1
  for file in /tmp/other /other; do
    said=$("${serve[@]}" "$file" 2>&1 || true)
    echo "$said"
    grep -E "cannot write the ports file '$file.*: (No space left on device|Read-only file system)" <<<"$said"
  done
}

try_hostile() {
  local container mount
  container=$(buildah from --pull-never "localhost/beamwright:$1")
  mount=$(buildah mount "$container")
  quietly hostile.log unshare --mount --pid --fork --kill-child bash -c "$(declare -f hostile); hostile '$mount'"
  buildah rm "$container" >/dev/null
}

# What a container engine would unpack.
size_of() {
  local container mount
  container=$(buildah from --pull-never "localhost/beamwright:$1")
  mount=$(buildah mount "$container")
  du --summarize --apparent-size --bytes "$mount" | cut -f1
  buildah rm "$container" >/dev/null
}

trap clean_up EXIT
trap 'exit 130' INT TERM
say "putting the images together"
put_together
build_images
say "trying them"
try_image "$version"
try_image "$version-without-model" --volume "$PWD/models:/models:ro"
try_hostile "$version"
say "with a read-only root, as root, with a full disk: it serves, and says what it cannot write"
for tag in "$version" "$version-without-model"; do
  size=$(size_of "$tag")
  say "localhost/beamwright:$tag: $((size / 1000000)) MB"
  ((size <= limit)) || fail "an image may have $((limit / 1000000)) MB"
done
