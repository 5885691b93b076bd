#!/usr/bin/env bash
# usage: deploy/portable/libraries.sh FOLDER
# Puts into FOLDER/lib the static archives that portable programs are linked with and that Debian does not
# ship, each built from Debian's source package of the version that is installed here; FOLDER/sources.txt
# lists them. Does nothing where they are made of these versions already. ./dev calls it.
set -euo pipefail
script=$(realpath "$0")
mkdir -p "$1"/{lib,objects,sources,apt/parts,apt/lists/partial}
cd "$1"
folder=$PWD

# As programs of a release (BEAMWRIGHT_HARDEN, cmake/beamwright.cmake).
harden=("-ffile-prefix-map=$folder/=" -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
export CFLAGS="${harden[*]}" CXXFLAGS="${harden[*]}"

say() { echo "== $*"; }

# Separate package lists, so that the machine's apt is left as it is.
apt_sources() {
  apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$folder/apt/parts" \
    -o Dir::State::Lists="$folder/apt/lists" "$@"
}

# fetch: the sources of sources.txt, with Debian's patches, each in sources/NAME.
fetch() {
  local name version
  sed 's/^Types: .*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >apt/parts/debian.sources
  apt_sources update --quiet
  while read -r name version; do
    (cd sources && apt_sources source --quiet --download-only "$name=$version")
    rm -rf "sources/$name"
    dpkg-source --no-check --extract "sources/${name}_${version#*:}.dsc" "sources/$name"
  done <sources.txt
}

# archive NAME SOURCE... [-- FLAG...]
archive() {
  local name=$1 sources=() source object
  shift
  while (($#)) && [[ $1 != -- ]]; do sources+=("$1") && shift; done
  (($#)) && shift
  rm -rf "objects/$name" "lib/lib$name.a"
  mkdir -p "objects/$name"
  for source in "${sources[@]}"; do
    object=objects/$name/$(basename "${source%.*}").o
    "${launcher[@]}" g++ -std=c++17 -O2 -DNDEBUG -fPIC "${harden[@]}" "$@" -c "$source" -o "$object"
  done
  ar rcsD "lib/lib$name.a" objects/"$name"/*.o
}

build_sentencepiece() {
  [[ -d sources/sentencepiece/build ]] || patch --quiet --reverse --strip 1 --directory sources/sentencepiece \
    <sources/sentencepiece/debian/patches/disable-static-library.patch
  cmake -S sources/sentencepiece -B sources/sentencepiece/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    ${launcher[0]:+-DCMAKE_CXX_COMPILER_LAUNCHER="${launcher[0]}"}
  cmake --build sources/sentencepiece/build --target sentencepiece-static --parallel 2
  cp sources/sentencepiece/build/src/libsentencepiece.a lib/
}

build_zip() {
  cmake -S sources/libzip -B sources/libzip/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF -DENABLE_ZSTD=OFF -DENABLE_OPENSSL=OFF -DENABLE_GNUTLS=OFF \
    -DENABLE_MBEDTLS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
  cmake --build sources/libzip/build --target zip --parallel 2
  cp sources/libzip/build/lib/libzip.a lib/
}

# The distribution's archives read `stderr`, in functions that are not called, in a way that a shared library (libbeamwright.so)
# must not: they read what stderr.c defines instead.
build_picture_libraries() {
  local name
  for name in png jpeg; do
    objcopy --redefine-sym stderr=beamwright_stderr "$(gcc -print-file-name=lib$name.a)" "lib/lib$name.a"
  done
}

# The distribution's archives of these two have thread-local variables that cannot go into a shared library
# (libbeamwright.so); as the distribution builds them otherwise.
build_abseil() {
  cmake -S sources/abseil -B sources/abseil/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 \
    -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    ${launcher[0]:+-DCMAKE_CXX_COMPILER_LAUNCHER="${launcher[0]}"}
  cmake --build sources/abseil/build --parallel 2
  find sources/abseil/build -name 'libabsl_*.a' -exec cp {} lib/ \;
}

build_protobuf() {
  cmake -S sources/protobuf -B sources/protobuf/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON ${launcher[0]:+-DCMAKE_CXX_COMPILER_LAUNCHER="${launcher[0]}"}
  cmake --build sources/protobuf/build --target libprotobuf --parallel 2
  cp sources/protobuf/build/libprotobuf.a lib/
}

# ONNX's messages, from the description of them that the distribution's library carries.
build_onnx_messages() {
  mkdir -p onnx
  cat >onnx/describe.cc <<'CODE'
#include <google/protobuf/descriptor.pb.h>
#include <onnx/onnx_pb.h>
#include <iostream>
int main() {
  google::protobuf::FileDescriptorSet files;
  onnx::ModelProto::descriptor()->file()->CopyTo(files.add_file());
  std::cout << files.file(0).name();
  return files.SerializeToFileDescriptor(3) ? 0 : 1;
}
CODE
  g++ -DONNX_ML=1 -Wno-attributes onnx/describe.cc -o onnx/describe -lonnx_proto -lprotobuf -pthread
  local file
  file=$(onnx/describe 3>onnx/files.binpb)
  protoc --descriptor_set_in=onnx/files.binpb --cpp_out=onnx "$file"
  archive onnx_proto "onnx/${file%.proto}.pb.cc" -- -Ionnx -DONNX_ML=1
}

# Of ICU's data only what finds sentences and line breaks and names languages in English: 4 MB of 31. The distribution's
# archive has the data as one section of one object; ICU's tools (icu-devtools) take parts out and make an object of them.
build_icu_data() {
  local name
  rm -rf objects/icudata
  mkdir -p objects/icudata/{parts,new}
  (cd objects/icudata && ar x "$(gcc -print-file-name=libicudata.a)" && objcopy -O binary --only-section=.rodata ./*.o all)
  # A file of data bears the name that its object had: icudt72l.dat, and its symbol is icudt72_dat.
  name=$(basename "$(echo objects/icudata/*_dat.o)" _dat.o)
  mv objects/icudata/all "objects/icudata/$name.dat"
  icupkg --list "objects/icudata/$name.dat" |
    grep -E '^(brkitr/.*|(lang/|region/)?(root|en|pool|res_index)\.res|(keyTypeData|metadata|likelySubtags|supplementalData|icuver)\.res)$' \
      >objects/icudata/keep.txt
  icupkg --destdir objects/icudata/parts --extract objects/icudata/keep.txt "objects/icudata/$name.dat"
  icupkg --sourcedir objects/icudata/parts --add objects/icudata/keep.txt new "objects/icudata/new/$name.dat"
  (cd objects/icudata/new && genccode -a gcc -d . -e "${name%l}" -n "${name%l}" "$name.dat" >/dev/null &&
    gcc -c "${name}_dat.S" -o "${name}_dat.o" && rm -f "$folder/lib/libicudata.a" &&
    ar rcsD "$folder/lib/libicudata.a" "${name}_dat.o")
}

packages=(libfmt-dev libspdlog-dev libprometheus-cpp-core1.0 libcpp-httplib-dev libsentencepiece0
  libzip4 libabsl-dev libprotobuf-dev)
# shellcheck disable=SC2016  # dpkg-query's own placeholders
dpkg-query --show --showformat '${source:Package} ${source:Version}\n' "${packages[@]}" | LC_ALL=C sort >sources.txt
# shellcheck disable=SC2016
stamp=$(sha256sum sources.txt "$script" && dpkg-query --show --showformat '${Version}' libicu-dev libpng-dev libjpeg62-turbo-dev)
[[ $(cat made 2>/dev/null) != "$stamp" ]] || exit 0
rm -f made
launcher=()
! type ccache >/dev/null 2>&1 || launcher=(ccache)
say "fetching sources"
fetch
say "fmt, spdlog, prometheus-cpp, cpp-httplib"
archive fmt sources/fmtlib/src/{format,os}.cc -- -Isources/fmtlib/include
archive spdlog sources/spdlog/src/*.cpp -- -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -Isources/spdlog/include
archive prometheus-cpp-core sources/prometheus-cpp/core/src/*.cc sources/prometheus-cpp/core/src/detail/*.cc \
  -- -Isources/prometheus-cpp/core/include -Isources/prometheus-cpp/core/src
(cd sources/cpp-httplib && python3 ./split.py -o "$folder/objects/httplib-split" >/dev/null)
archive cpp-httplib objects/httplib-split/httplib.cc -- -Iobjects/httplib-split -DCPPHTTPLIB_OPENSSL_SUPPORT \
  -DCPPHTTPLIB_ZLIB_SUPPORT -DCPPHTTPLIB_BROTLI_SUPPORT
say "ONNX's messages"
build_onnx_messages
say "sentencepiece"
build_sentencepiece
say "libzip"
build_zip
say "libpng, libjpeg-turbo"
build_picture_libraries
say "ICU's data"
build_icu_data
say "abseil, protobuf"
build_abseil
build_protobuf
echo "$stamp" >made
say "made: $(cd lib && echo *.a)"
