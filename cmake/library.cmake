# The library. All sources are compiled once, as position-independent code whose names are hidden but for what
# include/ramet/ marks with RAMET_API; of the same objects are made
#
#   ramet_static, ramet_shared   what users link: libramet.a and libramet.so with the headers of include/ramet/
#   ramet_engine                 what the program, the tests and the benchmarks link: the engine with all of its headers

# What the library needs of others. HEADERS are needed to compile it, PARTS by whoever links it, too.
set(RAMET_HEADERS nlohmann_json::nlohmann_json)
set(RAMET_PARTS Threads::Threads fmt::fmt spdlog::spdlog tomlplusplus::tomlplusplus PkgConfig::HWY PkgConfig::ZSTD
    PkgConfig::URING PkgConfig::ZIP SQLite::SQLite3 ZLIB::ZLIB)
if(MPI_CXX_FOUND)
  list(APPEND RAMET_PARTS MPI::MPI_CXX)
endif()
if(DNNL_LIBRARY_FOUND)
  add_library(ramet_onednn INTERFACE IMPORTED GLOBAL)
  target_include_directories(ramet_onednn INTERFACE ${DNNL_HEADERS})
  target_link_libraries(ramet_onednn INTERFACE ${DNNL_LIBRARY} gomp)
  list(APPEND RAMET_PARTS ramet_onednn)
endif()
if(ICU_FOUND)
  list(APPEND RAMET_PARTS ICU::uc ICU::i18n)
endif()
if(CURL_FOUND)
  list(APPEND RAMET_PARTS CURL::libcurl)
endif()
if(METIS_FOUND)
  add_library(ramet_metis INTERFACE IMPORTED GLOBAL)
  target_include_directories(ramet_metis INTERFACE ${METIS_HEADERS})
  target_link_libraries(ramet_metis INTERFACE ${METIS_LIBRARY})
  list(APPEND RAMET_PARTS ramet_metis)
endif()

add_library(ramet_objects OBJECT ${RAMET_SOURCES} ${RAMET_MACHINE_PRESETS} ${RAMET_CUDA_DEVICE_FILES})
set_target_properties(ramet_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(ramet_objects PRIVATE include src)
target_link_libraries(ramet_objects PRIVATE ${RAMET_HEADERS} ${RAMET_PARTS} ${CMAKE_DL_LIBS})
if(RAMET_VERIFY)
  # Of the files that read it alone: ccache has the others for builds with and without it.
  set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/ramet/program/compile.cc ${PROJECT_SOURCE_DIR}/src/ramet/program/pass_log.cc
               APPEND PROPERTY COMPILE_DEFINITIONS RAMET_VERIFY=1)
endif()

# A library of the objects for users of the public headers.
function(ramet_library target kind)
  add_library(${target} ${kind} $<TARGET_OBJECTS:ramet_objects>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ramet)
  target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/include)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE ${RAMET_PARTS})
endfunction()

ramet_library(ramet_static STATIC)
set(RAMET_CHOSEN ramet_static)
if(RAMET_SHARED)
  ramet_library(ramet_shared SHARED)
  # While the first number of the version is 0, each second number is an interface of its own.
  set_target_properties(ramet_shared PROPERTIES VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported.map)
  # Templates of the standard library are visible whatever the compiler is told.
  target_link_options(ramet_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exported.map
                      LINKER:--no-undefined)
  if(BUILD_SHARED_LIBS)
    set(RAMET_CHOSEN ramet_shared)
  endif()
endif()
add_library(ramet::ramet ALIAS ${RAMET_CHOSEN})

add_library(ramet_engine INTERFACE)
target_include_directories(ramet_engine INTERFACE include src)
target_link_libraries(ramet_engine INTERFACE ramet_static Threads::Threads fmt::fmt spdlog::spdlog
                      nlohmann_json::nlohmann_json)
