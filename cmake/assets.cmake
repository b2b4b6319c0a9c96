# Files that are built into the library or the program: one source file whose assembler lines take the files in as they
# are, so that a build needs no minute of compiling for them.

# Sets `pieces` and `declarations` of such a source file for `files` of `folder`: PREFIX_0, PREFIX_0_end, and so on.
macro(ramet_embed prefix folder files)
  set(pieces)
  set(declarations)
  set(paths)
  set(number 0)
  foreach(file ${files})
    set(symbol ${prefix}_${number})
    string(APPEND pieces
           "asm(\".pushsection .rodata\\n.balign 16\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n\"\n"
           "    \".incbin \\\"${folder}/${file}\\\"\\n\"\n"
           "    \".hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.popsection\\n\");\n")
    string(APPEND declarations "extern const char ${symbol}[], ${symbol}_end[];\n")
    list(APPEND paths ${folder}/${file})
    math(EXPR number "${number} + 1")
  endforeach()
endmacro()

# The page of `ramet serve` (ui/dist/, built from ui/ and kept compressed), for a build that has no Node. Without
# ui/dist/ the list is empty.
function(ramet_page_assets source_variable)
  set(folder ${PROJECT_SOURCE_DIR}/ui/dist)
  file(GLOB_RECURSE files RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/*)
  list(SORT files)
  ramet_embed(ramet_page_asset ${folder} "${files}")
  set(entries)
  set(number 0)
  foreach(file ${files})
    set(symbol ramet_page_asset_${number})
    string(REGEX REPLACE "\\.gz$" "" name "${file}")
    set(compressed false)
    if(file MATCHES "\\.gz$")
      set(compressed true)
    endif()
    string(APPEND entries
           "      {\"${name}\", {${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})}, ${compressed}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/page_assets.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include <vector>

#include \"ramet/serve/assets.h\"

@pieces@
extern \"C\" {
@declarations@}

namespace ramet::serve {

std::span<const PageAsset> embedded_assets() {
  static const std::vector<PageAsset> assets = {
@entries@  };
  return assets;
}

}  // namespace ramet::serve
")
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${paths}")
  set(${source_variable} ${source} PARENT_SCOPE)
endfunction()

# Device code of NVIDIA GPUs, which is compiled when a program needs it: files that include each other by bare name.
function(ramet_cuda_device_files source_variable)
  set(folder ${PROJECT_SOURCE_DIR}/src/ramet)
  file(GLOB files RELATIVE ${folder} CONFIGURE_DEPENDS
       ${folder}/kernel/cuda/device/*.cu ${folder}/kernel/cuda/device/*.cuh ${folder}/kernel/cuda/device/*.h
       ${folder}/device/cuda/*.cu ${folder}/device/cuda/*_arguments.h)
  list(SORT files)
  ramet_embed(ramet_cuda_device_file ${folder} "${files}")
  set(entries)
  set(number 0)
  foreach(file ${files})
    set(symbol ramet_cuda_device_file_${number})
    get_filename_component(name ${file} NAME)
    string(APPEND entries "      {\"${name}\", {${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/cuda_device_files.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include \"ramet/device/cuda/device_files.h\"

#include <vector>

@pieces@
extern \"C\" {
@declarations@}

namespace ramet::device {

std::span<const CudaDeviceFile> cuda_device_files() {
  static const std::vector<CudaDeviceFile> files = {
@entries@  };
  return files;
}

}  // namespace ramet::device
")
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${paths}")
  set(${source_variable} ${source} PARENT_SCOPE)
endfunction()
