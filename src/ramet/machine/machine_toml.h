#pragma once

#include <string>
#include <string_view>

#include "ramet/machine/machine.h"

namespace ramet::machine {

/// Reads and checks a machine file (docs/machines.md). `source` names it in errors: figures that are missing, negative,
/// out of range or contradict each other, and unknown keys (with the nearest known one).
Machine parse_machine(std::string_view text, const std::string& source);

/// A preset by its name, or a file that ends in ".toml". Throws Error naming the presets.
Machine load_machine(const std::string& preset_or_file);

/// As a machine file that parse_machine reads back to the same machine.
std::string print_machine(const Machine& machine);

/// Throws Error when figures contradict each other. parse_machine has done it.
void validate(const Machine& machine, const std::string& source);

/// The machines that are built in: machines/*.toml, as name and text.
struct MachinePreset {
  const char* name;
  const char* text;
};
const std::vector<MachinePreset>& machine_presets();

}  // namespace ramet::machine
