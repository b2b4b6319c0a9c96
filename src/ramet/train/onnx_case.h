#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ramet/front/onnx_program.h"
#include "ramet/train/onnx_gradient.h"

namespace ramet::train {

/// How an ONNX program runs.
struct OnnxRun {
  int threads = 1;
  bool interpret = false;  ///< node by node, without the compiler
  bool gradients = false;  ///< of tests that pass: compare the gradient with finite differences
};
/// The outputs of a model for feeds.
std::vector<OnnxFeed> run_onnx(const OnnxProgram& program, const OnnxFeeds& feeds, const OnnxRun& run);

/// What became of a test.
struct OnnxVerdict {
  enum class Kind : uint8_t { kPassed, kFailed, kRefused };
  Kind kind = Kind::kPassed;
  std::string message{};                    ///< why not
  std::set<std::string> specialized{};      ///< inputs that had to be constants
  std::optional<GradientCheck> gradient{};  ///< of a test that passed, where it was asked for: the first data set's
};
/// "passed", "failed", "refused"
std::string_view name_of(OnnxVerdict::Kind kind);

/// The folders at and beneath `root` that hold a test: model.onnx, and folders test_data_set_* beside it.
std::vector<std::filesystem::path> find_onnx_cases(const std::filesystem::path& root);

/// Runs all data sets of a test. Tolerances stand in its data.json where it has one.
struct OnnxTolerance {
  double relative = 1e-3, absolute = 1e-7;
};
OnnxVerdict run_onnx_case(const std::filesystem::path& folder, OnnxTolerance tolerance, const OnnxRun& run);

/// Runs a model on the files input_N.pb of a folder, and writes its outputs as output_N.pb.
void run_onnx_files(const std::filesystem::path& model, const std::filesystem::path& in,
                    const std::filesystem::path& out, const OnnxRun& run);

}  // namespace ramet::train
