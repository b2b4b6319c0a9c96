#pragma once

#include <cstdint>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Losses, with PyTorch's options and definitions. Operands of any floating type are computed in f32, and the results
// are f32. "Elements" are those of the broadcast operands. Where a mean has nothing to divide by it is 0. Weights of
// classes and elements get no gradient.

enum class LossReduction : uint8_t {
  kNone,  ///< one loss an element, or a row where the loss is one of rows
  kSum,
  kMean
};

struct CrossEntropyOptions {
  Tensor weight{};             ///< of each class, [C]; a mean is then one of weighted rows
  double label_smoothing = 0;  ///< share of the target that is spread over all classes, 0 to 1
  int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::kMean;
};
/// -log softmax(logits) of the target. Logits are [N, C], [N, C, d...] or [C]; targets are classes, i32 or i64 of the
/// logits' shape without C, or probabilities of the logits' shape. Rows of `ignore_index`, and all of a class below 0,
/// have no loss; a class of C or more is an error at run time. With plain options (a mean, nothing else) this is the
/// fused cross_entropy of ops/build.h.
Tensor cross_entropy_loss(Tensor logits, Tensor target, const CrossEntropyOptions& options = {});

struct NllOptions {
  Tensor weight{};
  int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::kMean;
};
/// The same from log-probabilities: -log_probs[target].
Tensor nll_loss(Tensor log_probs, Tensor target, const NllOptions& options = {});

/// -weight (target log a + (1 - target) log(1 - a)), with logarithms of at least -100.
Tensor binary_cross_entropy(Tensor a, Tensor target, Tensor weight = {},
                            LossReduction reduction = LossReduction::kMean);
/// The same of sigmoid(a); `positive_weight` multiplies the first term, and broadcasts.
Tensor binary_cross_entropy_with_logits(Tensor a, Tensor target, Tensor weight = {}, Tensor positive_weight = {},
                                        LossReduction reduction = LossReduction::kMean);

Tensor mse_loss(Tensor a, Tensor target, LossReduction reduction = LossReduction::kMean);
Tensor l1_loss(Tensor a, Tensor target, LossReduction reduction = LossReduction::kMean);
/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; with beta 0, l1_loss.
Tensor smooth_l1_loss(Tensor a, Tensor target, double beta = 1, LossReduction reduction = LossReduction::kMean);
/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2).
Tensor huber_loss(Tensor a, Tensor target, double delta = 1, LossReduction reduction = LossReduction::kMean);
/// target (log target - a), a being log-probabilities; with `log_target` the target is one too. `batch_mean`: the sum
/// over the first extent, instead of `reduction`.
Tensor kl_divergence(Tensor a, Tensor target, bool log_target = false, LossReduction reduction = LossReduction::kMean,
                     bool batch_mean = false);
/// (log v + (a - target)^2 / v) / 2 with v = max(variance, epsilon), whose bound stops no gradient; `full` adds
/// log(2 pi) / 2.
Tensor gaussian_nll_loss(Tensor a, Tensor target, Tensor variance, bool full = false, double epsilon = 1e-6,
                         LossReduction reduction = LossReduction::kMean);
/// e^a - target a, or with `log_input` false a - target log(a + epsilon); `full` adds Stirling's log(target!).
Tensor poisson_nll_loss(Tensor a, Tensor target, bool log_input = true, bool full = false, double epsilon = 1e-8,
                        LossReduction reduction = LossReduction::kMean);

/// max(0, margin - target (a - b)), target 1 or -1.
Tensor margin_ranking_loss(Tensor a, Tensor b, Tensor target, double margin = 0,
                           LossReduction reduction = LossReduction::kMean);
/// a where the target is 1, max(0, margin - a) where it is -1.
Tensor hinge_embedding_loss(Tensor a, Tensor target, double margin = 1, LossReduction reduction = LossReduction::kMean);
/// log(1 + e^(-target a)), target 1 or -1.
Tensor soft_margin_loss(Tensor a, Tensor target, LossReduction reduction = LossReduction::kMean);
/// Of rows [N, C] with targets 0 or 1: the mean over classes of binary cross-entropies of logits.
Tensor multilabel_soft_margin_loss(Tensor a, Tensor target, Tensor weight = {},
                                   LossReduction reduction = LossReduction::kMean);
/// Of rows [N, C] with a class each: the sum over other classes of max(0, margin - a[y] + a[c])^p weight[y] / C.
Tensor multi_margin_loss(Tensor a, Tensor target, double p = 1, double margin = 1, Tensor weight = {},
                         LossReduction reduction = LossReduction::kMean);
/// Of rows [N, C] with classes [N, C] up to the first below 0: the sum over these classes y and all others c of
/// max(0, 1 - (a[y] - a[c])) / C.
Tensor multilabel_margin_loss(Tensor a, Tensor target, LossReduction reduction = LossReduction::kMean);

/// The cosine of the angle between a and b along `axis`; norms count at least `epsilon`.
Tensor cosine_similarity(Tensor a, Tensor b, int64_t axis = 1, double epsilon = 1e-8);
/// The p-norm of a - b + epsilon along the last dimension.
Tensor pairwise_distance(Tensor a, Tensor b, double p = 2, double epsilon = 1e-6, bool keep_dims = false);
/// Of rows: 1 - cos where the target is 1, max(0, cos - margin) where it is -1.
Tensor cosine_embedding_loss(Tensor a, Tensor b, Tensor target, double margin = 0,
                             LossReduction reduction = LossReduction::kMean);
struct TripletOptions {
  double margin = 1, p = 2, epsilon = 1e-6;
  bool swap = false;  ///< the negative is as far as from the nearer of anchor and positive
  LossReduction reduction = LossReduction::kMean;
};
/// Of rows: max(0, |anchor - positive| - |anchor - negative| + margin).
Tensor triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, const TripletOptions& options = {});

struct CtcOptions {
  int64_t blank = 0;
  bool zero_infinity = false;  ///< losses that are infinite (no path is long enough) and their gradients are 0
  LossReduction reduction =
      LossReduction::kMean;  ///< a mean divides each loss by its target's length (at least 1) first
};
/// Connectionist temporal classification (Graves et al., ICML 2006): log_probs [T, N, C], targets [N, S] padded with
/// any class, input_lengths [N] and target_lengths [N], all i32 or i64. Targets that lie one after another in one
/// dimension are refused: where they begin depends on data.
Tensor ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths,
                const CtcOptions& options = {});

}  // namespace ramet::ops
