#pragma once

#include "ramet/base/house.h"

#include <map>
#include <string>
#include <vector>

#include "ramet/model.h"
#include "ramet/model/model.h"

namespace ramet::v0 {

/// What a Model is to the engine.
struct Model::Contents {
  model::Model engine;
  model::Units units{};  ///< of a model that was loaded
  int64_t micro_batch = 1;
  int64_t evolve_steps = 0;  ///< of the run for which patterns of sparse weights change; 0: they do not

  /// The program of that name on request; throws Error when there is none.
  const model::NamedGraph& request(const std::string& name) const;
};

}  // namespace ramet::v0

namespace ramet::api {

/// The program that ModelBuilder makes of a model's outputs.
inline constexpr const char* kPredict = "predict";

/// How a weight or state starts, in the engine's words.
StateInit engine_init(const v0::Init& init, const TensorType& type, const std::string& name);
std::vector<LogicalAxis> engine_axes(const std::vector<v0::WeightAxis>& axes, const TensorType& type,
                                     const std::string& name);

}  // namespace ramet::api
