# One target per folder: beamwright_library(NAME DEPS...) takes every .cc of the folder it is called in.

# -ffp-contract=off: a fused multiply-add where the compiler pleases would make results depend on how a loop
# was vectorised (docs/numerics.md). Kernels ask for fma where they want it.
add_library(beamwright_flags INTERFACE)
target_compile_options(beamwright_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror -ffp-contract=off
  # g++ 12 takes the inline storage of absl::InlinedVector for uninitialised when it is moved.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers -Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wno-missing-field-initializers>)
target_include_directories(beamwright_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(BEAMWRIGHT_SANITIZE)
  target_compile_options(beamwright_flags INTERFACE
    -fsanitize=${BEAMWRIGHT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -UNDEBUG
    $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
  target_link_options(beamwright_flags INTERFACE -fsanitize=${BEAMWRIGHT_SANITIZE})
endif()
# Tests of a sanitizer build bear its name, so that one ctest can run those of several builds.
set(BEAMWRIGHT_TEST_PREFIX "")
# A single variable: gtest_discover_tests takes no list. Tests run side by side: a waiting OpenMP team must sleep, not spin.
set(BEAMWRIGHT_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive)
set(BEAMWRIGHT_TEST_SOURCES "")
if(BEAMWRIGHT_SANITIZE MATCHES thread)
  set(BEAMWRIGHT_TEST_PREFIX tsan:)
  set(BEAMWRIGHT_TEST_SOURCES ${PROJECT_SOURCE_DIR}/tests/sanitizers/tsan_absl.cc)
elseif(BEAMWRIGHT_SANITIZE)
  set(BEAMWRIGHT_TEST_PREFIX asan:)
endif()

# beamwright_precompile(TARGET [HEADER...]): the headers that most of its sources read, compiled once, if it has sources enough
# to gain by that. Sources include what they use all the same: -DBEAMWRIGHT_PCH=OFF finds one that does not.
function(beamwright_precompile target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(deps ${target} LINK_LIBRARIES)
  list(LENGTH sources count)
  if(NOT BEAMWRIGHT_PCH OR count LESS 4)
    return()
  endif()
  if("${deps}" MATCHES "grpc|client")
    list(APPEND ARGN <grpcpp/grpcpp.h>)
  endif()
  # g++ 12 forgets that precompiled headers are the system's and takes small strings for overrun.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-restrict
    -Wno-stringop-overread -Wno-stringop-overflow>)
  target_precompile_headers(${target} PRIVATE <algorithm> <functional> <map> <memory> <optional> <string> <utility>
    <vector> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/types/span.h> ${ARGN})
endfunction()

function(beamwright_library name)
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC beamwright_flags ${ARGN})
    beamwright_precompile(${name})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE beamwright_flags ${ARGN})
  endif()
endfunction()

# beamwright_program(OUTPUT_NAME SOURCE... DEPS target...): an executable in build/bin.
function(beamwright_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE beamwright_flags ${arg_DEPS})
endfunction()

# beamwright_test(NAME DEPS...): one test program of every *_test.cc in the folder, each test case known to
# ctest. Other .cc files of the folder are its helpers.
function(beamwright_test name)
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources} ${BEAMWRIGHT_TEST_SOURCES})
  target_link_libraries(${name} PRIVATE beamwright_flags GTest::gmock GTest::gtest_main ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  beamwright_precompile(${name} <gmock/gmock.h> <gtest/gtest.h>)
  # Tests take longer to compile than to run.
  target_compile_options(${name} PRIVATE -O1)
  # The same false alarm of g++ 12 as above, under another name where gtest's macros are inlined.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
  target_compile_definitions(${name} PRIVATE BEAMWRIGHT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    TEST_PREFIX "${BEAMWRIGHT_TEST_PREFIX}"
    PROPERTIES TIMEOUT 300 ENVIRONMENT "${BEAMWRIGHT_TEST_ENVIRONMENT}")
endfunction()
