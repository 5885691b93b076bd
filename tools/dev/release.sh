# What makes and checks the files of a release, images, and programs for aarch64: ./dev reads this file.
# shellcheck shell=bash disable=SC2034,SC2154  # names that other parts of ./dev set or read

# The portable programs, with the commit that is checked out now in them.
build_portable() {
  say "libraries of the portable programs (build/portable-libraries.log)"
  quietly portable-libraries.log deploy/portable/libraries.sh build/portable-libraries
  say "building portable programs into build-portable/bin (build/build-release-portable.log)"
  quietly configure-release-portable.log cmake --preset release-portable
  # Linked afresh: Ninja does not watch the distribution's archives, and a fixed one may have come.
  rm -f build-portable/bin/* build-portable/lib/*.so*
  build_preset release-portable beamwright-server beamwright beamwright-graph beamwright-both beamwright_sentencepiece \
    beamwright_engine
}

# The programs of the Debian package, with Debian's libraries.
build_package() {
  say "building the programs of the Debian package into build-package/bin (build/build-release-package.log)"
  quietly configure-release-package.log cmake --preset release-package
  build_preset release-package beamwright-server beamwright beamwright-graph beamwright_sentencepiece
}

run_release() {
  build_portable
  build_package
  prepare_venv release deploy/release/requirements.txt
  say "packing, twice"
  build/venv-release/bin/python -B deploy/release/release.py build/release
}

run_wheel() {
  build_portable
  prepare_venv release deploy/release/requirements.txt
  say "packing, twice"
  build/venv-release/bin/python -B deploy/release/release.py build/wheel wheel
}

run_deb() {
  build_package
  prepare_venv release deploy/release/requirements.txt
  say "packing, twice"
  build/venv-release/bin/python -B deploy/release/release.py build/deb deb
}

# Tests of what computes and searches; the server decodes a word.
run_aarch64() {
  local -a libraries tests=()
  local folder
  mapfile -t libraries < <(printf '%s\n' "${build_packages[@]}" | grep -e '-dev$')
  say "libraries for arm64, into build/aarch64-sysroot (build/aarch64-sysroot.log)"
  quietly aarch64-sysroot.log deploy/aarch64/sysroot.sh "$root/build/aarch64-sysroot" "${libraries[@]}"
  # Without those of tools/graph, which start programs: qemu runs one program and not what it starts.
  for folder in base tensor graph kernels import compile loop decoder picture; do tests+=("ops_${folder}_test"); done
  tests+=(engine_search_test)
  say "building for aarch64 (build/build-aarch64.log)"
  build_preset aarch64 "${tests[@]}" beamwright-server beamwright
  run_ctest build-aarch64 --tests-regex "^($(IFS='|' && echo "${tests[*]}"))" "$@"
  say "a server, under qemu"
  local port programs=build-aarch64/bin launcher=(qemu-aarch64 -L "$root/build/aarch64-sysroot")
  most_start_seconds=600  # golden requests and all, emulated
  serve_default_model
  decode_words "127.0.0.1:$port" recurrent
  stop_server
}

run_image() {
  build_portable
  as_root deploy/image.sh
}

run_release_check() {
  as_root tests/release/check_release.sh build/release
}
