#include "ramet/machine/machine_toml.h"

#include <gtest/gtest.h>

#include <fstream>

#include "ramet/base/error.h"
#include "ramet/base/toml.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/machine_keys.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

const std::string kSmall = R"(name = "two"
devices = 2
watts = 10

[device]
model = "cores"
units = 4
clock = { value = 2e9, source = "a stopwatch", spread = 0.1 }
overhead = 1e-6
operations_per_cycle = { f32 = 16, bf16 = 64 }

[[device.caches]]
name = "L1"
bytes = "32 KiB"
bandwidth = 1e12

[[device.caches]]
name = "L2"
bytes = "1 MiB"
bandwidth = 5e11

[[device.efficiency]]
op = "matmul"
dtype = "bf16"
size = 1e6
share = 0.2

[[device.efficiency]]
op = "matmul"
dtype = "bf16"
size = 1e8
share = 0.8

[memory.device]
bytes = "1 GiB"
read = 1e10
write = 1e10
total = 1.5e10

[memory.streaming]
bytes = "16 GiB"
devices = 2
read = 1e9
write = 1e9

[[links]]
name = "wire"
topology = "ring"
group = 2
links = 3
bandwidth = 1e9
latency = 1e-6
)";

std::string replaced(const std::string& from, const std::string& to, std::string text = kSmall) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string fault_of(const std::string& text) {
  try {
    parse_machine(text, "m.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no fault";
}

std::string preset_list() {
  std::string list;
  const auto& presets = machine_presets();
  for (size_t i = 0; i < presets.size(); ++i)
    list += (i == 0 ? "" : i + 1 == presets.size() ? " or " : ", ") + std::string(presets[i].name);
  return list;
}

TEST(MachineFile, IsReadWhole) {
  const Machine machine = parse_machine(kSmall, "m.toml");
  EXPECT_EQ(machine.name, "two");
  EXPECT_EQ(machine.devices, 2);
  EXPECT_EQ(machine.device.units, 4);
  EXPECT_DOUBLE_EQ(machine.device.peak(DType::kF32), 4 * 2e9 * 16);
  EXPECT_DOUBLE_EQ(machine.device.peak(DType::kBF16), 4 * 2e9 * 64);
  EXPECT_DOUBLE_EQ(machine.device.peak(DType::kF16), machine.device.peak(DType::kF32)) << "no rate of its own";
  EXPECT_EQ(machine.device.caches.at(1).bytes, 1 << 20);
  EXPECT_EQ(machine.bandwidth(), 1.5e10);
  EXPECT_EQ(machine.memory(MemoryRole::kStreaming)->total, 4e9) << "two devices, both ways";
  EXPECT_EQ(machine.memory(MemoryRole::kDisk), nullptr);
  EXPECT_EQ(machine.links.at(0).topology, Topology::kRing);
  EXPECT_EQ(machine.links.at(0).links, 3);
  EXPECT_EQ(machine.notes.at("device.clock").source, "a stopwatch");
  EXPECT_EQ(machine.notes.at("device.clock").spread, 0.1);
}

TEST(MachineFile, IsPrintedAndReadBack) {
  std::vector<std::string> texts = {kSmall, kSmall + "[tasks]\n\"conv \\\"x\\\" \\u007f 1.5\" = 0.25\n"};
  for (const MachinePreset& preset : machine_presets()) texts.emplace_back(preset.text);
  for (const std::string& text : texts) {
    const std::string printed = print_machine(parse_machine(text, "m.toml"));
    EXPECT_EQ(print_machine(parse_machine(printed, "printed.toml")), printed);
  }
}

TEST(MachineFile, SharesAreInterpolatedOverTheLogarithm) {
  const DeviceKind device = parse_machine(kSmall, "m.toml").device;
  EXPECT_DOUBLE_EQ(share_of_peak(device, "matmul", "bf16", "any", 1e7), 0.5);
  EXPECT_DOUBLE_EQ(share_of_peak(device, "matmul", "bf16", "deep", 1e7), 0.5) << "no table of its own";
  EXPECT_DOUBLE_EQ(share_of_peak(device, "matmul", "bf16", "any", 1e3), 0.2);
  EXPECT_DOUBLE_EQ(share_of_peak(device, "matmul", "bf16", "any", 1e12), 0.8);
  EXPECT_DOUBLE_EQ(share_of_peak(device, "matmul", "f32", "any", 1e12), 1);
}

TEST(MachineFile, BuildsOnPresets) {
  const Machine machine = parse_machine(
      "base = \"ipu-pod64\"\nname = \"mine\"\n[device]\nclock = 1e9\n[memory.streaming]\nbytes = \"16 GB\"\n",
      "m.toml");
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.devices, 64);
  EXPECT_EQ(machine.device.clock, 1e9);
  EXPECT_EQ(machine.device.units, 1472);
  EXPECT_EQ(machine.memory(MemoryRole::kStreaming)->bytes, 16'000'000'000);
  EXPECT_EQ(machine.memory(MemoryRole::kStreaming)->read, 15.75e9);
  EXPECT_EQ(machine.notes.count("device.clock"), 0u) << "another figure has another source";
  const Machine bow = load_machine("bow-pod256"), pod = load_machine("ipu-pod256");
  EXPECT_EQ(bow.devices, 256);
  EXPECT_EQ(bow.device.clock, 1.85e9);
  EXPECT_EQ(bow.links.size(), pod.links.size());
  EXPECT_EQ(fault_of("base = \"ipu-pod65\"\n"),
            "m.toml:1 base: unknown machine 'ipu-pod65'; expected perhaps 'ipu-pod64'. Machines are " + preset_list());
  EXPECT_EQ(
      fault_of("base = 3\n"),
      "m.toml:1 base: wrong kind of value; found 3; expected the name of a preset in quotes, or a list of up to 8");
  EXPECT_EQ(fault_of("base = \"ipu-m2000\"\ndevices = 8\n"),
            "m.toml links: figures contradict each other; found groups that join 4 devices; expected as many as the "
            "machine has, 8");
}

struct Fault {
  std::string from, to, message;
};

class MachineFaults : public testing::TestWithParam<Fault> {};

TEST_P(MachineFaults, AreNamed) { EXPECT_EQ(fault_of(replaced(GetParam().from, GetParam().to)), GetParam().message); }

const std::string kRemedy = ". docs/machines.md documents every key";

INSTANTIATE_TEST_SUITE_P(
    OneEach, MachineFaults,
    testing::Values(
        Fault{"clock = { value = 2e9, source = \"a stopwatch\", spread = 0.1 }", "",
              "m.toml:5 device.clock: missing figure; expected cycles a second" + kRemedy},
        Fault{"name = \"two\"", "", "m.toml:1 name: missing figure; expected what reports call the machine" + kRemedy},
        Fault{"name = \"two\"", "name = \"\"",
              "m.toml:1 name: empty text; found ''; expected what reports call the machine"},
        Fault{"value = 2e9, ", "", "m.toml:8 device.clock.value: missing figure" + kRemedy},
        Fault{"units = 4", "units = -4",
              "m.toml:7 device.units: negative figure; found -4; expected a whole number from 1 to 1048576"},
        Fault{"units = 4", "units = 0",
              "m.toml:7 device.units: figure out of range; found 0; expected a whole number from 1 to 1048576"},
        Fault{"units = 4", "units = 4.5",
              "m.toml:7 device.units: wrong kind of value; found 4.5; expected a whole number from 1 to 1048576"},
        Fault{"value = 2e9", "value = inf",
              "m.toml:8 device.clock: not a finite number; found inf; expected a number from 1000000 to 100000000000"},
        Fault{"share = 0.2", "share = 1.2",
              "m.toml:26 device.efficiency.0.share: figure out of range; found 1.2; expected a number from 1e-09 to 1"},
        Fault{"clock =", "clok =", "m.toml:8 device: unknown key 'clok'; expected perhaps 'clock'" + kRemedy},
        Fault{"[memory.streaming]", "[memory.stream]",
              "m.toml:40 memory: unknown key 'stream'; expected perhaps 'streaming'" + kRemedy},
        Fault{"watts = 10", "wheels = 10", "m.toml:3: unknown key 'wheels'" + kRemedy},
        Fault{"source = \"a stopwatch\"", "sauce = \"a stopwatch\"",
              "m.toml:8 device.clock: unknown key 'sauce'; expected perhaps 'source'" + kRemedy},
        Fault{"bf16 = 64", "fp16 = 64",
              "m.toml:10 device.operations_per_cycle: unknown key 'fp16'; expected perhaps 'f16'" + kRemedy},
        Fault{"f32 = 16, ", "",
              "m.toml device.operations_per_cycle.f32: missing figure; expected the rate of f32, in which all that has "
              "no rate of its own is computed"},
        Fault{"model = \"cores\"", "model = \"corn\"",
              "m.toml:6 device.model: unknown word; found 'corn'; expected cores or tiles"},
        Fault{"model = \"cores\"", "model = \"tiles\"", "m.toml:5 device.tiles: missing table" + kRemedy},
        Fault{"topology = \"ring\"", "topology = \"mesh\"",
              "m.toml:48 links.0.topology: unknown word; found 'mesh'; expected ladder, ring, torus, fat-tree, "
              "all-to-all or host-gateway"},
        Fault{"topology = \"ring\"", "",
              "m.toml:46 links.0.topology: missing figure; expected ladder, ring, torus, fat-tree, all-to-all or "
              "host-gateway" +
                  kRemedy},
        Fault{"topology = \"ring\"", "topology = \"torus\"",
              "m.toml links.0.group: a torus of a line; found 2; expected 4 or more; ring or ladder for fewer"},
        Fault{"op = \"matmul\"", "op = \"matmull\"",
              "m.toml:22 device.efficiency.0.op: unknown word; found 'matmull'; expected matmul or gather"},
        Fault{"dtype = \"bf16\"", "dtype = \"f8e4m3\"",
              "m.toml:22 device.efficiency.0.dtype: unknown word; found 'f8e4m3'; expected any, bf16 or f32"},
        Fault{"size = 1e8", "size = 1e6",
              "m.toml device.efficiency.1: two shares of one size; expected one entry for each op, dtype, shape and "
              "size"},
        Fault{"bytes = \"32 KiB\"", "bytes = \"32 KBit\"",
              "m.toml:14 device.caches.0.bytes: not a size; found '32 KBit'; expected bytes from 1 to 1e+18, as a "
              "number or a size as \"16 GiB\""},
        Fault{"bytes = \"32 KiB\"", "bytes = \"32 MiB\"",
              "m.toml device.caches.1.bytes: an outer cache is no larger; found 1.00 MiB; expected more than the 32.00 "
              "MiB of L1"},
        Fault{"bandwidth = 5e11", "bandwidth = 5e12",
              "m.toml device.caches.1.bandwidth: an outer cache is faster; found 4.55 TiB/s; expected at most the "
              "931.32 GiB/s of L1"},
        Fault{"total = 1.5e10", "total = 0.5e10",
              "m.toml memory.device.total: figures contradict each other; found 4.66 GiB/s; expected at least what one "
              "device alone reads or writes, 9.31 GiB/s"},
        Fault{"total = 1.5e10", "total = 2.5e10",
              "m.toml memory.device.total: figures contradict each other; found 23.28 GiB/s; expected at most what its "
              "devices read and write alone, 18.63 GiB/s"},
        Fault{"read = 1e9", "read = 1e11",
              "m.toml memory.streaming: a memory beside the device is faster than its own; found 93.13 GiB/s; expected "
              "at most 13.97 GiB/s"},
        Fault{"devices = 2\nread", "devices = 3\nread",
              "m.toml memory.streaming.devices: devices cannot share it equally; found 3; expected a divisor of the "
              "machine's 2 devices"},
        Fault{"devices = 2\nwatts", "devices = 12\nwatts",
              "m.toml links: figures contradict each other; found groups that join 2 devices; expected as many as the "
              "machine has, 12"},
        Fault{"[[links]]", "[links]", "m.toml:46 links: wrong kind of value; found a table; expected a list of tables"},
        Fault{"[device]", "[device", "m.toml:5: not TOML: Error while parsing table header: expected ']', saw '\\n'"}),
    [](const auto& info) { return std::to_string(info.index); });

TEST(MachineFile, NeedsDeviceMemoryLinksAndNoTilesOfCores) {
  const size_t memory = kSmall.find("[memory.device]"), streaming = kSmall.find("[memory.streaming]");
  EXPECT_EQ(fault_of(kSmall.substr(0, memory) + kSmall.substr(streaming)),
            "m.toml:34 memory.device: missing table" + kRemedy);
  EXPECT_EQ(fault_of(kSmall.substr(0, kSmall.find("[[links]]"))),
            "m.toml links: devices without links; found groups that join 1 device; expected as many as the machine "
            "has, 2");
  EXPECT_EQ(fault_of(kSmall + "[device.tiles]\nworkers = 3\n"),
            "m.toml:53 device.tiles: cores have no tiles; found a table; expected device.model = \"tiles\", or no such "
            "table");
  EXPECT_EQ(fault_of("name = " + std::string(300, '.') + "\n"), "m.toml:1: too many dots in a line");
}

TEST(MachineFile, TilesAndTheirMemoryAgree) {
  const Machine pod = load_machine("ipu-pod16");
  EXPECT_EQ(pod.memory(MemoryRole::kDevice)->bytes, 1472 * pod.device.tiles.memory);
  EXPECT_EQ(
      fault_of(replaced("940572672", "940572671", print_machine(pod))),
      "m.toml memory.device.bytes: figures contradict each other; found 897.00 MiB; expected 1472 tiles of 624.00 "
      "KiB, which are 940572672 bytes");
  EXPECT_EQ(
      fault_of(replaced("f16 = 128", "f16 = 64", print_machine(pod))),
      "m.toml device.operations_per_cycle.f16: figures contradict each other; found 64.000000; expected twice the "
      "multiply-adds of device.tiles");
}

TEST(MachineNames, ArePresetsOrFiles) {
  try {
    load_machine("ipu-pod61");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("unknown machine 'ipu-pod61'; expected perhaps 'ipu-pod64'"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(load_machine("no-such-folder/m.toml"), Error);
}

/// All keys of a file at which a figure stands, by the same names as Machine::notes.
void figures_of(const toml::table& table, const std::string& path, std::vector<std::string>& found) {
  for (const auto& [name, node] : table) {
    const std::string key = (path.empty() ? "" : path + ".") + std::string(name.str());
    if (node.is_number() || (name.str() == "bytes" && node.is_string())) found.push_back(key);
    if (const auto* inner = node.as_table()) {
      if (inner->contains("value"))
        found.push_back(key);
      else
        figures_of(*inner, key, found);
    }
    if (const auto* list = node.as_array())
      for (size_t i = 0; i < list->size(); ++i)
        if (const auto* inner = (*list)[i].as_table()) figures_of(*inner, key + "." + std::to_string(i), found);
  }
}

/// Counts that are no measurement: how many devices share or are joined.
bool is_count(const std::string& key) {
  const std::string leaf = key.substr(key.rfind('.') + 1);
  return leaf == "devices" || leaf == "group";
}

TEST(Presets, GiveTheSourceOfEveryFigure) {
  std::vector<std::string> names;
  for (const MachinePreset& preset : machine_presets()) names.emplace_back(preset.name);
  EXPECT_EQ(names, (std::vector<std::string>{"bow-2000", "bow-pod128", "bow-pod16", "bow-pod256", "bow-pod64",
                                             "dgx-a100", "dgx-h100", "h100", "h200-x8", "h200", "ipu-m2000",
                                             "ipu-pod128", "ipu-pod16", "ipu-pod256", "ipu-pod64"}));
  for (const MachinePreset& preset : machine_presets()) {
    SCOPED_TRACE(preset.name);
    const Machine machine = load_machine(preset.name);
    EXPECT_EQ(machine.name, preset.name);
    EXPECT_GT(machine.watts, 0);
    std::vector<std::string> figures;
    figures_of(toml::parse(preset.text), "", figures);
    for (const std::string& key : figures) {
      if (is_count(key)) continue;
      const auto own = machine.notes.find(key),
                 table = machine.notes.find(key.substr(0, std::max<size_t>(key.rfind('.'), 0)));
      EXPECT_TRUE((own != machine.notes.end() && !own->second.source.empty()) ||
                  (table != machine.notes.end() && !table->second.source.empty()))
          << key;
    }
  }
}

/// What data sheets say of whole machines follows from the figures.
TEST(Presets, HaveTheirPublishedPeaks) {
  const Machine pod = load_machine("ipu-pod16"), bow = load_machine("bow-pod256"), a100 = load_machine("dgx-a100"),
                h200 = load_machine("h200-x8");
  EXPECT_NEAR(pod.device.peak(DType::kF16) * 64, 15.978e15, 0.001e15);
  EXPECT_NEAR(pod.device.peak(DType::kF32) * 64, 3.994e15, 0.001e15);
  EXPECT_NEAR(bow.device.peak(DType::kF16) * 256, 89.23e15, 0.02e15);
  EXPECT_NEAR(bow.device.peak(DType::kF32) * 256, 22.31e15, 0.01e15);
  EXPECT_NEAR(a100.device.peak(DType::kBF16), 312e12, 0.5e12);
  EXPECT_NEAR(a100.device.peak(DType::kF32), 19.5e12, 0.1e12);
  EXPECT_NEAR(h200.device.peak(DType::kF16), 989e12, 2e12);
}

TEST(MachineHelp, NamesEveryKey) {
  const std::string help = machine_help();
  for (const char* key : {"clock*", "exchange_bytes*", "latency*", "share*", "[memory.streaming]", "host-gateway"})
    EXPECT_NE(help.find(key), std::string::npos) << key;
}

}  // namespace
}  // namespace ramet::tests
