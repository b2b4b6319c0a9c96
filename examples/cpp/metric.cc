// custom [LAYOUT [STEPS]]: what a model may have of its own: metrics, a statistic that micro-batches give, a program
// that changes weights every ten steps, programs on request, and a source of samples.
#include <ramet/ramet.h>

#include <cmath>
#include <cstdio>

using namespace ramet;

namespace {

constexpr int64_t kWidth = 16, kInner = 64;
constexpr double kMost = 0.25;  // of any number in the table of a part

Model custom(int64_t samples) {
  ModelBuilder m("custom");
  const Tensor rows = m.input("rows", DType::kF32, {samples, kWidth}, {.low = -1, .high = 1});
  const Tensor wanted = m.input("wanted", DType::kF32, {samples});

  // A statistic: each micro-batch gives its mean, and the update folds all of them, in order, into the running one.
  m.state("mean", {DType::kF32, {kWidth}}, StateRole::kDeferred, Init::zeros(),
          {.fold = {.by = "average", .momentum = 0.05}});
  const Tensor mean = reduce_mean(rows, {0});
  m.set_state("mean", mean);
  Tensor x = rows - by_use(mean, m.state("mean"));

  for (int i = 0; i < 4; ++i) {
    PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up", {kInner, kWidth}, Init::fan_in(), {.axes = {"mlp", "embed"}});
    const Tensor down = m.weight(name + ".down", {kWidth, kInner}, Init::fan_in(0.5), {.axes = {"embed", "mlp"}});
    x = x + matmul(relu(matmul(x, up, false, true)), down, false, true);
  }
  const Tensor told = reshape(matmul(x, m.weight("last", {1, kWidth}, Init::fan_in(1)), false, true), {samples});
  const Tensor off = told - wanted, squares = off * off;
  m.loss(reduce_mean(squares));

  // A metric: the share of rows that are told well, among those with a number above 0.
  const Tensor counts = cast(less(m.full(DType::kF32, {}, 0), wanted), DType::kF32);
  const Tensor near = cast(less(squares, m.full(DType::kF32, {}, 0.01)), DType::kF32);
  m.metric("near", Ratio{reduce_sum(near * counts), reduce_sum(counts)});
  m.metric("rows", Sum{reduce_sum(counts)});
  m.output("told", told);

  // Every ten steps: no number of the first table is greater than kMost.
  m.program("limit", When::each_steps(10), [](ProgramBuilder& p) {
    const Tensor table = p.state("layer0.up");
    const Tensor limited = minimum(maximum(table, p.full(DType::kF32, {}, -kMost)), p.full(DType::kF32, {}, kMost));
    p.set_state("layer0.up", limited);
    p.output("cut", reduce_sum(cast(less(p.full(DType::kF32, {}, kMost), map_unary("abs", table)), DType::kF32)));
  });
  // On request, on data: how far rows are from the running mean.
  m.program("distance", When::on_request(), [](ProgramBuilder& p) {
    const Tensor off_mean = p.input("rows") - p.state("mean");
    p.output("distance", sqrt(reduce_sum(off_mean * off_mean, {1})));
  });
  return m.build();
}

/// Sample i is a function of i.
class Rows final : public Source {
 public:
  explicit Rows(int64_t first) : first_(first) {}
  void fill(int64_t first, int64_t count, std::span<const Place> places) const override {
    const std::span<float> rows = places[0].as<float>(), wanted = places[1].as<float>();
    for (int64_t i = 0; i < count; ++i) {
      uint64_t state = static_cast<uint64_t>(first_ + first + i) * 0x9e3779b97f4a7c15u + 1;
      for (int64_t at = 0; at < kWidth; ++at) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        rows[static_cast<size_t>(i * kWidth + at)] = static_cast<float>(state >> 40) / (1 << 23) - 1;
      }
      const float* row = &rows[static_cast<size_t>(i * kWidth)];
      wanted[static_cast<size_t>(i)] = row[0] * row[1] + (row[2] > 0 ? row[3] : row[4]);
    }
  }
  int64_t samples() const override { return 4096; }
  std::string identity() const override { return "custom rows from " + std::to_string(first_); }

 private:
  const int64_t first_;
};

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
  Training training(custom(32), options, train, others);
  double cut = 0;
  const FitResult result = training.fit(
      {.on_step =
           [&](const StepResult& step) {
             if (step.step % 10 == 0) cut = training.results("limit")["cut"];
             if (step.step % 25 == 0)
               std::printf("step %lld: loss %.9g, near %.9g of %g rows, cut %g\n", static_cast<long long>(step.step),
                           step.loss, step.metrics["near"], step.metrics["rows"], cut);
           },
       .on_evaluation =
           [](int64_t step, const Metrics& numbers) {
             std::printf("after %lld: loss %.9g, near %.9g\n", static_cast<long long>(step), numbers["loss"],
                         numbers["near"]);
           }});
  const std::vector<float> two(2 * 32 * kWidth, 0.5f);
  std::printf("distance %.9g, told %.9g\n", training.run("distance", {{"rows", two}})["distance"].at(0),
              training.predict({{"rows", std::span(two).first(3 * kWidth)}})["told"].at(2));
  std::printf("%lld steps, weights %s\n", static_cast<long long>(result.steps), training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
