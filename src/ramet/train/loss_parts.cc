#include "ramet/train/loss_parts.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"

namespace ramet::train {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& metric, const std::string& expected) {
  throw Error({.what = what,
               .where = "train.loss_mean = \"step\"",
               .found = "metric '" + metric + "'",
               .expected = expected,
               .remedy = "Set train.loss_mean = \"micro\", or let the model declare it"});
}

/// Whether gradients pass through a type that ends far below f32.
bool is_narrow(const TrainOptions& options) {
  return options.precision == "f16" || options.precision == "f8" || options.accumulators == "f16";
}

LossPart part_of(const Model& model, const TrainOptions& options, const std::string& name) {
  const auto metric = std::find_if(model.metrics.begin(), model.metrics.end(),
                                   [&](const Metric& each) { return each.name == name; });
  if (metric == model.metrics.end())
    refuse("the model does not declare of what its loss is the mean", name, "a metric of this name with a denominator");
  if (metric->how != Metric::How::kRatio || !metric->numerator_is_mean)
    refuse("this part of the loss is not declared as a mean of items", name,
           "a ratio whose numerator is a mean over its denominator");
  for (const std::string& output : {metric->numerator, metric->denominator}) {
    const GraphOutput* found = model.forward.find_output(output);
    if (!found) refuse("the model has no output '" + output + "'", name, "an output of the forward graph");
    if (model.forward.type(found->value) != TensorType{DType::kF32, Shape{}})
      refuse("output '" + output + "' is no f32 scalar", name, "f32[]");
  }
  if (metric->most_items <= 0 && is_narrow(options))
    refuse("in f16 the size of the denominator must be known", name, "Metric::most_items");
  return {.metric = name,
          .loss = metric->numerator,
          .denominator = metric->denominator,
          .unit = metric->most_items > 0 ? std::exp2(std::ceil(std::log2(metric->most_items))) : 1};
}

}  // namespace

std::vector<LossPart> loss_parts(const Model& model, const TrainOptions& options) {
  if (options.loss_mean != "step") return {{.metric = "loss", .loss = "loss"}};
  for (const Metric& metric : model.metrics) {
    if (metric.name != "loss" || metric.parts.empty()) continue;
    std::vector<LossPart> parts;
    for (const std::string& name : metric.parts) parts.push_back(part_of(model, options, name));
    return parts;
  }
  return {part_of(model, options, "loss")};
}

std::string metric_without_items(const std::vector<LossPart>& parts,
                                 const std::vector<std::vector<std::pair<std::string, double>>>& micro) {
  for (const LossPart& part : parts) {
    if (part.denominator.empty()) continue;
    double items = 0;
    for (const auto& results : micro)
      for (const auto& [name, value] : results)
        if (name == part.denominator) items += value;
    if (items == 0) return part.metric;
  }
  return "";
}

Error no_items_error(const std::string& metric, int64_t step) {
  return Error({.what = "the loss of the step is a mean of no items, so nothing was changed",
                .where = "step " + std::to_string(step + 1),
                .found = "a denominator of 0 for metric '" + metric + "' in all micro-batches",
                .expected = "1 item or more",
                .remedy = "Check the labels of the data, or make the steps larger"},
               ErrorKind::kFailure);
}

}  // namespace ramet::train
