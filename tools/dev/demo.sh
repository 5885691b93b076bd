# The demonstrations: ./dev reads this file.
# shellcheck shell=bash

# Stops the server that run_demo started, if it runs: called on every way out. It is given ten seconds
# to answer what it accepted.
server_pid=
stop_server() {
  [[ -n $server_pid ]] || return 0
  local deadline=$((SECONDS + 10))
  kill -TERM "$server_pid" 2>&- || true
  while ((SECONDS < deadline)) && kill -0 "$server_pid" 2>&-; do sleep 0.05; done
  kill -KILL "$server_pid" 2>&- || true
  wait "$server_pid" 2>&- || true
  server_pid=
}

# wait_for_port FILE LOG: prints the gRPC port of the ports FILE that the server writes when it serves; fails, showing its
# log, if it ends before that or takes longer than most_start_seconds.
most_start_seconds=60
wait_for_port() {
  local deadline=$((SECONDS + most_start_seconds))
  until [[ -s $1 ]]; do
    if ! kill -0 "$server_pid" 2>&- || ((SECONDS > deadline)); then
      cat "$2" >&2
      fail "the server did not start"
    fi
    sleep 0.05
  done
  sed -n 's/^grpc //p' "$1"
}

# decode_words ADDRESS WORD...: prints the command and its answer.
decode_words() {
  local command=(beamwright decode --server "$1" --beam-size 5 --n-best 3 "${@:2}")
  echo "\$ ${command[*]}"
  "${launcher[@]}" "$programs/${command[0]}" "${command[@]:1}"
}

# release_archive: the tarball of this version for this machine in build/release, as `./dev release` makes it; else nothing.
release_archive() {
  local version
  version=$(sed -n 's/^project(beamwright VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
  compgen -G "build/release/beamwright-$version-linux-$(uname -m).tar.gz" || true
}

# The folder with the programs of a demo, and what starts those of another machine.
programs=build/bin
launcher=()

# find_programs: those of a release, or what it builds.
find_programs() {
  local archive
  archive=$(release_archive)
  if [[ ! $archive ]]; then
    say "building (build/build-release.log); with a release's tarball in build/release this is not needed"
    build_preset release beamwright-server beamwright beamwright-graph
    return
  fi
  say "taking the programs of $archive, whatever the sources are; remove it to build"
  rm -rf build/demo-release
  mkdir -p build/demo-release
  tar --extract --gzip --strip-components=1 --directory build/demo-release --file "$archive"
  programs=build/demo-release/bin
}

# serve_default_model: starts a server on a free port, which it leaves in `port`, and stops it at the end.
serve_default_model() {
  local ports_file=build/demo.ports log=build/demo-server.log
  rm -f "$ports_file"
  trap stop_server EXIT
  trap 'exit 130' INT TERM
  "${launcher[@]}" "$programs/beamwright-server" --model-path models/g2p-en --grpc-address 127.0.0.1:0 \
    --http-address none --metrics-address none --admin-address none \
    --ports-file "$ports_file" >"$log" 2>&1 &
  server_pid=$!
  port=$(wait_for_port "$ports_file" "$log")
}

run_demo() {
  local port
  find_programs
  serve_default_model
  say "serving models/g2p-en on 127.0.0.1:$port, decoding with beam size 5"
  decode_words "127.0.0.1:$port" hello tomato beamwright
  stop_server
  say "stopped the server; nothing is left running"
}

# Closed loops find what the server can do; open loops show what users see below and above that.
run_load_demo() {
  local port folder=build/load-demo most page seconds=4 highest=32 lowest=8
  [[ ${1:-} != --quick ]] || seconds=1 highest=2 lowest=2
  local -a load=(build/bin/beamwright load-test --file models/g2p-en/words-test.txt --warmup 1s --duration "${seconds}s")
  say "building (build/build-release.log)"
  build_preset release beamwright-server beamwright
  serve_default_model
  mkdir -p "$folder"
  load+=(--server "127.0.0.1:$port")
  say "closed loops, 1 to $highest calls in flight"
  "${load[@]}" --concurrency "1..$highest" --csv --report "$folder/closed.html" | tee "$folder/closed.csv" |
    cut -d, -f1,6,10,12 || say "some calls failed; the page shows which"
  most=$(awk -F, 'NR > 1 && $6 > most { most = $6 } END { printf "%d", most < 8 ? 8 : most }' "$folder/closed.csv")
  say "open loops, at $((most / lowest)) to $most calls a second"
  "${load[@]}" --rate "$((most / lowest))..$most" --csv --report "$folder/open.html" | tee "$folder/open.csv" |
    cut -d, -f2,6,10,12 || say "some calls failed; the page shows which"
  stop_server
  for page in closed open; do
    chromium --headless --no-sandbox --disable-gpu --window-size=1100,3200 \
      --screenshot="$PWD/$folder/$page.png" "file://$PWD/$folder/$page.html" >/dev/null 2>&1 ||
      fail "chromium could not take a picture of $folder/$page.html"
  done
  say "reports and their pictures: $(echo "$folder"/*.html "$folder"/*.png)"
}
