#pragma once

#include "ramet/base/house.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ramet/model.h"
#include "ramet/model/model.h"

namespace ramet::v0 {

/// What a Model is to the engine.
struct Model::Contents {
  model::Model engine;
  int64_t micro_batch = 1;

  /// The program of that name on request, or null.
  const model::NamedGraph* find_request(const std::string& name) const;
};

}  // namespace ramet::v0

namespace ramet::api {

/// The program that ModelBuilder makes of a model's outputs.
inline constexpr const char* kPredict = "predict";

/// How a weight or state starts, in the engine's words.
StateInit engine_init(const v0::Init& init, const TensorType& type, const std::string& name);
std::vector<LogicalAxis> engine_axes(const std::vector<v0::WeightAxis>& axes, const TensorType& type,
                                     const std::string& name);
/// Of the outputs of a program, those that have a row for each sample of the micro-batch.
std::set<std::string> outputs_by_sample(const Graph& graph);

}  // namespace ramet::api
