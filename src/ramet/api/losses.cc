#include "ramet/api/apply.h"
#include "ramet/ops/build_loss.h"

namespace ramet::v0 {
namespace {

ops::LossReduction reduction_of(LossReduction reduction) {
  switch (reduction) {
    case LossReduction::kNone: return ops::LossReduction::kNone;
    case LossReduction::kSum: return ops::LossReduction::kSum;
    default: return ops::LossReduction::kMean;
  }
}

}  // namespace

Tensor cross_entropy_loss(Operand logits, Operand target, Operand weight, const CrossEntropyOptions& options) {
  return apply(
      [&](ir::Tensor x, ir::Tensor t, ir::Tensor w) {
        return ops::cross_entropy_loss(x, t,
                                       {.weight = w,
                                        .label_smoothing = options.label_smoothing,
                                        .ignore_index = options.ignore_index,
                                        .reduction = reduction_of(options.reduction)});
      },
      logits, target, weight);
}
Tensor nll_loss(Operand log_probs, Operand target, Operand weight, const CrossEntropyOptions& options) {
  if (options.label_smoothing != 0)
    throw Error({.what = "nll_loss has no label smoothing",
                 .where = ir::origin_of(log_probs.place()),
                 .remedy = "Use cross_entropy_loss of the logits"});
  return apply(
      [&](ir::Tensor x, ir::Tensor t, ir::Tensor w) {
        return ops::nll_loss(
            x, t, {.weight = w, .ignore_index = options.ignore_index, .reduction = reduction_of(options.reduction)});
      },
      log_probs, target, weight);
}

Tensor binary_cross_entropy(Operand a, Operand target, Operand weight, LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor t,
                   ir::Tensor w) { return ops::binary_cross_entropy(x, t, w, reduction_of(reduction)); },
               a, target, weight);
}
Tensor binary_cross_entropy_with_logits(Operand a, Operand target, Operand weight, Operand positive_weight,
                                        LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor t, ir::Tensor w,
                   ir::Tensor p) { return ops::binary_cross_entropy_with_logits(x, t, w, p, reduction_of(reduction)); },
               a, target, weight, positive_weight);
}

#define RAMET_LOSS(name)                                                                                           \
  Tensor name(Operand a, Operand target, LossReduction reduction) {                                                \
    return apply([&](ir::Tensor x, ir::Tensor t) { return ops::name(x, t, reduction_of(reduction)); }, a, target); \
  }
#define RAMET_LOSS_WITH(name)                                                                                     \
  Tensor name(Operand a, Operand target, double option, LossReduction reduction) {                                \
    return apply([&](ir::Tensor x, ir::Tensor t) { return ops::name(x, t, option, reduction_of(reduction)); }, a, \
                 target);                                                                                         \
  }
RAMET_LOSS(mse_loss)
RAMET_LOSS(l1_loss)
RAMET_LOSS(soft_margin_loss)
RAMET_LOSS(multilabel_margin_loss)
RAMET_LOSS_WITH(smooth_l1_loss)
RAMET_LOSS_WITH(huber_loss)
RAMET_LOSS_WITH(hinge_embedding_loss)
#undef RAMET_LOSS
#undef RAMET_LOSS_WITH

Tensor kl_divergence(Operand a, Operand target, bool log_target, LossReduction reduction, bool batch_mean) {
  return apply([&](ir::Tensor x,
                   ir::Tensor t) { return ops::kl_divergence(x, t, log_target, reduction_of(reduction), batch_mean); },
               a, target);
}
Tensor gaussian_nll_loss(Operand a, Operand target, Operand variance, bool full, double epsilon,
                         LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor t,
                   ir::Tensor v) { return ops::gaussian_nll_loss(x, t, v, full, epsilon, reduction_of(reduction)); },
               a, target, variance);
}
Tensor poisson_nll_loss(Operand a, Operand target, bool log_input, bool full, double epsilon, LossReduction reduction) {
  return apply(
      [&](ir::Tensor x, ir::Tensor t) {
        return ops::poisson_nll_loss(x, t, log_input, full, epsilon, reduction_of(reduction));
      },
      a, target);
}
Tensor margin_ranking_loss(Operand a, Operand b, Operand target, double margin, LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor y,
                   ir::Tensor t) { return ops::margin_ranking_loss(x, y, t, margin, reduction_of(reduction)); },
               a, b, target);
}
Tensor multilabel_soft_margin_loss(Operand a, Operand target, Operand weight, LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor t,
                   ir::Tensor w) { return ops::multilabel_soft_margin_loss(x, t, w, reduction_of(reduction)); },
               a, target, weight);
}
Tensor multi_margin_loss(Operand a, Operand target, double p, double margin, Operand weight, LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor t,
                   ir::Tensor w) { return ops::multi_margin_loss(x, t, p, margin, w, reduction_of(reduction)); },
               a, target, weight);
}
Tensor cosine_similarity(Operand a, Operand b, int64_t axis, double epsilon) {
  return apply([&](ir::Tensor x, ir::Tensor y) { return ops::cosine_similarity(x, y, axis, epsilon); }, a, b);
}
Tensor cosine_embedding_loss(Operand a, Operand b, Operand target, double margin, LossReduction reduction) {
  return apply([&](ir::Tensor x, ir::Tensor y,
                   ir::Tensor t) { return ops::cosine_embedding_loss(x, y, t, margin, reduction_of(reduction)); },
               a, b, target);
}
Tensor triplet_margin_loss(Operand anchor, Operand positive, Operand negative, const TripletOptions& options) {
  return apply(
      [&](ir::Tensor x, ir::Tensor y, ir::Tensor z) {
        return ops::triplet_margin_loss(x, y, z,
                                        {.margin = options.margin,
                                         .p = options.p,
                                         .epsilon = options.epsilon,
                                         .swap = options.swap,
                                         .reduction = reduction_of(options.reduction)});
      },
      anchor, positive, negative);
}
Tensor ctc_loss(Operand log_probs, Operand targets, Operand input_lengths, Operand target_lengths,
                const CtcOptions& options) {
  return apply(
      [&](ir::Tensor x, ir::Tensor t, ir::Tensor n, ir::Tensor m) {
        return ops::ctc_loss(x, t, n, m,
                             {.blank = options.blank,
                              .zero_infinity = options.zero_infinity,
                              .reduction = reduction_of(options.reduction)});
      },
      log_probs, targets, input_lengths, target_lengths);
}

}  // namespace ramet::v0
