#include "ramet/train/update.h"

#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "ramet/ops/build.h"
#include "ramet/train/evolve.h"
#include "ramet/train/groups.h"
#include "ramet/train/loss_scale.h"
#include "ramet/train/optimizers/optimizer.h"
#include "ramet/train/scaling.h"

namespace ramet::train {
namespace {

class UpdateBuilder {
 public:
  UpdateBuilder(const Model& model, const std::vector<GradientPart>& parts, const std::vector<LossPart>& losses,
                const TrainOptions& options, StepGraph& step)
      : model_(model), parts_(parts), losses_(losses), options_(options), step_(step), build_(step.update) {}

  void run() {
    own_steps_ = own_step_values(model_, options_);
    find_shares();
    for (const StateTensor& weight : model_.weights) {
      if (is_frozen(options_, weight)) continue;
      trained_.push_back({.weight = &weight,
                          .group = group_of(options_, weight),
                          .scale = weight_scale(options_, model_, weight, scaled_of(weight)),
                          .gradient = gradient_of(weight)});
    }
    const std::vector<Tensor> grad_scales = make_grad_scales();
    for (size_t i = 0; i < trained_.size(); ++i) update(trained_[i], grad_scales[i]);
  }

 private:
  struct Trained {
    const StateTensor* weight = nullptr;
    int group = kNoGroup;
    WeightScale scale;
    Tensor gradient;
  };

  void update(const Trained& trained, Tensor grad_scale) {
    const StateTensor& weight = *trained.weight;
    Scope scope(build_, "update/" + weight.name);
    const OptimizerOptions own = group_optimizer(options_, trained.group);
    const OptimizerDef& optimizer = find_optimizer(own.kind);
    // Optimizers that the size of a gradient matters to get that of the unscaled model.
    if (optimizer.wants_true_size && trained.scale.gradient != 1)
      grad_scale = scale(grad_scale, trained.scale.gradient);
    const Tensor births = births_of(weight);
    WeightUpdate made(optimizer, options_, own,
                      {.weight = weight,
                       .gradient = trained.gradient,
                       .rate = rate_of(trained),
                       .grad_scale = grad_scale,
                       .weight_decay = weight_decay_of(options_, trained.group, weight) * trained.scale.decay,
                       .suffix = scalar_suffix(options_, trained.group),
                       .births = births},
                      build_, step_.states);
    optimizer.build(made);
  }

  /// When the blocks of a sparse weight were new, for each element; not valid where all count steps together.
  Tensor births_of(const StateTensor& weight) {
    if (!own_steps_.count(weight.name)) return {};
    const Shape& shape = weight.type.shape;
    StateTensor state{births_name(weight.name),
                      {DType::kF32, Shape{shape[0], shape[1], shape[2], 1, 1}},
                      StateKind::kOptimizer,
                      {},
                      weight.group,
                      weight.axes};
    state.of = weight.name;
    state.role = "birth";
    step_.states.push_back(state);
    const Tensor births = build_.state(state.name, DType::kF32, state.type.shape);
    return state.type.shape == shape ? births : broadcast_to(births, shape);
  }

  /// How a weight is scaled: of a tied one the first reader that is no last product, for the sum of all gradients.
  ScaledWeight scaled_of(const StateTensor& weight) const {
    ScaledWeight scaled;
    bool any = false;
    double squares = 0;  // of the true gradients, in proportion
    for (const GradientPart& part : parts_) {
      if (part.weight != &weight) continue;
      if (!any || scaled.kind == ScaledWeight::Kind::kOutput) scaled = part.scaled;
      any = true;
      squares += 1 / (part.scaled.gradient * part.scaled.gradient);
    }
    scaled.gradient = 1 / std::sqrt(squares);
    return scaled;
  }

  /// What makes the sum of a loss part's gradients the gradient of its mean over the step: unit / items.
  void find_shares() {
    for (const LossPart& loss : losses_) {
      if (loss.denominator.empty()) continue;
      Scope scope(build_, "items/" + loss.metric);
      const Tensor items = build_.state(loss.items_state(), DType::kF32, {1});
      // The root of an exact square, which stages may share: the number itself.
      const Tensor all = sqrt(from_exact(exact_sum({sum_squares(items)})));
      shares_.push_back(divide(full(build_, DType::kF32, {}, loss.unit), all));
    }
  }

  /// The sum of the weight's parts for one part of the loss, in order of their first readers; scaled parts by what each
  /// is of the whole. Not valid where none of them meets it.
  Tensor sum_of(const StateTensor& weight, size_t loss) {
    const double whole = scaled_of(weight).gradient;
    Tensor sum;
    for (const GradientPart& part : parts_) {
      if (part.weight != &weight) continue;
      for (const GradientSum& each : part.sums) {
        if (each.loss != loss) continue;
        Tensor term = build_.state(each.state, dtype_from_name(options_.accumulators), weight.type.shape);
        if (is_scaled(options_) && whole != part.scaled.gradient) term = scale(term, whole / part.scaled.gradient);
        sum = sum.valid() ? add(sum, term) : term;
      }
    }
    return sum;
  }

  /// The weight's gradient as it is summed; for a loss of several parts in f32, each by its share.
  Tensor gradient_of(const StateTensor& weight) {
    Scope scope(build_, "gradient/" + weight.name);
    Tensor gradient;
    for (size_t i = 0; i < losses_.size(); ++i) {
      Tensor sum = sum_of(weight, i);
      if (!sum.valid()) continue;
      sums_.push_back(sum);
      if (losses_.size() > 1)
        sum = multiply(sum.type().dtype == DType::kF32 ? sum : cast(sum, DType::kF32), shares_[i]);
      gradient = gradient.valid() ? add(gradient, sum) : sum;
    }
    return gradient;
  }

