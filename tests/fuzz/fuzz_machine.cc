#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/machine/machine_toml.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(machine, std::string_view input) {
  const std::string printed = print_machine(parse_machine(input, "fuzz.toml"));
  if (print_machine(parse_machine(printed, "printed.toml")) != printed)
    internal_error("machine", "a machine does not survive printing and parsing");
}

RAMET_FUZZ_SEEDS(machine) {
  std::vector<std::string> inputs = {
      "name = \"m\"\ndevices = 1\n[device]\nmodel = \"cores\"\nunits = 1\nclock = 1e9\noperations_per_cycle = { f32 = "
      "1 "
      "}\n[memory.device]\nbytes = \"1 GiB\"\nread = 1e9\nwrite = 1e9\n[tasks]\n\"a.b\" = 1.5\n"};
  for (const MachinePreset& preset : machine_presets()) inputs.emplace_back(preset.text);
  return {.inputs = inputs,
          .words = {"[[links]]\n",
                    "[device.tiles]\n",
                    "[[device.efficiency]]\n",
                    "topology = ",
                    "\"ring\"",
                    "inf",
                    "nan",
                    "-1",
                    "1e400",
                    "9223372036854775807",
                    "{ value = ",
                    ", spread = ",
                    "source = \"",
                    "group = ",
                    "base = \"ipu-pod64\"\n",
                    "base = [\"bow-2000\", \"h200\"]\n",
                    "\"16 GiB\"",
                    "share = ",
                    "[memory.disk]\n",
                    "\\u0000",
                    "total = ",
                    "devices = "}};
}
