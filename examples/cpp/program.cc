// program [LAYOUT [STEPS [FILE]]]: two programs beside training, one that runs every ten steps and one on request. With
// FILE (program.ramet), it saves the model for the commands: `ramet inspect program.ramet`. Every layout prints the
// same lines.
#include <cstdio>

#include "rows.h"

using namespace ramet;

namespace {

constexpr int64_t kWidth = Rows::kWidth, kSamples = 256;
constexpr double kMost = 0.25;  // greatest magnitude of an element of layer0.up

Model limited(int64_t samples) {
  ModelBuilder m("limited");
  const Tensor x = m.input("rows", DType::kF32, {samples, kWidth}, {.low = -1, .high = 1});
  const Tensor wanted = m.input("wanted", DType::kF32, {samples});
  const Tensor predicted = predict_rows(m, x);
  const Tensor off = predicted - wanted;
  m.loss(reduce_mean(off * off));
  m.output("predicted", predicted);

  // Every ten steps: limits the elements of layer0.up to [-kMost, kMost], and counts the elements that were outside.
  m.program("limit", When::each_steps(10), [](ProgramBuilder& p) {
    const Tensor table = p.state("layer0.up"), most = p.full(DType::kF32, {}, kMost);
    p.set_state("layer0.up", minimum(maximum(table, p.full(DType::kF32, {}, -kMost)), most));
    p.output("cut", reduce_sum(cast(less(most, map_unary("abs", table)), DType::kF32)));
  });
  // On request, on data: for each row, the norm of the activations in layer 0.
  m.program("first", When::on_request(), [](ProgramBuilder& p) {
    const Tensor made = relu(matmul(p.input("rows"), p.state("layer0.up"), false, true));
    p.output("first", sqrt(reduce_sum(made * made, {1})));
  });
  return m.build();
}

}  // namespace

int main(int argc, char** argv) try {
  const Model model = limited(kSamples);
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
  const std::vector<float> rows(kSamples * kWidth, 0.5f);
  std::printf("first %.9g, predicted %.9g\n", training.run("first", {{"rows", rows}})["first"].at(0),
              training.predict({{"rows", std::span(rows).first(3 * kWidth)}})["predicted"].at(2));
  std::printf("weights %s\n", training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
