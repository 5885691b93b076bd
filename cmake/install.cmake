# `cmake --install`: the programs, the C++ client as one archive with its headers and protos, the C library for decoding in
# process with its header, files for find_package and pkg-config, the default model, completion for bash, zsh and fish, licence
# and documentation. With --strip, programs without symbols.
include(GNUInstallDirs)

set(client_parts beamwright_client beamwright_grpc beamwright_proto ops_base)
list(TRANSFORM client_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE client_objects)
add_library(beamwright_client_archive STATIC ${client_objects})
set_target_properties(beamwright_client_archive PROPERTIES OUTPUT_NAME beamwright_client LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

install(TARGETS beamwright-server beamwright beamwright-graph RUNTIME COMPONENT programs)
# Where the server looks for it, from its own folder.
install(TARGETS beamwright_sentencepiece LIBRARY DESTINATION lib/beamwright COMPONENT programs)
install(DIRECTORY models/g2p-en/1 DESTINATION ${CMAKE_INSTALL_DATADIR}/beamwright/models/g2p-en COMPONENT programs)
foreach(program beamwright beamwright-server beamwright-graph)
  install(FILES deploy/completion/beamwright.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
  install(FILES deploy/completion/beamwright.fish RENAME ${program}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT programs)
endforeach()
install(FILES deploy/completion/_beamwright DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
  COMPONENT programs)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)

install(FILES ${PROJECT_BINARY_DIR}/lib/libbeamwright_client.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client)
install(FILES include/beamwright/client.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/beamwright COMPONENT client)
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/generated/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/beamwright
  COMPONENT client FILES_MATCHING PATTERN "*.pb.h" PATTERN inference EXCLUDE PATTERN opentelemetry EXCLUDE
  PATTERN xds EXCLUDE)
install(DIRECTORY proto/beamwright proto/google proto/grpc
  DESTINATION ${CMAKE_INSTALL_DATADIR}/beamwright/proto COMPONENT client FILES_MATCHING PATTERN "*.proto")

install(TARGETS beamwright_engine LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library)
install(FILES include/beamwright/beamwright.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/beamwright COMPONENT library)

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/beamwright-config.cmake.in ${PROJECT_BINARY_DIR}/beamwright-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/beamwright
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/beamwright-config-version.cmake
  COMPATIBILITY SameMinorVersion)
foreach(component client library)
  install(FILES ${PROJECT_BINARY_DIR}/beamwright-config.cmake ${PROJECT_BINARY_DIR}/beamwright-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/beamwright COMPONENT ${component})
endforeach()
file(RELATIVE_PATH include_from_pkgconfig
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/beamwright-client.pc.in ${PROJECT_BINARY_DIR}/beamwright-client.pc @ONLY)
configure_file(cmake/beamwright.pc.in ${PROJECT_BINARY_DIR}/beamwright.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/beamwright-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT client)
install(FILES ${PROJECT_BINARY_DIR}/beamwright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
