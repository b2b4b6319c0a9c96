// mlp [LAYOUT [EPOCHS [FOLDER [WEIGHTS]]]]: trains an MLP on Fashion-MNIST. Every layout prints the same lines.
#include "mlp.h"

#include <cstdio>

int main(int argc, char** argv) try {
  const auto argument = [&](int i, const char* otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  const Fashion train(argument(3, Fashion::kFolder), "train"), test(argument(3, Fashion::kFolder), "t10k");
  const int64_t epochs = std::stoll(argument(2, "4"));
  ramet::TrainOptions options{.micro_batches = 4, .lanes = 2, .chunks = 2, .layout = argument(1, "")};
  const int64_t samples = 50, steps = static_cast<int64_t>(train.labels.size()) / (samples * options.micro_batches);
  options.steps = epochs * steps;
  options.schedule = {.kind = ramet::Schedule::Kind::kCosine, .learning_rate = 2e-3, .warmup_steps = 20};
  ramet::Training training(mlp(samples), options,
                           ramet::Data::arrays({{"pixels", train.pixels}, {"labels", train.labels}}));
  std::fputs(training.plan().c_str(), stderr);
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    ramet::StepResult last;
    for (int64_t i = 0; i < steps; ++i) last = training.step();
    const ramet::Metrics now = training.evaluate({{"pixels", test.pixels}, {"labels", test.labels}});
    std::printf("epoch %lld: loss %.9g, of the test set %.9g, accuracy %.2f%%\n", static_cast<long long>(epoch),
                last.loss, now["loss"], 100 * now["accuracy"]);
  }
  std::printf("weights %s\n", training.weights_hash().c_str());
  if (argc > 4) training.save_weights(argv[4]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
