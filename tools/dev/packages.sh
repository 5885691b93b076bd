# Which Debian packages the commands need, and how they are installed: ./dev reads this file.
# shellcheck shell=bash

# Packages by what needs them (Debian 12).
build_packages=(
  g++ cmake ninja-build ccache pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler
  protobuf-compiler-grpc libabsl-dev libpugixml-dev libonnx-dev libzip-dev
  zlib1g-dev libsentencepiece-dev libcli11-dev libspdlog-dev prometheus-cpp-dev libcpp-httplib-dev
  libbrotli-dev libboost-dev libicu-dev rapidjson-dev libsndfile1-dev libpng-dev
  libjpeg62-turbo-dev
  libgtest-dev libgmock-dev)
# What tests read and run.
test_packages=(libonnx-testdata openssl valgrind python3 python3-numpy python3-venv iproute2 chromium curl zsh fish)
# llvm-16 turns the sanitizers' addresses into lines.
sanitizer_packages=(clang-16 libclang-rt-16-dev libomp-16-dev llvm-16)
# PyTorch from the distribution: its EmbeddingBag is a peer.
bench_packages=(libbenchmark-dev python3 python3-venv python3-torch)
lint_packages=(clang-format clang-tidy libomp-16-dev shellcheck python3)
# Sources of libraries that have no archives in the distribution: deploy/portable/libraries.sh.
portable_packages=(dpkg-dev patch make binutils python3 cmake libzip4)
image_packages=(buildah ca-certificates)
release_packages=(python3 python3-venv dpkg-dev)
# The compiler, and what runs what it makes; libraries for arm64 are unpacked into build/aarch64-sysroot.
aarch64_packages=(g++-aarch64-linux-gnu qemu-user)
check_packages=(debootstrap lintian)
train_packages=(python3 python3-venv python3-torch libopenblas0-openmp)

# packages_of COMMAND: what it needs, one package a line.
packages_of() {
  case $1 in
    load-demo) printf '%s\n' "${build_packages[@]}" chromium ;;
    demo | build) printf '%s\n' "${build_packages[@]}" ;;
    fuzz) printf '%s\n' "${build_packages[@]}" "${sanitizer_packages[@]}" ;;
    test | conformance) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" ;;
    sanitize) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" "${sanitizer_packages[@]}" ;;
    soak) printf '%s\n' "${build_packages[@]}" ;;
    frameworks) printf '%s\n' "${build_packages[@]}" python3 python3-venv ;;
    fleet-test) printf '%s\n' "${build_packages[@]}" python3 python3-venv iproute2 ;;
    bench) printf '%s\n' "${build_packages[@]}" "${bench_packages[@]}" ;;
    lint) printf '%s\n' "${build_packages[@]}" "${lint_packages[@]}" ;;
    image) printf '%s\n' "${build_packages[@]}" "${portable_packages[@]}" "${image_packages[@]}" ;;
    aarch64) printf '%s\n' "${build_packages[@]}" "${aarch64_packages[@]}" ;;
    ray-test) printf '%s\n' "${build_packages[@]}" python3 python3-venv ;;
    deb) printf '%s\n' "${build_packages[@]}" "${release_packages[@]}" ;;
    release | wheel) printf '%s\n' "${build_packages[@]}" "${portable_packages[@]}" "${release_packages[@]}" ;;
    release-check) printf '%s\n' "${release_packages[@]}" "${check_packages[@]}" ;;
    train-g2p) printf '%s\n' "${train_packages[@]}" ;;
    g2p-quality) printf '%s\n' "${build_packages[@]}" python3 python3-venv ;;
    site) printf '%s\n' python3 mkdocs ;;
    frames-parity) printf '%s\n' "${build_packages[@]}" python3 python3-venv python3-dev ;;
    *) fail "unknown command '$1' (see ./dev --help)" ;;
  esac
}

list_packages() {
  (($#)) || set -- demo load-demo test sanitize build bench fuzz soak fleet-test lint image train-g2p g2p-quality \
    frames-parity
  local command
  for command in "$@"; do packages_of "$command"; done | LC_ALL=C sort -u
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

# Installs what the command needs and the machine lacks. Package lists are fetched only if the ones
# at hand do not do.
install_packages() {
  local wanted installed missing
  wanted=$(packages_of "$1" | LC_ALL=C sort -u)
  # shellcheck disable=SC2086  # one word a package
  installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' $wanted 2>&- |
    sed -n 's/ installed$//p' | LC_ALL=C sort -u) || true
  missing=$(LC_ALL=C comm -23 <(echo "$wanted") <(echo "$installed") | tr '\n' ' ')
  [[ -n ${missing// /} ]] || return 0
  say "installing Debian packages: ${missing% }"
  # shellcheck disable=SC2086
  apt_install $missing >/dev/null 2>&1 || {
    quietly apt-update.log as_root apt-get update
    quietly apt-install.log apt_install $missing
  }
}
