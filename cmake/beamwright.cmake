# One target per folder: beamwright_library(NAME DEPS...) takes every .cc of the folder it is called in.

# -ffp-contract=off: a fused multiply-add where the compiler pleases would make results depend on how a loop
# was vectorised (docs/numerics.md). Kernels ask for fma where they want it.
set(werror "")
if(BEAMWRIGHT_WERROR)
  set(werror -Werror)
endif()
add_library(beamwright_flags INTERFACE)
target_compile_options(beamwright_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual ${werror} -ffp-contract=off
  # g++ 12 takes the inline storage of absl::InlinedVector for uninitialised when it is moved.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers -Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wno-missing-field-initializers>)
target_include_directories(beamwright_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Programs of a release (deploy/release/check_hardening.sh): stack protector, checked copies of the C library, addresses of
# functions read-only after the start; and the same bytes from any folder.
if(BEAMWRIGHT_HARDEN)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
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
  set(BEAMWRIGHT_TEST_SOURCES ${PROJECT_SOURCE_DIR}/tests/sanitizers/lsan_libraries.cc)
endif()

# beamwright_group(TARGET SOURCE...): compiles the sources in groups of eight, which read the headers of gRPC, protobuf
# and Abseil once for all of them. So names in anonymous namespaces are unique within a target. Sources include what
# they use all the same: -DBEAMWRIGHT_GROUPS=OFF compiles them one by one. CMake's own unity builds name sources by
# absolute paths, which no other clone finds in the compiler cache.
function(beamwright_group target)
  if(NOT BEAMWRIGHT_GROUPS)
    return()
  endif()
  set(number 0)
  set(left ${ARGN})
  while(left)
    list(SUBLIST left 0 8 group)
    list(REMOVE_ITEM left ${group})
    set(includes "")
    foreach(source ${group})
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
      string(APPEND includes "#include \"${path}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_group_${number}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${includes}" @ONLY)
    target_sources(${target} PRIVATE ${file})
    set_source_files_properties(${group} PROPERTIES HEADER_FILE_ONLY ON)
    math(EXPR number "${number} + 1")
  endwhile()
  # g++ takes an included source for a header, whose classes must not hold what is in an anonymous namespace.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# beamwright_hot(TARGET): what runs in every step is optimised as far as the compiler can. The rest of a release is
# compiled with -O2 at most: -O3 made nothing there faster that anybody waits for, and it took twice as long.
function(beamwright_hot target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
endfunction()

# A folder that has targets calls this: its imported libraries are archives in portable programs (cmake/portable.cmake).
function(beamwright_prefer_archives)
  if(BEAMWRIGHT_PORTABLE)
    cmake_language(DEFER CALL beamwright_link_archives)
  endif()
endfunction()

# beamwright_fuzzed(TARGET): fuzz targets (tests/fuzz) see which of its code an input reaches, in the build that has them.
function(beamwright_fuzzed target)
  if(BEAMWRIGHT_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# beamwright_library(NAME [ALONE] DEPS... [EXCEPT FILE...]): every .cc of the folder, in groups unless ALONE.
function(beamwright_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE;EACH" "" "EXCEPT")
  beamwright_prefer_archives()
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  foreach(file ${arg_EXCEPT})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC beamwright_flags ${arg_UNPARSED_ARGUMENTS})
    if(NOT arg_ALONE)
      beamwright_group(${name} ${sources})
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE beamwright_flags ${arg_UNPARSED_ARGUMENTS})
  endif()
endfunction()

# beamwright_program(OUTPUT_NAME SOURCE... DEPS target...): an executable in build/bin.
function(beamwright_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  beamwright_prefer_archives()
  # Tests run programs under ThreadSanitizer as well.
  add_executable(${name} ${arg_SOURCES} ${BEAMWRIGHT_TEST_SOURCES})
  target_link_libraries(${name} PRIVATE beamwright_flags ${arg_DEPS})
endfunction()

# beamwright_test(NAME [ALONE] [EACH] [SUITE suite] DEPS...): one test program of every *_test.cc in the folder, its sources compiled in
# groups unless ALONE. Other .cc files of the folder are its helpers. ctest runs it in a few parts; with EACH it starts the
# program for each test case, as tests want that end servers and signal processes, but once for all cases of SUITE, whose
# common set-up takes longer than a case.
function(beamwright_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE;EACH" "SUITE" "")
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources} ${BEAMWRIGHT_TEST_SOURCES})
  target_link_libraries(${name} PRIVATE beamwright_flags GTest::gmock GTest::gtest_main
    ${arg_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_ALONE)
    beamwright_group(${name} ${sources})
  endif()
  # Tests take longer to compile than to run.
  target_compile_options(${name} PRIVATE -O1)
  # The same false alarm of g++ 12 as above, under another name where gtest's macros are inlined.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
  # Relative, as all paths that tests are compiled with: they run in the source folder, and another clone's objects
  # are the same.
  target_compile_definitions(${name} PRIVATE BEAMWRIGHT_SOURCE_DIR=".")
  if(arg_EACH)
    set(filter "*")
    if(arg_SUITE)
      set(filter "-*${arg_SUITE}.*")
      add_test(NAME ${name}.${arg_SUITE} COMMAND ${name} --gtest_brief=1 --gtest_filter=*${arg_SUITE}.*
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(${name}.${arg_SUITE} PROPERTIES TIMEOUT 900 ENVIRONMENT "${BEAMWRIGHT_TEST_ENVIRONMENT}")
    endif()
    gtest_discover_tests(${name} TEST_FILTER "${filter}" DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      PROPERTIES TIMEOUT 300 ENVIRONMENT "${BEAMWRIGHT_TEST_ENVIRONMENT}")
    return()
  endif()
  set(environment ${BEAMWRIGHT_TEST_ENVIRONMENT})
  if(BEAMWRIGHT_SANITIZE)
    # The SentencePiece module is loaded in a way that sanitizers refuse; release runs its tests.
    list(APPEND environment GTEST_FILTER=-SentencePieceCodecTest.*)
  endif()
  list(LENGTH sources count)
  math(EXPR last "${count} / 5")
  math(EXPR total "${last} + 1")
  foreach(part RANGE ${last})
    set(test ${BEAMWRIGHT_TEST_PREFIX}${name}.${part})
    add_test(NAME ${test} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES TIMEOUT 600
      ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${total};GTEST_SHARD_INDEX=${part}")
  endforeach()
endfunction()
