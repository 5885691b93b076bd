#!/usr/bin/env bash
# usage: tests/release/check_release.sh FOLDER [deb|upgrade|tarball|wheel|pythons]...
# Uses the files of `./dev release` as a new user would: the Debian package on a fresh Debian 12, the
# tarball on Debian 13 (and on Debian 11, which is too old, and says so), the wheels in a fresh Python and in those of later
# Debians. For root. Systems are made by debootstrap into build/systems, once; each check works on a copy, in a mount
# separate namespace.
set -euo pipefail
files=$(realpath "$1")
shift
parts=("$@")
((${#parts[@]})) || parts=(deb upgrade tarball wheel pythons)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
systems=$PWD/build/systems
expected='R IY0 K ER1 AH0 N T'
mkdir -p "$systems"

if [[ -z ${BEAMWRIGHT_CHECK_UNSHARED:-} ]]; then
  BEAMWRIGHT_CHECK_UNSHARED=1 exec unshare --mount "${BASH_SOURCE[0]}" "$files" "${parts[@]}"
fi
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d --tmpdir="$systems")
# A network with nothing but loopback, where all ports are free.
touch "$scratch/net"
unshare --net="$scratch/net" ip link set lo up
clean_up() {
  local mounted
  awk -v under="$scratch/" 'index($2, under) == 1 { print $2 }' /proc/mounts | LC_ALL=C sort -r |
    while read -r mounted; do umount "$mounted"; done
  rm -rf "$scratch"
}
trap clean_up EXIT
say() { echo "== $*"; }
fail() { echo "check_release: $*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 60 "$scratch/log" >&2; fail "failed: $*"; }; }

# fresh SUITE [PACKAGE]: a copy of a system of Debian, with a package; sets `root`.
fresh() {
  local mirror proxy='' name=$1${2:++$2} script
  if [[ ! -e $systems/$name.made ]]; then
    say "making Debian $name with debootstrap"
    # shellcheck disable=SC2016  # apt's own placeholder
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    script=/usr/share/debootstrap/scripts/$1
    [[ -e $script ]] || script=${script%/*}/sid  # a suite younger than this machine's debootstrap
    rm -rf "${systems:?}/$name"
    quietly env ${proxy:+http_proxy="$proxy"} debootstrap --variant=minbase ${2:+--include="$2"} "$1" "$systems/$name" \
      ${mirror:+"$mirror" "$script"}
    : >"$systems/$name.made"
  fi
  root=$(mktemp -d "$scratch/$name.XXX")  # a copy for each check: the one before has mounts in its own
  cp -a "$systems/$name/." "$root"
  echo '127.0.0.1 localhost' >"$root/etc/hosts"  # as an installer writes it, and debootstrap does not
  mount --bind /dev "$root/dev"
  mount -t proc proc "$root/proc"
}

# block NAME: the commands of docs/install.md that are marked so.
block() { awk -v open="\`\`\`sh run=$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' docs/install.md | grep . ; }

# Packages come to the system as they come to this machine.
bind_apt() { bind_settings /etc/apt /usr/share/keyrings; }
bind_pip() { bind_settings /etc/pip.conf; }
bind_settings() {
  local path
  for path in "$@" /etc/ssl/certs /usr/share/ca-certificates /etc/resolv.conf; do
    [[ -e $path ]] || continue
    if [[ -d $path ]]; then mkdir -p "$root$path"; else mkdir -p "$(dirname "$root$path")" && touch "$root$path"; fi
    mount --bind --options ro "$path" "$root$path"
  done
}

# answer COMMANDS: runs them in the system, with a separate network, and ends with it all that they started; they
# have to print an answer.
answer() {
  nsenter --net="$scratch/net" unshare --pid --fork --kill-child chroot "$root" /bin/sh -ec "cd /tmp; $1" >"$scratch/answer" 2>&1 || true
  grep -qF "$expected" "$scratch/answer" || { cat "$scratch/answer" >&2; fail "no answer"; }
}

check_deb() {
  local begin left
  quietly lintian --fail-on error,warning "$files"/beamwright_*.deb
  fresh bookworm
  bind_apt
  cp "$files"/beamwright_*.deb "$root/tmp/"
  begin=$SECONDS
  quietly chroot "$root" apt-get update --quiet
  quietly chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -ec "cd /tmp; $(block deb-install)"
  # As the service does, for there is no systemd here.
  answer "runuser -u beamwright -- $(sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/beamwright.service") &
    until beamwright health; do sleep 0.1; done
    $(block deb-use)"
  say "Debian package: the first answer came $((SECONDS - begin)) s after apt-get update began on a fresh Debian 12"
  if type systemd-analyze >/dev/null 2>&1; then
    sed 's#^ExecStart=.*#ExecStart=/bin/true#' deploy/systemd/beamwright.service >"$scratch/beamwright.service"
    quietly systemd-analyze verify "$scratch/beamwright.service"
    [[ ! -s $scratch/log ]] || { cat "$scratch/log"; fail "systemd has something to say of the unit"; }
  fi
  quietly chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get purge --quiet --yes beamwright
  left=$(chroot "$root" sh -c 'ls -d /etc/beamwright /var/lib/beamwright /usr/*/beamwright* /lib/systemd/system/beamwright* \
    2>/dev/null; getent passwd beamwright' || true)
  [[ -z $left ]] || fail "left by a purge: $left"
  say "Debian package: a purge leaves nothing"
}

# package VERSION: the Debian package under another number, in the system's /tmp.
package() {
  local folder=$scratch/package-$1
  dpkg-deb --raw-extract "$files"/beamwright_*.deb "$folder"
  sed -i "s/^Version: .*/Version: $1/" "$folder/DEBIAN/control"
  quietly dpkg-deb --root-owner-group --build "$folder" "$root/tmp/beamwright-$1.deb"
}

# An upgrade and a rollback: settings and models of the administrator stay, and it answers each time. No release came before this
# one, so the earlier package has its programs, and settings as 0.1 printed them.
check_upgrade() {
  local version settings=etc/beamwright/server.conf
  fresh bookworm
  bind_apt
  package 0.1.9
  package 0.2.99
  quietly chroot "$root" apt-get update --quiet
  quietly chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install --yes /tmp/beamwright-0.1.9.deb
  printf 'max-rows = "512"\nchannelz-address = "none"\n' >>"$root/$settings"
  cp -a models/p2g-en "$root/var/lib/beamwright/models/"
  cp "$root/$settings" "$scratch/settings"
  for version in 0.1.9 0.2.99 0.1.9; do
    quietly chroot "$root" env DEBIAN_FRONTEND=noninteractive \
      apt-get install --yes --allow-downgrades "/tmp/beamwright-$version.deb"
    # shellcheck disable=SC2016  # dpkg's own placeholders
    [[ $(chroot "$root" dpkg-query --show --showformat '${Version} ${db:Status-Status}' beamwright) == "$version installed" ]] ||
      fail "$version is not installed"
    cmp "$root/$settings" "$scratch/settings" || fail "$version changed the settings"
    answer "runuser -u beamwright -- $(sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/beamwright.service") &
      until beamwright health; do sleep 0.1; done
      beamwright models | grep p2g-en
      beamwright decode --model g2p-en recurrent"
    grep -q p2g-en "$scratch/answer" || fail "$version does not serve the administrator's model"
  done
  say "Debian package: an upgrade and a rollback keep settings and models, and answer"
}

check_tarball() {
  local archive
  archive=$(echo "$files"/beamwright-*-linux-*.tar.gz)
  fresh trixie
  cp "$archive" "$root/tmp/"
  answer "$(block tarball)"
  say "tarball: answers on Debian 13, $(chroot "$root" ldd --version | head -n 1)"
  fresh bullseye
  tar --extract --gzip --file "$archive" --directory "$root/opt"
  ! chroot "$root" "/opt/$(basename "$archive" .tar.gz)/bin/beamwright" --version >"$scratch/answer" 2>&1 || fail "runs on glibc 2.31"
  grep -q "GLIBC_2.3[24]' not found" "$scratch/answer" || { cat "$scratch/answer" >&2; fail "another message was expected"; }
  say "tarball: Debian 11 says: $(head -n 1 "$scratch/answer")"
}

check_wheel() {
  local commands begin now bin=$scratch/python/beamwright-venv/bin
  commands=$(block wheel)
  mkdir "$scratch/python"
  cp "$files"/*.whl "$scratch/python"
  (cd "$scratch/python" && sh -ec "$commands") >"$scratch/answer" 2>&1 || { cat "$scratch/answer" >&2; fail "the wheel fails"; }
  grep -qF "$expected" "$scratch/answer" || fail "the wheel answers otherwise"
  now=$(date +%s%N)
  # The last that is made of an environment, before the wheel is installed.
  begin=$(date --reference "$bin/pip" +%s%N)
  say "wheel: the first answer came $(((now - begin) / 1000000)) ms after pip install began"
  "$bin/beamwright" --version
  "$bin/beamwright-server" --version
  "$bin/beamwright-graph" operators >/dev/null
  check_engine
}

# In the Python of check_wheel.
check_engine() {
  local commands
  commands=$(block engine)
  (cd "$scratch/python" && sh -ec "$commands") >"$scratch/answer" 2>&1 || { cat "$scratch/answer" >&2; fail "the library fails"; }
  grep -qF "$expected" "$scratch/answer" || { cat "$scratch/answer" >&2; fail "the library answers otherwise"; }
  tests/library/check_library.sh "$("$scratch/python/beamwright-venv/bin/python" -c 'import beamwright_engine; print(beamwright_engine.library())')"
  say "beamwright-engine: decodes in process"
}

# The package's tests, with what the wheels install, in the Pythons of later Debians: 3.13 and 3.14.
check_pythons() {
  local suite version begin
  local -a tests=(tests/python/test_{client,aio,bulk,errors,bad_input,server,model}.py)
  for suite in trixie forky; do
    fresh "$suite" python3-venv
    bind_pip
    version=$(chroot "$root" python3 -c 'import platform; print(platform.python_version())')
    cp "$files"/*.whl tests/python/requirements.txt "$root/tmp/"
    mkdir "$root/beamwright"
    mount --bind --options ro "$PWD" "$root/beamwright"
    quietly chroot "$root" sh -ec 'cd /tmp; python3 -m venv venv; venv/bin/pip install --quiet ./*.whl -r requirements.txt'
    begin=$SECONDS
    nsenter --net="$scratch/net" unshare --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" /bin/sh -ec "
      export BEAMWRIGHT_SERVER_PROGRAM=\$(echo /tmp/venv/lib/*/site-packages/beamwright/_programs/bin/beamwright-server)
      export BEAMWRIGHT_LIBRARY=\$(/tmp/venv/bin/python -c 'import beamwright_engine; print(beamwright_engine.library())')
      cd /beamwright
      /tmp/venv/bin/python -B -m pytest -q -p no:cacheprovider -m 'not of_the_build' ${tests[*]}" \
      >"$scratch/answer" 2>&1 || { tail -n 60 "$scratch/answer" >&2; fail "tests fail with Python $version"; }
    say "wheels: Python $version: $(tail -n 1 "$scratch/answer") ($((SECONDS - begin)) s)"
  done
}

(cd "$files" && sha256sum --quiet --check SHA256SUMS)
for part in "${parts[@]}"; do "check_$part"; done
