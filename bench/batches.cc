// Writes the samples of a recipe's training, in the order in which it takes them, so that another framework can train
// on the same ones: DIR/NAME.npy for each tensor, of all samples, and DIR/rates.npy with the learning rate of each
// step.
//
//     build/bench/batches RECIPE --out DIR [--steps N] [--set KEY=VALUE]...

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/learning_rate.h"

namespace {

using namespace ramet::bench;

/// A .npy file that grows by samples.
class NpyFile {
 public:
  NpyFile(const std::filesystem::path& path, const TensorType& one, int64_t samples) : file_(path, std::ios::binary) {
    const char* const type = one.dtype == DType::kU8 ? "|u1" : one.dtype == DType::kI32 ? "<i4" : "<f4";
    if (size_of(one.dtype) != (one.dtype == DType::kU8 ? 1 : 4))
      throw Error({.what = "a tensor of a type that is not written", .where = path.string()});
    std::string shape = std::to_string(samples) + ",";
    for (int dim = 1; dim < one.shape.rank(); ++dim) shape += std::to_string(one.shape[dim]) + ",";
    std::string header = "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    file_ << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size()) << static_cast<char>(header.size() >> 8)
          << header;
  }
  void add(const void* bytes, size_t size) { file_.write(static_cast<const char*>(bytes), static_cast<int64_t>(size)); }
  bool good() { return static_cast<bool>(file_.flush()); }

 private:
  std::ofstream file_;
};

void write(const Recipe& recipe, const std::filesystem::path& out, int64_t steps) {
  const Preparation preparation = prepare(recipe);
  const Source& source = *preparation.workload.train;
  if (steps == 0) steps = preparation.recipe.train.steps;
  const int64_t samples = preparation.samples_per_step();
  std::filesystem::create_directories(out);
  std::vector<NpyFile> files;
  for (const auto& [name, type] : source.signature(1)) files.emplace_back(out / (name + ".npy"), type, steps * samples);
  NpyFile rates(out / "rates.npy", {DType::kF32, {1}}, steps);
  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch = source.make(step * samples, samples);
    for (size_t i = 0; i < files.size(); ++i)
      files[i].add(batch.tensors[i].bytes.data(), batch.tensors[i].bytes.size());
    const auto rate = static_cast<float>(learning_rate_at(preparation.recipe.train, step));
    rates.add(&rate, sizeof rate);
  }
  bool good = rates.good();
  for (NpyFile& file : files) good = file.good() && good;
  if (!good) throw Error({.what = "cannot write the samples", .where = out.string()}, ErrorKind::kFailure);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "batches: no recipe\n"), 2;
  std::string out = "build/batches";
  int64_t steps = 0;
  std::vector<std::string> settings;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--out")
      out = value;
    else if (key == "--steps")
      steps = std::stoll(value);
    else if (key == "--set")
      settings.push_back(value);
    else
      return std::fprintf(stderr, "batches: unknown option %s\n", key.c_str()), 2;
  }
  try {
    write(load_recipe(argv[1], settings), out, steps);
  } catch (const Error& error) {
    std::fprintf(stderr, "batches: %s\n", error.what());
    return 1;
  }
}
