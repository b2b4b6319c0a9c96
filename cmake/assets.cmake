# The page of `ramet serve` (ui/dist/, built from ui/ and kept compressed) is built into the program: one source file
# whose assembler lines take the files in as they are, so that a build needs no Node and no minute of compiling. Without
# ui/dist/ the list is empty.
function(ramet_page_assets source_variable)
  set(folder ${PROJECT_SOURCE_DIR}/ui/dist)
  file(GLOB_RECURSE files RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/*)
  list(SORT files)
  set(pieces)
  set(declarations)
  set(entries)
  set(paths)
  set(number 0)
  foreach(file ${files})
    set(symbol ramet_page_asset_${number})
    string(REGEX REPLACE "\\.gz$" "" name "${file}")
    set(compressed false)
    if(file MATCHES "\\.gz$")
      set(compressed true)
    endif()
    string(APPEND pieces
           "asm(\".pushsection .rodata\\n.balign 16\\n.hidden ${symbol}\\n.global ${symbol}\\n${symbol}:\\n\"\n"
           "    \".incbin \\\"${folder}/${file}\\\"\\n\"\n"
           "    \".hidden ${symbol}_end\\n.global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.popsection\\n\");\n")
    string(APPEND declarations "extern const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND entries
           "      {\"${name}\", {${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})}, ${compressed}},\n")
    list(APPEND paths ${folder}/${file})
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
