// ONNX's losses.
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_loss.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

LossReduction reduction_of(const OnnxCall& at) {
  const std::string name = at.text("reduction", "mean");
  if (name == "none") return LossReduction::kNone;
  if (name == "sum") return LossReduction::kSum;
  if (name != "mean") at.refuse("reduction '" + name + "' is not known");
  return LossReduction::kMean;
}

Values nll(const OnnxCall& at) {
  const Tensor a = at.input(0), weight = at.input_if(2);
  return {in_type(nll_loss(in_type(a, DType::kF32), at.input(1),
                           {.weight = weight.valid() ? in_type(weight, DType::kF32) : weight,
                            .ignore_index = at.integer("ignore_index", -100),
                            .reduction = reduction_of(at)}),
                  a.dtype())};
}

Values softmax_cross_entropy(const OnnxCall& at) {
  const Tensor a = at.input(0), weight = at.input_if(2);
  const Tensor logits = in_type(a, DType::kF32);
  const Tensor loss = cross_entropy_loss(logits, at.input(1),
                                         {.weight = weight.valid() ? in_type(weight, DType::kF32) : weight,
                                          .ignore_index = at.integer("ignore_index", -100),
                                          .reduction = reduction_of(at)});
  return {in_type(loss, a.dtype()), at.wants(1) ? in_type(log_softmax(logits, 1), a.dtype()) : Tensor()};
}

constexpr OnnxEntry kEntries[] = {
    {"NegativeLogLikelihoodLoss", nll},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
};

}  // namespace

std::span<const OnnxEntry> onnx_loss_operators() { return kEntries; }

}  // namespace ramet::front
