#pragma once

#include "ramet/base/house.h"

#include <functional>

#include "ramet/api/samples.h"
#include "ramet/layout/layout.h"
#include "ramet/predict.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train.h"
#include "ramet/train/compile.h"
#include "ramet/train/train_options.h"

namespace ramet::api {

/// The engine's words for what a user asks for.
train::TrainOptions engine_options(const v0::TrainOptions& options, const v0::Model::Contents& model);
train::Where engine_where(int threads, int64_t device_memory, const std::string& device);
Layout engine_layout(const std::string& text);
std::string precision_name(v0::Precision precision);
/// The model with the seed of its random numbers.
model::Model with_seed(model::Model model, uint64_t seed);

v0::Metrics metrics_of(const NamedNumbers& numbers);

/// Runs a program on request on samples of the caller's, each once, and gives its results as arrays: outputs that have
/// a row for each sample as one array of all of them, others as [micro-batches, ...]. `pads`: whether the last
/// micro-batch may be filled up; else Error for samples that are no whole micro-batches.
v0::Arrays run_request(Cluster& cluster, const model::Model& model, const std::string& program, const Graph& graph,
                       int64_t micro_batch, const v0::NamedViews& samples, bool pads);
/// The same, with the results of each micro-batch as they come.
std::vector<ResultTensors> run_batches(Cluster& cluster, const model::Model& model, const std::string& program,
                                       const Inputs& inputs, int64_t micro_batch, int64_t batches,
                                       const v0::NamedViews& samples, int64_t count);

}  // namespace ramet::api
