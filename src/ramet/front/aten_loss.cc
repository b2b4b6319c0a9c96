#include "ramet/front/aten_network.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_loss.h"

// Losses.

namespace ramet::front {
namespace {

/// A loss in the shape that torch recorded: rows without a dimension of samples give a scalar.
std::vector<Tensor> shaped(const Translation& at, Tensor loss) { return {in_shape_of_result(at, loss)}; }

std::vector<Tensor> cross_entropies(const Translation& at) {
  CrossEntropyOptions options;
  options.weight = at.tensor_if("weight");
  options.label_smoothing = at.number("label_smoothing", 0);
  options.ignore_index = at.integer("ignore_index", -100);
  options.reduction = reduction_of(at);
  return shaped(at, cross_entropy_loss(at.tensor("self"), at.tensor("target"), options));
}

NllOptions nll_options(const Translation& at) {
  return {at.tensor_if("weight"), at.integer("ignore_index", -100), reduction_of(at)};
}
std::vector<Tensor> nll_losses(const Translation& at) {
  return shaped(at, nll_loss(at.tensor("self"), at.tensor("target"), nll_options(at)));
}

/// Also the sum of the weights of the rows that count: the loss of log-probabilities of -1.
std::vector<Tensor> nll_losses_forward(const Translation& at) {
  std::vector<Tensor> outputs = nll_losses(at);
  outputs.emplace_back();
  if (!at.reads(1)) return outputs;
  const Tensor a = at.tensor("self");
  NllOptions options = nll_options(at);
  options.reduction = LossReduction::kSum;
  outputs[1] = reduction_of(at) == LossReduction::kNone
                   ? full(at.build(), DType::kF32, {}, 0)
                   : nll_loss(full(at.build(), DType::kF32, a.shape(), -1), at.tensor("target"), options);
  return outputs;
}

template <Tensor (*kLoss)(Tensor, Tensor, LossReduction)>
std::vector<Tensor> pairs(const Translation& at) {
  return shaped(at, kLoss(at.tensor("self"), at.tensor("target"), reduction_of(at)));
}

std::vector<Tensor> smooth_l1_losses(const Translation& at) {
  return shaped(at, smooth_l1_loss(at.tensor("self"), at.tensor("target"), at.number("beta", 1), reduction_of(at)));
}
std::vector<Tensor> huber_losses(const Translation& at) {
  return shaped(at, huber_loss(at.tensor("self"), at.tensor("target"), at.number("delta", 1), reduction_of(at)));
}
std::vector<Tensor> binary_cross_entropies(const Translation& at) {
  return shaped(at,
                binary_cross_entropy(at.tensor("self"), at.tensor("target"), at.tensor_if("weight"), reduction_of(at)));
}
std::vector<Tensor> binary_cross_entropies_with_logits(const Translation& at) {
  return shaped(at, binary_cross_entropy_with_logits(at.tensor("self"), at.tensor("target"), at.tensor_if("weight"),
                                                     at.tensor_if("pos_weight"), reduction_of(at)));
}
std::vector<Tensor> kl_divergences(const Translation& at) {
  return shaped(at,
                kl_divergence(at.tensor("self"), at.tensor("target"), at.flag("log_target", false), reduction_of(at)));
}
std::vector<Tensor> poisson_losses(const Translation& at) {
  return shaped(at, poisson_nll_loss(at.tensor("input"), at.tensor("target"), at.flag("log_input", true),
                                     at.flag("full", false), at.number("eps", 1e-8), reduction_of(at)));
}

std::vector<Tensor> margin_ranking_losses(const Translation& at) {
  return shaped(at, margin_ranking_loss(at.tensor("input1"), at.tensor("input2"), at.tensor("target"),
                                        at.number("margin", 0), reduction_of(at)));
}
std::vector<Tensor> hinge_embedding_losses(const Translation& at) {
  return shaped(at,
                hinge_embedding_loss(at.tensor("self"), at.tensor("target"), at.number("margin", 1), reduction_of(at)));
}
std::vector<Tensor> multi_margin_losses(const Translation& at) {
  return shaped(at, multi_margin_loss(at.tensor("self"), at.tensor("target"), at.number("p", 1), at.number("margin", 1),
                                      at.tensor_if("weight"), reduction_of(at)));
}
std::vector<Tensor> multilabel_margin_losses(const Translation& at) {
  std::vector<Tensor> outputs = pairs<multilabel_margin_loss>(at);
  outputs.resize(at.call().outputs.size());
  if (outputs.size() > 1 && at.reads(1)) at.refuse("the targets of multilabel_margin_loss as a result");
  return outputs;
}
std::vector<Tensor> cosine_embedding_losses(const Translation& at) {
  return shaped(at, cosine_embedding_loss(at.tensor("input1"), at.tensor("input2"), at.tensor("target"),
                                          at.number("margin", 0), reduction_of(at)));
}
std::vector<Tensor> triplet_margin_losses(const Translation& at) {
  return shaped(at, triplet_margin_loss(at.tensor("anchor"), at.tensor("positive"), at.tensor("negative"),
                                        {at.number("margin", 1), at.number("p", 2), at.number("eps", 1e-6),
                                         at.flag("swap", false), reduction_of(at)}));
}
std::vector<Tensor> cosine_similarities(const Translation& at) {
  return {cosine_similarity(at.tensor("x1"), at.tensor("x2"), at.integer("dim", 1), at.number("eps", 1e-8))};
}
std::vector<Tensor> pairwise_distances(const Translation& at) {
  return {pairwise_distance(at.tensor("x1"), at.tensor("x2"), at.number("p", 2), at.number("eps", 1e-6),
                            at.flag("keepdim", false))};
}

// --- connectionist temporal classification ---

/// Lengths as numbers where the program knows them.
std::optional<std::vector<int64_t>> known_lengths(const Translation& at, const char* name) {
  if (at.call().overload != "Tensor" && at.call().overload != "IntList" && at.is_number(name)) return std::nullopt;
  if (at.call().overload != "Tensor") return at.integers(name);
  const TensorData* known = at.known(name);
  if (!known) return std::nullopt;
  std::vector<int64_t> lengths;
  for (const double value : known->tensor().values()) lengths.push_back(static_cast<int64_t>(value));
  return lengths;
}

Tensor i32_constant(const Translation& at, const Shape& shape, const std::vector<int64_t>& values) {
  return constant(at.build(),
                  TensorData(HostTensor::of(DType::kI32, shape, std::vector<double>(values.begin(), values.end()))));
}

Tensor lengths_of(const Translation& at, const char* name) {
  const auto known = known_lengths(at, name);
  if (known) return i32_constant(at, {static_cast<int64_t>(known->size())}, *known);
  const Tensor given = at.tensor(name);
  return given.shape().rank() == 0 ? reshape(given, {1}) : given;
}

/// Targets [N, S]. Those of all samples in one dimension, one after another, are cut by their lengths.
Tensor targets_of(const Translation& at, int64_t samples) {
  const Tensor targets = at.tensor("targets");
  if (targets.shape().rank() == 2) return targets;
  if (samples == 1) return reshape(targets, {1, targets.dim(0)});
  const auto lengths = known_lengths(at, "target_lengths");
  if (!lengths)
    at.refuse("targets in one dimension, of lengths that depend on data",
              "Give the targets as [samples, longest], or the lengths as numbers");
  int64_t longest = 1;
  for (const int64_t length : *lengths) longest = std::max(longest, length);
  std::vector<int64_t> places;
  int64_t first = 0;
  for (const int64_t length : *lengths) {
    for (int64_t i = 0; i < longest; ++i)
      places.push_back(std::min(first + std::min(i, std::max<int64_t>(length - 1, 0)), targets.dim(0) - 1));
    first += length;
  }
  return index_select(targets, i32_constant(at, {samples, longest}, places), 0);
}

Tensor ctc_of(const Translation& at, LossReduction reduction) {
  const Tensor given = at.tensor("log_probs");
  const Tensor log_probs =
      given.shape().rank() == 2 ? reshape(given, {given.dim(0), 1, given.dim(1)}) : given;  // one sample
  return ctc_loss(log_probs, targets_of(at, log_probs.dim(1)), lengths_of(at, "input_lengths"),
                  lengths_of(at, "target_lengths"),
                  {at.integer("blank", 0), at.flag("zero_infinity", false), reduction});
}

std::vector<Tensor> ctc_losses(const Translation& at) { return shaped(at, ctc_of(at, reduction_of(at))); }
std::vector<Tensor> ctc_losses_forward(const Translation& at) {
  if (at.reads(1)) at.refuse("the table of _ctc_loss as a result");
  return {in_shape_of_result(at, ctc_of(at, LossReduction::kNone)), {}};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.cross_entropy_loss", cross_entropies},
    {"aten.nll_loss", nll_losses},
    {"aten.nll_loss_nd", nll_losses},
    {"aten.nll_loss2d", nll_losses},
    {"aten.nll_loss_forward", nll_losses_forward},
    {"aten.nll_loss2d_forward", nll_losses_forward},
    {"aten.mse_loss", pairs<mse_loss>},
    {"aten.l1_loss", pairs<l1_loss>},
    {"aten.smooth_l1_loss", smooth_l1_losses},
    {"aten.huber_loss", huber_losses},
    {"aten.binary_cross_entropy", binary_cross_entropies},
    {"aten.binary_cross_entropy_with_logits", binary_cross_entropies_with_logits},
    {"aten.kl_div", kl_divergences},
    {"aten.poisson_nll_loss", poisson_losses},
    {"aten.margin_ranking_loss", margin_ranking_losses},
    {"aten.hinge_embedding_loss", hinge_embedding_losses},
    {"aten.soft_margin_loss", pairs<soft_margin_loss>},
    {"aten.multi_margin_loss", multi_margin_losses},
    {"aten.multilabel_margin_loss", multilabel_margin_losses},
    {"aten.multilabel_margin_loss_forward", multilabel_margin_losses},
    {"aten.cosine_embedding_loss", cosine_embedding_losses},
    {"aten.triplet_margin_loss", triplet_margin_losses},
    {"aten.cosine_similarity", cosine_similarities},
    {"aten.pairwise_distance", pairwise_distances},
    {"aten.ctc_loss", ctc_losses},
    {"aten._ctc_loss", ctc_losses_forward},
};

}  // namespace

std::span<const OperatorEntry> loss_operators() { return kOperators; }

}  // namespace ramet::front
