#include <cmath>

#include "ramet/train/learning_rate.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

bool is_factored(const OptimizerOptions& options, const StateTensor& weight) {
  return options.factored && weight.type.shape.rank() == 2;
}

void build(WeightUpdate& update) {
  const OptimizerOptions& options = update.options();
  const AdafactorStates states{.row = update.state("row"),
                               .column = update.state("column"),
                               .square = update.state("v"),
                               .m = update.state("m")};
  const Shape real = update.weight().unpadded().shape;
  const AdafactorResult next = adafactor(update.value(), update.gradient(), states, update.rate(),
                                         update.scalar("second_decay"), update.grad_scale(),
                                         {.beta1 = options.first_moment ? options.beta1 : 0,
                                          .weight_decay = update.weight_decay(),
                                          .clip_threshold = options.clip_threshold,
                                          .square_epsilon = options.square_epsilon,
                                          .scale_epsilon = options.scale_parameter ? options.scale_epsilon : 0,
                                          .rows = real.rank() > 0 ? real[0] : 0,
                                          .elements = real.elements()});
  update.write(next.weight, {{"row", next.row}, {"column", next.column}, {"v", next.square}, {"m", next.m}});
}

}  // namespace

OptimizerDef adafactor_optimizer() {
  return {
      .name = "adafactor",
      .doc = "second moments of rows and columns (Shazeer and Stern, arXiv 1804.04235), as transformers has it",
      .states = {{.name = "row",
                  .doc = "mean of squares over each row of a matrix",
                  .form = OptimizerState::Form::kRows,
                  .narrow = false,
                  .kept = is_factored},
                 {.name = "column",
                  .doc = "and over each column",
                  .form = OptimizerState::Form::kColumns,
                  .narrow = false,
                  .kept = is_factored},
                 {.name = "v",
                  .doc = "mean of squares of what is not factored",
                  .narrow = false,
                  .kept = [](const OptimizerOptions& options,
                             const StateTensor& weight) { return !is_factored(options, weight); }},
                 {.name = "m",
                  .doc = "mean of steps, with first_moment",
                  .kept = [](const OptimizerOptions& options, const StateTensor&) { return options.first_moment; }}},
      .scalars = {{.name = "second_decay",
                   .value = [](const OptimizerOptions& options,
                               int64_t updates) { return rising_decay(options.decay_rate, updates); }}},
      .works_in_f32 = true,
      .proportional = [](const OptimizerOptions& options) { return options.scale_parameter; },
      .most_rate =
          [](const OptimizerOptions& options, int64_t step) {
            return options.relative_step ? 1 / std::sqrt(static_cast<double>(step) + 1) : HUGE_VAL;
          },
      .build = build};
}

}  // namespace ramet::train