  /// The learning rate of a weight.
  Tensor rate_of(const Trained& trained) {
    const Tensor of_group = scalar_input(build_, "learning_rate" + scalar_suffix(options_, trained.group));
    const double factor = trained.scale.rate;
    if (factor == 1) return of_group;
    Tensor& rate = rates_[{trained.group, factor}];
    if (!rate.valid()) rate = scale(of_group, factor);
    return rate;
  }

  /// What each gradient is multiplied with: the mean of the step, less the loss scale, clipped. Not finite when
  /// the norm is not, so that the optimizers leave everything as it was: the norm of all gradients, or of that one
  /// alone where updates do not wait for all.
  std::vector<Tensor> make_grad_scales() {
    Scope scope(build_, "gradient_norm");
    std::vector<Tensor> squares;
    for (const Trained& trained : trained_) {
      NodeInfo info = build_.info().named(build_.path_of(trained.weight->name));
      info.gradient = trained.weight->name;
      InfoScope of_weight(build_, std::move(info));
      // Of the model's own, unscaled gradients: what the norm is clipped to keeps its meaning.
      const double own = trained.scale.gradient;
      Tensor gradient = trained.gradient;
      if (own != 1)
        gradient = scale(gradient.type().dtype == DType::kF32 ? gradient : cast(gradient, DType::kF32), own);
      squares.push_back(sum_squares(gradient));
    }
    const double count = shares_.empty() ? static_cast<double>(options_.accumulation) : 1;
    const double mean = 1 / (count * options_.loss_scale.number.value_or(1) * accumulation_factor(options_));
    Tensor norm = scale(sqrt(from_exact(exact_sum(squares))), mean), factor = full(build_, DType::kF32, {}, mean);
    if (shares_.size() == 1) norm = multiply(norm, shares_[0]), factor = multiply(factor, shares_[0]);
    if (options_.loss_scale.automatic) {
      const Tensor inverse = scalar_input(build_, "inverse_loss_scale");
      norm = multiply(norm, inverse), factor = multiply(factor, inverse);
      watch_range();
    }
    build_.output("grad_norm", norm);
    if (options_.accumulators != "f32") report_underflow();
    if (options_.clip_norm > 0) {
      const Tensor limit = full(build_, DType::kF32, {}, options_.clip_norm), one = full(build_, DType::kF32, {}, 1);
      factor = multiply(factor, minimum(one, divide(limit, add_scalar(norm, 1e-6))));  // as PyTorch's clip_grad_norm_
    }
    const auto guarded = [&](Tensor guard) { return add(factor, scale(guard, 0)); };  // 0 x infinity is NaN
    if (!options_.optimizer.in_backward) return std::vector<Tensor>(trained_.size(), guarded(norm));
    std::vector<Tensor> result;
    for (const Tensor square : squares) result.push_back(guarded(from_exact(square)));
    return result;
  }

  /// The share of the sums that their type holds with fewer bits.
  void report_underflow() {
    std::vector<Tensor> counts;
    int64_t elements = 0;
    for (const Tensor sum : sums_) {
      counts.push_back(count_underflow(sum));
      elements += sum.type().elements();
    }
    const Tensor count = from_exact(exact_sum(counts));
    build_.output("gradient_underflow", scale(count, 1 / static_cast<double>(elements)));
  }

  /// What an automatic loss scale goes by (train/loss_scale.h).
  void watch_range() {
    const std::optional<LossScaleRange> range = loss_scale_range(options_);
    if (!range) return;
    std::vector<Tensor> histograms;
    for (const Tensor sum : sums_) histograms.push_back(exponent_histogram(sum));
    const Tensor all = histogram_sum(histograms);
    // Sums of f16 are means already.
    const bool means = accumulation_factor(options_) != 1;
    const int sums = means ? 0 : std::bit_width(static_cast<uint64_t>(options_.accumulation)) - 1;
    build_.output("grad_near_overflow", histogram_share(all, range->near() + sums));
    build_.output("grad_room", histogram_share(all, range->room() + sums));
    build_.output("grad_underflow", histogram_share(all, range->least + sums, true));
  }

  const Model& model_;
  const std::vector<GradientPart>& parts_;
  const std::vector<LossPart>& losses_;
  const TrainOptions& options_;
  StepGraph& step_;
  GraphBuilder build_;
  std::set<std::string> own_steps_;  ///< weights whose blocks count their own steps
  std::vector<Trained> trained_;
  std::vector<Tensor> sums_;    ///< over micro-batches, as they are held
  std::vector<Tensor> shares_;  ///< one a part of the loss with a denominator
  std::map<std::pair<int, double>, Tensor> rates_;
};

}  // namespace

double accumulation_factor(const TrainOptions& options) {
  if (options.accumulators != "f16") return 1;
  return 1 / static_cast<double>(std::bit_ceil(static_cast<uint64_t>(options.accumulation)));
}

void build_update(const Model& model, const std::vector<GradientPart>& parts, const std::vector<LossPart>& losses,
                  const TrainOptions& options, StepGraph& step) {
  UpdateBuilder(model, parts, losses, options, step).run();
}

}  // namespace ramet::train
