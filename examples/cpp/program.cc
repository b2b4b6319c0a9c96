// program [LAYOUT [STEPS [FILE]]]: programs of one's own beside training, one every ten steps and one on request. With
// FILE (program.ramet) the model is saved for the commands: `ramet inspect program.ramet`. Every layout prints the same
// lines.
#include <cstdio>

#include "rows.h"

using namespace ramet;

namespace {

constexpr int64_t kWidth = Rows::kWidth, kInner = 64;
constexpr double kMost = 0.25;  // of any number in the table of the first layer

Model limited(int64_t samples) {
  ModelBuilder m("limited");
  Tensor x = m.input("rows", DType::kF32, {samples, kWidth}, {.low = -1, .high = 1});
  const Tensor wanted = m.input("wanted", DType::kF32, {samples});
  for (int i = 0; i < 4; ++i) {
    PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up", {kInner, kWidth}, Init::fan_in(), {.axes = {"mlp", "embed"}});
    const Tensor down = m.weight(name + ".down", {kWidth, kInner}, Init::fan_in(0.5), {.axes = {"embed", "mlp"}});
    x = x + matmul(relu(matmul(x, up, false, true)), down, false, true);
  }
  const Tensor told = reshape(matmul(x, m.weight("last", {1, kWidth}, Init::fan_in(1)), false, true), {samples});
  const Tensor off = told - wanted;
  m.loss(reduce_mean(off * off));
  m.output("told", told);

  // Every ten steps: no number of the first table is greater than kMost. Tells how many were.
  m.program("limit", When::each_steps(10), [](ProgramBuilder& p) {
    const Tensor table = p.state("layer0.up"), most = p.full(DType::kF32, {}, kMost);
    p.set_state("layer0.up", minimum(maximum(table, p.full(DType::kF32, {}, -kMost)), most));
    p.output("cut", reduce_sum(cast(less(most, map_unary("abs", table)), DType::kF32)));
  });
  // On request, on data: how much the first layer makes of rows.
  m.program("first", When::on_request(), [](ProgramBuilder& p) {
    const Tensor made = relu(matmul(p.input("rows"), p.state("layer0.up"), false, true));
    p.output("first", sqrt(reduce_sum(made * made, {1})));
  });
  return m.build();
}

}  // namespace

int main(int argc, char** argv) try {
  const Model model = limited(32);
  if (argc > 3) model.save(argv[3]);
  Training training(model,
                    {.schedule = {.learning_rate = 2e-3},
                     .micro_batches = 4,
                     .lanes = 2,
                     .chunks = 2,
                     .layout = argc > 1 ? argv[1] : ""},
                    Data::source(std::make_shared<Rows>(0)));
  const int64_t steps = argc > 2 ? std::stoll(argv[2]) : 200;
  while (training.steps_done() < steps) {
    const StepResult step = training.step();
    if (step.step % 10 == 0)
      std::printf("step %lld: loss %.9g, %g numbers cut\n", static_cast<long long>(step.step), step.loss,
                  training.results("limit")["cut"]);
  }
  const std::vector<float> rows(32 * kWidth, 0.5f);
  std::printf("first %.9g, told %.9g\n", training.run("first", {{"rows", rows}})["first"].at(0),
              training.predict({{"rows", std::span(rows).first(3 * kWidth)}})["told"].at(2));
  std::printf("weights %s\n", training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
