#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "ramet/base/file.h"
#include "ramet/device/cuda/code.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/test_card.h"

// What the kernels of two small models take of a card: registers, local memory, shared memory. The true compiler
// (NVRTC) compiles for sm_90a without a card, and the fake driver reads what it made. tests/samples/cuda/resources.txt
// is the expected table; RAMET_WRITE_SAMPLES=1 writes it anew.

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;

/// The true compiler's library; "" where there is none.
std::string true_compiler() {
  if (const char* named = std::getenv("RAMET_NVRTC_REAL")) return named;
  std::error_code ignored;
  for (const fs::path& python : fs::directory_iterator(RAMET_SOURCE_DIR "/.venv/lib", ignored)) {
    const fs::path library = python / "site-packages/nvidia/cu13/lib/libnvrtc.so.13";
    if (fs::exists(library)) return library.string();
  }
  for (const char* library : {"/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12"})
    if (fs::exists(library)) return library;
  return "";
}

/// "13.0"; "" where the library does not say.
std::string version_of(const std::string& compiler) {
  void* library = dlopen(compiler.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* ask = library ? reinterpret_cast<int (*)(int*, int*)>(dlsym(library, "nvrtcVersion")) : nullptr;
  int major = 0, minor = 0;
  return ask && ask(&major, &minor) == 0 ? std::to_string(major) + "." + std::to_string(minor) : "";
}
constexpr const char* kTableVersion = "13.0";  // of the compiler that tests/samples/cuda/resources.txt is from

/// A line a kernel, sorted; the same kernel stands once.
std::string table() {
  std::set<std::string> lines;
  for (const LoadedFunction& each : loaded_functions()) {
    char line[400];
    std::snprintf(line, sizeof(line), "%s | %s | %d | %lld | %lld\n", each.source.c_str(), each.name.c_str(),
                  each.registers, static_cast<long long>(each.local_bytes), static_cast<long long>(each.shared_bytes));
    lines.insert(line);
  }
  std::string text = "source | kernel | registers | local bytes | shared bytes\n";
  for (const std::string& line : lines) text += line;
  return text;
}

/// Makes all kernels of a training; nothing runs.
void make_kernels(const std::string& example) {
  const std::vector<std::string> settings = {"train.micro_batch=2"};
  const Recipe recipe = load_recipe(fs::path(RAMET_SOURCE_DIR) / "examples" / example, settings);
  make_training(prepare(recipe), {.threads = 1, .device = "cuda"});
}

[[noreturn]] void print_table(const std::string& compiler) {
  setenv("RAMET_NVRTC", compiler.c_str(), 1);
  setenv("RAMET_FAKE_CUDA_MEMORY", "34359738368", 1);
  std::string text;
  try {
    for (const char* example : {"bert-mini.toml", "gpt2-mini.toml"}) make_kernels(example);
    text = table();
  } catch (const std::exception& error) {
    text = std::string("failed: ") + error.what();
  }
  std::fprintf(stderr, "%s", text.c_str());
  std::fflush(stderr);
  _exit(0);
}

TEST(Resources, OfTheSmallModelsAreAsExpected) {
  if (has_real_card()) GTEST_SKIP() << "the table needs no card";
  const std::string compiler = true_compiler();
  if (compiler.empty())
    GTEST_SKIP() << "no NVRTC: RAMET_NVRTC_REAL names none, and there is none in .venv (scripts/setup.sh --cuda)";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::string found;
  EXPECT_EXIT(print_table(compiler), testing::ExitedWithCode(0), testing::Truly([&](const std::string& text) {
                const size_t begin = text.find("source | kernel");
                found = begin == std::string::npos ? text : text.substr(begin);
                return begin != std::string::npos;
              }));
  const fs::path sample = fs::path(RAMET_SOURCE_DIR) / "tests/samples/cuda/resources.txt";
  if (std::getenv("RAMET_WRITE_SAMPLES")) {
    fs::create_directories(sample.parent_path());
    write_file_atomic(sample, found);
  }
  // Another compiler gives registers otherwise.
  if (version_of(compiler) == kTableVersion)
    EXPECT_EQ(found, read_file(sample)) << "RAMET_WRITE_SAMPLES=1 writes the table anew";
  // Registers suffice: nothing is spilled, and no array of a thread is in memory.
  size_t line = 0;
  for (size_t end = found.find('\n'); end != std::string::npos; line = end + 1, end = found.find('\n', line)) {
    const std::string text = found.substr(line, end - line);
    if (line == 0) continue;
    const size_t shared = text.rfind(" | "), local = text.rfind(" | ", shared - 1);
    EXPECT_EQ(text.substr(local, shared - local), " | 0") << "local memory: " << text;
  }
}

}  // namespace
}  // namespace ramet::tests
