#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ramet/front/onnx_import.h"

namespace ramet::front {

/// What is fed to an input of an ONNX model, or comes out of one: a tensor, a sequence of tensors, or nothing (an empty
/// optional).
struct OnnxFeed {
  enum class Kind : uint8_t { kTensor, kSequence, kNothing };
  Kind kind = Kind::kTensor;
  std::vector<HostTensor> tensors{};  ///< one of a tensor
};
using OnnxFeeds = std::map<std::string, OnnxFeed, std::less<>>;

/// An ONNX model as one function of feeds of given types.
struct OnnxProgram {
  struct Output {
    std::string name;
    OnnxFeed::Kind kind = OnnxFeed::Kind::kTensor;
    std::vector<std::string> results{};  ///< outputs of the graph
  };
  Graph graph{"predict"};
  std::vector<Output> outputs{};
  /// Data inputs of the graph, and which tensor of which feed each is.
  std::map<std::string, std::pair<std::string, size_t>> inputs{};
  std::set<std::string> specialized{};  ///< inputs whose values the program has as constants
};

/// Makes a program for feeds of these types. Inputs whose values must be known become constants. Throws UnsupportedOp
/// that lists what is not supported, and FormatError for a model that contradicts itself or the feeds.
OnnxProgram import_onnx_program(const OnnxModel& model, const OnnxFeeds& feeds, OnnxImporter::Options options);

/// The value of one file of a data set: a TensorProto, or what the input (or output) `like` says it is.
OnnxFeed read_onnx_feed(const std::filesystem::path& path, const OnnxValueInfo& like);

/// How `found` differs from `expected` by numpy's allclose; "" where it does not.
std::string compare_onnx(const OnnxFeed& found, const OnnxFeed& expected, double relative, double absolute);

}  // namespace ramet::front
