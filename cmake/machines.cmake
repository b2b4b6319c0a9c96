# The machine files of machines/ are built into the library: one source file that holds them all, written when one of
# them has changed.
function(ramet_machine_presets source_variable)
  file(GLOB presets CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/machines/*.toml)
  list(SORT presets)
  set(entries)
  foreach(preset ${presets})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${preset})
    get_filename_component(name ${preset} NAME_WE)
    file(READ ${preset} text)
    string(APPEND entries "      {\"${name}\", R\"ramet_toml(${text})ramet_toml\"},\n")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/machine_presets.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include \"ramet/machine/machine_toml.h\"

namespace ramet::machine {

const std::vector<MachinePreset>& machine_presets() {
  static const std::vector<MachinePreset> presets = {
@entries@  };
  return presets;
}

}  // namespace ramet::machine
")
  set(${source_variable} ${source} PARENT_SCOPE)
endfunction()
