// Trains a small model without dropout in f32 and writes what another framework needs to repeat it: the first weights,
// every batch, the settings, and the losses. bench/peers/torch_parity.py repeats it in PyTorch and compares.
//
//     build/bench/parity --model bert --out build/parity-bert [--steps 100] [--threads 2]

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/learning_rate.h"
#include "ramet/train/training.h"
#include "ramet/weights/safetensors.h"

#include "../tests/train/parity_recipe.h"

namespace {

using namespace ramet::bench;

void write_weights(const Training& trainer, const std::filesystem::path& path) {
  std::vector<SafetensorsSpec> specs;
  for (const StateTensor& weight : trainer.model().weights) specs.push_back({weight.name, weight.type});
  SafetensorsWriter writer(path, specs);
  for (const StateTensor& weight : trainer.model().weights) {
    std::vector<std::byte> bytes(static_cast<size_t>(weight.type.bytes()));
    trainer.read_state(weight.name, bytes);
    writer.write(bytes.data(), bytes.size());
  }
  writer.close();
}

void write_batches(const Preparation& preparation, int64_t steps, const std::filesystem::path& path) {
  std::vector<Batch> batches;
  std::vector<SafetensorsSpec> specs;
  const int64_t samples = preparation.samples_per_step();
  for (int64_t step = 0; step < steps; ++step) {
    batches.push_back(preparation.workload.train->make(step * samples, samples));
    for (const NamedTensor& tensor : batches.back().tensors)
      specs.push_back({std::to_string(step) + "/" + tensor.name, tensor.type});
  }
  SafetensorsWriter writer(path, specs);
  for (const Batch& batch : batches)
    for (const NamedTensor& tensor : batch.tensors) writer.write(tensor.bytes.data(), tensor.bytes.size());
  writer.close();
}

nlohmann::json config_of(const Recipe& recipe, int64_t steps) {
  nlohmann::json config = {{"model", recipe.model.kind},
                           {"layers", *recipe.model.layers},
                           {"hidden", *recipe.model.hidden},
                           {"heads", *recipe.model.heads},
                           {"vocabulary", *recipe.model.vocabulary_size},
                           {"positions", *recipe.model.max_positions},
                           {"beta1", recipe.train.optimizer.beta1},
                           {"beta2", recipe.train.optimizer.beta2},
                           {"epsilon", recipe.train.optimizer.epsilon},
                           {"weight_decay", recipe.train.optimizer.weight_decay},
                           {"clip_norm", recipe.train.clip_norm}};
  for (int64_t step = 0; step < steps; ++step) config["learning_rates"].push_back(learning_rate_at(recipe.train, step));
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model = "bert", out = "build/parity";
  int64_t steps = 100;
  int threads = 2;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--model")
      model = value;
    else if (key == "--out")
      out = value;
    else if (key == "--steps")
      steps = std::stoll(value);
    else if (key == "--threads")
      threads = std::stoi(value);
    else
      return std::fprintf(stderr, "parity: unknown option %s\n", key.c_str()), 2;
  }
  try {
    std::filesystem::create_directories(out);
    Where options;
    options.threads = threads;
    const Recipe recipe = parse_recipe(parity_recipe(model), "parity", ".");
    const Preparation preparation = prepare(recipe);
    Training trainer = make_training(prepare(recipe), options);
    trainer.initialize();
    write_weights(trainer, out + "/weights.safetensors");
    write_batches(preparation, steps, out + "/batches.safetensors");
    nlohmann::json config = config_of(preparation.recipe, steps);
    for (int64_t step = 0; step < steps; ++step) {
      const double loss = number_of(trainer.step(), "loss");
      config["losses"].push_back(loss);
      if (step % 10 == 0) std::printf("step %lld loss %.6f\n", static_cast<long long>(step), loss), std::fflush(stdout);
    }
    write_file_atomic(out + "/config.json", config.dump());
  } catch (const Error& error) {
    std::fprintf(stderr, "parity: %s\n", error.what());
    return 1;
  }
}
