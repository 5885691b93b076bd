# Programs that run on other distributions: of shared libraries only the C library's and libgcc_s are left, and OpenMP's
# for libbeamwright.so, into which its archive cannot go. Archives of BEAMWRIGHT_PORTABLE/lib go first, then those of the
# distribution.
set(BEAMWRIGHT_PORTABLE_LIBRARIES ${BEAMWRIGHT_PORTABLE}/lib)

# beamwright_archive(OUT LIBRARY): the archive in place of a shared library; the library itself where no archive exists or
# where it is the C library's.
function(beamwright_archive out library)
  set(${out} ${library} PARENT_SCOPE)
  if(library MATCHES "^-lre2$")  # as gRPC's package file says it
    set(${out} -l:libre2.a PARENT_SCOPE)
    return()
  endif()
  if(library MATCHES "/lib(c|m|dl|rt|pthread)\\.so" OR NOT library MATCHES "^(.*)/lib([^/]+)\\.so[.0-9]*$")
    return()
  endif()
  foreach(folder ${BEAMWRIGHT_PORTABLE_LIBRARIES} ${CMAKE_MATCH_1})
    set(archive ${folder}/lib${CMAKE_MATCH_2}.a)
    if(EXISTS ${archive})
      if(CMAKE_MATCH_2 STREQUAL gomp)
        set(archive $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>,${library},${archive}>)
      endif()
      set(${out} ${archive} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

function(beamwright_archives_of target)
  foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE INTERFACE_LINK_LIBRARIES)
    get_target_property(libraries ${target} ${property})
    if(NOT libraries)
      continue()
    endif()
    set(archives "")
    foreach(library ${libraries})
      beamwright_archive(archive ${library})
      list(APPEND archives ${archive})
    endforeach()
    set_target_properties(${target} PROPERTIES ${property} "${archives}")
  endforeach()
endfunction()

# For all imported targets that the calling folder sees.
function(beamwright_link_archives)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "EXECUTABLE")
      beamwright_archives_of(${target})
    endif()
  endforeach()
endfunction()

# What archives need of one another is not said in any order: a group is searched until nothing is missing.
file(GLOB abseil ${BEAMWRIGHT_PORTABLE_LIBRARIES}/libabsl_*.a)
add_library(beamwright_portable STATIC ${PROJECT_SOURCE_DIR}/deploy/portable/arc4random.c
  ${PROJECT_SOURCE_DIR}/deploy/portable/stderr.c)
string(JOIN " " group ${abseil} ${PROJECT_BINARY_DIR}/libbeamwright_portable.a
  -Wl,-Bstatic -lgrpc -lgpr -laddress_sorting -lupb -lre2 -lcares -lspdlog -lfmt -lssl -lcrypto -lz
  -lbrotlienc -lbrotlidec -lbrotlicommon -Wl,-Bdynamic)
set(CMAKE_CXX_LINK_EXECUTABLE
  "<CMAKE_CXX_COMPILER> <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> -Wl,-Map=<TARGET>.map \
-L${BEAMWRIGHT_PORTABLE_LIBRARIES} -Wl,--start-group <LINK_LIBRARIES> ${group} -Wl,--end-group")
string(JOIN " " shared_group ${abseil} ${PROJECT_BINARY_DIR}/libbeamwright_portable.a
  -Wl,-Bstatic -lcrypto -lz -Wl,-Bdynamic)
set(CMAKE_CXX_CREATE_SHARED_LIBRARY
  "<CMAKE_CXX_COMPILER> <CMAKE_SHARED_LIBRARY_CXX_FLAGS> <LANGUAGE_COMPILE_FLAGS> <LINK_FLAGS> \
<CMAKE_SHARED_LIBRARY_CREATE_CXX_FLAGS> <SONAME_FLAG><TARGET_SONAME> -o <TARGET> <OBJECTS> -Wl,-Map=<TARGET>.map \
-L${BEAMWRIGHT_PORTABLE_LIBRARIES} -Wl,--start-group <LINK_LIBRARIES> ${shared_group} -Wl,--end-group")
link_libraries(beamwright_portable)
# libstdc++ asks for arc4random last, behind the group: ours is taken before.
add_link_options(-Wl,-u,arc4random,-u,arc4random_buf -static-libstdc++ -Wl,--gc-sections -Wl,--exclude-libs,ALL)
