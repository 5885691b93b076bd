#!/usr/bin/env bash
# usage: tests/install/check_install.sh BUILD
# Installs the build into a temporary prefix, builds the examples of the client library and of the C library there as a
# separate project (with find_package, then linked by pkg-config), starts the installed server with the installed model,
# and asks it; the C example decodes by itself.
set -euo pipefail
source=$PWD
build=$1
scratch=$(mktemp -d)
prefix=$scratch/opt
server=
clean_up() {
  [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT
fail() { echo "check_install: $*" >&2; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "failed: $*"; }; }

quietly cmake --install "$build" --prefix "$prefix"
! grep -rIl -e "$source" -e "$prefix" --include='*.cmake' --include='*.pc' --include='*.h' "$prefix" ||
  fail "these files say where they were built or installed"

quietly cmake -S client/examples/installed -B "$scratch/project" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
quietly cmake --build "$scratch/project"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name beamwright.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs beamwright-client)"
g++ "$(find "$scratch/project/CMakeFiles/decode_words.dir" -name '*.o')" "${flags[@]}" -o "$scratch/by-pkg-config"

read -ra flags <<<"$(pkg-config --cflags --libs beamwright)"
gcc examples/decode_in_c.c "${flags[@]}" -o "$scratch/c-by-pkg-config"
library=$(dirname "$(find "$prefix" -name libbeamwright.so)")
for program in "$scratch/project/decode_in_c" "$scratch/c-by-pkg-config"; do
  answer=$(LD_LIBRARY_PATH=$library "$program" "$prefix/share/beamwright/models/g2p-en" recurrent)
  [[ $answer == $'recurrent\tR IY0 K ER1 AH0 N T' ]] || fail "$program says '$answer'"
done

"$prefix/bin/beamwright-server" --model-path "$prefix/share/beamwright/models/g2p-en" --grpc-address 127.0.0.1:0 \
  --http-address none --metrics-address none --admin-address none --ports-file "$scratch/ports" 2>"$scratch/server.log" &
server=$!
until [[ -s $scratch/ports ]]; do
  kill -0 "$server" 2>/dev/null || { cat "$scratch/server.log" >&2; fail "the installed server did not start"; }
  sleep 0.05
done
port=$(sed -n 's/^grpc //p' "$scratch/ports")
for program in "$scratch/project/decode_words" "$scratch/by-pkg-config"; do
  answer=$("$program" "127.0.0.1:$port" recurrent | head -n 1)
  [[ $answer == "R IY0 K ER1 AH0 N T" ]] || fail "$program says '$answer'"
done
echo "installed, built against, and answered"
