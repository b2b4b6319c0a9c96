// Printed maps through NVIDIA's compiler, which needs no card: what the examples' maps take of one.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/device/cuda/nvrtc.h"
#include "ramet/kernel/cuda/cuda.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/recipe/prepare.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

/// "" or why nothing can be compiled here.
std::string missing_compiler() {
  try {
    device::nvrtc_identity();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// NVIDIA's cuobjdump: RAMET_CUOBJDUMP, or where programs are; "" where it is not.
std::string object_dump() {
  const char* named = std::getenv("RAMET_CUOBJDUMP");
  const std::string program = named ? named : "cuobjdump";
  return std::system((program + " --version > /dev/null 2>&1").c_str()) == 0 ? program : "";
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t read; (read = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), read);
  pclose(pipe);
  return text;
}

/// The number behind `name` in a line of cuobjdump's resource usage.
int figure(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + ":");
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + name.size() + 1);
}

struct Found {
  std::string example, node;
  CudaSource source;
};

/// The distinct kernels of the maps of an example, as the class `hopper` compiles it.
void find_maps(const std::string& example, std::map<std::string, Found>* found, int* nodes) {
  const auto preparation = recipe::prepare(recipe::load_recipe(RAMET_SOURCE_DIR "/examples/" + example + ".toml"));
  const auto compiled = recipe::compile_recipe(preparation, {.threads = 1, .device = "hopper-host"});
  for (const program::Executable& stage : compiled.stages)
    for (const program::Call& call : stage.calls) {
      if (call.node.op->name != "map" && call.node.op->map_op.empty()) continue;
      const program::KernelChoice choice = cuda_backend().choose(call.node, 1);
      EXPECT_EQ(choice.name, "cuda") << example << ": " << call.node.text();
      if (choice.name != "cuda") continue;
      ++*nodes;
      for (CudaSource& source : kernel::cuda::map_sources(call.node)) {
        std::string key = source.text;
        for (const std::string& definition : source.definitions) key += definition;
        found->try_emplace(key, Found{example, call.node.text(), std::move(source)});
      }
    }
}

/// Whether the text loads 16 bytes or more at once of an input that lies as the space.
bool loads_wide(const CudaSource& source) {
  const auto has = [&](const std::string& text) { return source.text.find(text) != std::string::npos; };
  return (has("kPack = 8;") && (has("load_pack<BF16") || has("load_pack<F16"))) ||
         ((has("kPack = 4;") || has("kPack = 8;")) && has("load_pack<F32"));
}

TEST(MapCode, TheExamplesSpillNothing) {
  if (const std::string missing = missing_compiler(); !missing.empty()) GTEST_SKIP() << missing;
  const std::string dump = object_dump();
  if (dump.empty()) GTEST_SKIP() << "there is no cuobjdump (RAMET_CUOBJDUMP names one)";
  const TemporaryFolder folder;
  std::map<std::string, Found> found;
  for (const char* example : {"bert-large", "bert-mini", "bert-mini-unit-f8", "gpt2-1.5b", "gpt2-mini"}) {
    const size_t before = found.size();
    int nodes = 0;
    find_maps(example, &found, &nodes);
    std::printf("%s: %d maps, %zu further kernels\n", example, nodes, found.size() - before);
  }
  int most_registers = 0, wide = 0;
  for (const auto& [key, one] : found) {
    SCOPED_TRACE(one.example + ": " + one.node + "\n" + one.source.text);
    const std::filesystem::path path = folder.path() / "map.cubin";
    std::ofstream(path, std::ios::binary) << device::compile_cubin(one.source);
    const std::string usage = output_of(dump + " --dump-resource-usage " + path.string() + " 2>&1");
    const int registers = figure(usage, "REG");
    EXPECT_GT(registers, 0) << usage;
    EXPECT_LE(registers, 128) << usage;
    EXPECT_EQ(figure(usage, "STACK"), 0) << usage;
    EXPECT_EQ(figure(usage, "LOCAL"), 0) << usage;
    most_registers = std::max(most_registers, registers);
    if (!loads_wide(one.source)) continue;
    ++wide;
    EXPECT_NE(output_of(dump + " -sass " + path.string()).find("LDG.E.128"), std::string::npos);
  }
  std::printf("%zu kernels, at most %d registers, %d that load 16 bytes at once\n", found.size(), most_registers, wide);
}

}  // namespace
}  // namespace ramet::tests
