// predict WEIGHTS [LAYOUT [FOLDER]]: classifies the images of Fashion-MNIST's test set, with weights that mlp saved.
#include <cstdio>

#include "mlp.h"

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: predict WEIGHTS [LAYOUT [FOLDER]]");
  static constexpr const char* kNames[] = {"T-shirt", "trousers", "pullover", "dress", "coat",
                                           "sandal",  "shirt",    "sneaker",  "bag",   "boot"};
  const Fashion test(argc > 3 ? argv[3] : Fashion::kFolder, "t10k");
  ramet::Predictor predictor(mlp(64), argv[1], {.chunks = 2, .layout = argc > 2 ? argv[2] : ""});
  const ramet::Arrays outputs = predictor.predict({{"pixels", test.pixels}});  // any number of samples
  const ramet::Array& logits = outputs["logits"];
  const std::vector<int64_t> classes = logits.argmax();
  int64_t right = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (i < 8)
      std::printf("%zu: %s (%.9g), is %s\n", i, kNames[classes[i]],
                  logits.at(static_cast<int64_t>(i) * 10 + classes[i]), kNames[test.labels[i]]);
    right += classes[i] == test.labels[i];
  }
  std::printf("%lld of %zu right\n", static_cast<long long>(right), classes.size());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
