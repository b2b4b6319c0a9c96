# What `cmake --install` puts into a prefix: the public headers, the libraries, the program, and what finds them
# (find_package(ramet), pkg-config).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(DIRECTORY include/ramet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS ramet_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ramet_shared)
  install(TARGETS ramet_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET ramet_cli)
  install(TARGETS ramet_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET ramet_rdkit)
  install(TARGETS ramet_rdkit LIBRARY DESTINATION lib/ramet)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Libraries that whoever links libramet.a links, too, by the names that linkers know; and the Debian packages that
# bring them, for messages. gomp comes with the compiler.
set(RAMET_STATIC_NEEDS fmt:libfmt-dev spdlog:libspdlog-dev tomlplusplus:libtomlplusplus-dev hwy:libhwy-dev
    zstd:libzstd-dev uring:liburing-dev zip:libzip-dev sqlite3:libsqlite3-dev z:zlib1g-dev)
if(DNNL_LIBRARY_FOUND)
  list(APPEND RAMET_STATIC_NEEDS dnnl:libdnnl-dev)
endif()
if(ICU_FOUND)
  list(APPEND RAMET_STATIC_NEEDS icui18n:libicu-dev icuuc:libicu-dev)
endif()
if(CURL_FOUND)
  list(APPEND RAMET_STATIC_NEEDS curl:libcurl4-openssl-dev)
endif()
if(METIS_FOUND)
  list(APPEND RAMET_STATIC_NEEDS metis:libmetis-dev)
endif()
if(MPI_CXX_FOUND)
  list(APPEND RAMET_STATIC_NEEDS mpi:libopenmpi-dev)
endif()
set(RAMET_PRIVATE_LIBS "${RAMET_STATIC_NEEDS}")
list(TRANSFORM RAMET_PRIVATE_LIBS REPLACE "^([^:]+):.*" "-l\\1")
list(APPEND RAMET_PRIVATE_LIBS -lgomp -lpthread -lstdc++)
list(JOIN RAMET_PRIVATE_LIBS " " RAMET_PRIVATE_LIBS)

set(RAMET_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/ramet)
configure_package_config_file(cmake/ramet-config.cmake.in ramet-config.cmake INSTALL_DESTINATION ${RAMET_CMAKE_DIR}
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(ramet-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ramet-config.cmake ${PROJECT_BINARY_DIR}/ramet-config-version.cmake
        DESTINATION ${RAMET_CMAKE_DIR})

# Relative to the place of ramet.pc, so that the prefix may be moved.
file(RELATIVE_PATH RAMET_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" RAMET_PC_PREFIX "${RAMET_PC_PREFIX}")
configure_file(cmake/ramet.pc.in ramet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ramet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
