#!/usr/bin/env bash
# usage: tests/release/check_package.sh FOLDER
# Unpacks the Debian package in FOLDER (`./dev deb`) and uses its files where they lie. Needs no fresh system, mount or root;
# check_release.sh installs the package.
set -euo pipefail
files=$(realpath "$1")
root=$(mktemp -d)
server=
clean_up() {
  [[ -z $server ]] || kill "$server" 2>&- || true
  rm -rf "$root"
}
trap clean_up EXIT
fail() { echo "check_package: $*" >&2; exit 1; }

(cd "$files" && sha256sum --quiet --check SHA256SUMS)
package=$(echo "$files"/beamwright_*.deb)
dpkg-deb --raw-extract "$package" "$root"
bin=$root/usr/bin

# 1. What the system and dpkg read: scripts, settings, the service and its program, manual pages.
for script in "$root"/DEBIAN/{postinst,prerm,postrm}; do sh -n "$script"; done
while IFS= read -r file; do [[ -f $root$file ]] || fail "conffile $file is missing"; done <"$root/DEBIAN/conffiles"
program=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$root/lib/systemd/system/beamwright.service")
[[ -x $root$program ]] || fail "the service starts $program, which is missing"
for file in "$bin"/*; do
  [[ -f $root/usr/share/man/man1/${file##*/}.1.gz ]] || fail "${file##*/} has no manual page"
done
[[ -s $root/usr/share/doc/beamwright/copyright ]] || fail "no copyright file"

# 2. Programs and the module find their libraries, and the package depends on something.
for file in "$bin"/* "$root"/usr/lib/beamwright/*.so; do
  ! ldd "$file" | grep 'not found' || fail "${file##*/} misses libraries"
done
grep -q '^Depends: .*libc6' "$root/DEBIAN/control" || fail "the package depends on no library"

# 3. The server of the package, by the settings of the package, answers the client of the package.
sed "s#/usr/share/beamwright#$root&#; s#/var/lib/beamwright#$root&#; s#127.0.0.1:[0-9]*#127.0.0.1:0#" \
  "$root/etc/beamwright/server.conf" >"$root/server.conf"
"$bin/beamwright-server" --config "$root/server.conf" --ports-file "$root/ports" 2>"$root/log" &
server=$!
for ((i = 0; i < 600; ++i)); do
  [[ ! -s $root/ports ]] || break
  kill -0 "$server" 2>&- || break
  sleep 0.1
done
[[ -s $root/ports ]] || { cat "$root/log" >&2; fail "the server does not serve"; }
address=127.0.0.1:$(sed -n 's/^grpc //p' "$root/ports")
answer=$("$bin/beamwright" decode --server "$address" recurrent)
grep -qF 'R IY0 K ER1 AH0 N T' <<<"$answer" || fail "the answer is '$answer'"
"$bin/beamwright-graph" check "$root/usr/share/beamwright/models/g2p-en/1" >"$root/check" || { cat "$root/check" >&2; fail "check"; }
kill -TERM "$server"
wait "$server" || fail "the server ended with $?"
server=
echo "check_package: ${package##*/}: $(find "$root/usr" -type f | wc -l) files; answers from where it was unpacked"
