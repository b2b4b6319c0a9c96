// metric [LAYOUT [STEPS]]: user-defined metrics, a running statistic of micro-batches, and a source of samples. Every
// layout prints the same lines.
#include <cstdio>

#include "rows.h"

using namespace ramet;

namespace {

Model judged(int64_t samples) {
  constexpr int64_t kWidth = Rows::kWidth;
  ModelBuilder m("judged");
  const Tensor rows = m.input("rows", DType::kF32, {samples, kWidth}, {.low = -1, .high = 1});
  const Tensor wanted = m.input("wanted", DType::kF32, {samples});

  // A statistic: each micro-batch gives its mean, and the update folds all these means, in order, into a running one.
  m.state("mean", {DType::kF32, {kWidth}}, StateRole::kDeferred, Init::zeros(),
          {.fold = {.by = "average", .momentum = 0.05}});
  const Tensor mean = reduce_mean(rows, {0});
  m.set_state("mean", mean);
  const Tensor x = rows - by_use(mean, m.state("mean"));

  const Tensor predicted = predict_rows(m, x);
  const Tensor off = predicted - wanted, squares = off * off;
  m.loss(reduce_mean(squares));

  // Metrics over the rows whose wanted number is above 0: the share with a squared error below 0.01, and their number.
  const Tensor counts = cast(less(m.full(DType::kF32, {}, 0), wanted), DType::kF32);
  const Tensor near = cast(less(squares, m.full(DType::kF32, {}, 0.01)), DType::kF32);
  m.metric("near", Ratio{reduce_sum(near * counts), reduce_sum(counts)});
  m.metric("rows", Sum{reduce_sum(counts)});
  m.metric("e_loss", ExpOf{"loss"});
  return m.build();
}

}  // namespace

int main(int argc, char** argv) try {
  const Data train = Data::source(std::make_shared<Rows>(0)), others = Data::source(std::make_shared<Rows>(1 << 20));
  TrainOptions options{.optimizer = AdamW{.weight_decay = 0.1},
                       .groups = {{.name = "tables", .weights = {"*.up"}, .rate = 0.5}},
                       .schedule = {.learning_rate = 2e-3},
                       .steps = argc > 2 ? std::stoll(argv[2]) : 200,
                       .micro_batches = 4,
                       .lanes = 2,
                       .chunks = 2,
                       .layout = argc > 1 ? argv[1] : ""};
  options.evaluate_every = 50, options.evaluation_batches = 8;
  Training training(judged(32), options, train, others);
  const FitResult result = training.fit(
      {.on_step =
           [](const StepResult& step) {
             if (step.step % 25 == 0)
               std::printf("step %lld: loss %.9g, near %.9g of %g rows\n", static_cast<long long>(step.step), step.loss,
                           step.metrics["near"], step.metrics["rows"]);
           },
       .on_evaluation =
           [](int64_t step, const Metrics& numbers) {
             std::printf("after %lld: loss %.9g, near %.9g\n", static_cast<long long>(step), numbers["loss"],
                         numbers["near"]);
           }});
  std::printf("%lld steps, weights %s\n", static_cast<long long>(result.steps), training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
