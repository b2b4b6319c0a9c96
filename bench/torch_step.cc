// Imports a traced PyTorch module and takes steps of SGD on one batch (bench/torch_survey.py).
//   build/bench/torch_step FOLDER [STEPS] [LAYOUT]
//
// FOLDER holds program.json (the text of the training program), tensors.safetensors (parameters, buffers and constants
// under their names, inputs under "input/NAME") and case.json: {"tensors": [{"name", "storage", "trained"}], "outputs",
// "loss", "rate"}. The answer is one line of JSON: {"losses", "import_seconds", "compile_seconds", "nodes"}, or
// {"refused"}. After the steps, the weights are written to FOLDER/after.safetensors.
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/weights/safetensors.h"

#include "ramet/import.h"
#include "ramet/train.h"

namespace ramet::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error({.what = "cannot read a file", .where = path});
  return {std::istreambuf_iterator<char>(file), {}};
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A tensor of the file, in aligned memory.
struct Loaded {
  std::vector<std::byte> bytes;
  TensorType type;
  v0::ArrayView view() const { return {type.dtype, bytes.data(), type.elements()}; }
};

Loaded load(const weights::SafetensorsReader& file, const std::string& name) {
  const weights::SafetensorsEntry& entry = file.get(name);
  Loaded loaded{std::vector<std::byte>(entry.end - entry.begin), entry.type};
  file.read(entry, 0, loaded.bytes);
  return loaded;
}

Json take_steps(const std::string& folder, int64_t steps, const std::string& layout) {
  const Json described = Json::parse(text_of_file(folder + "/case.json"));
  const weights::SafetensorsReader file(folder + "/tensors.safetensors");
  std::vector<Loaded> kept;
  kept.reserve(file.tensors().size());
  v0::TorchModule module;
  module.training = text_of_file(folder + "/program.json");
  for (const Json& tensor : described.at("tensors")) {
    kept.push_back(load(file, tensor.at("name")));
    module.tensors.push_back({.name = tensor.at("name"),
                              .type = kept.back().type,
                              .numbers = kept.back().view(),
                              .storage = tensor.at("storage"),
                              .trained = tensor.at("trained")});
  }
  module.outputs = described.at("outputs").get<std::vector<std::string>>();
  module.loss = described.at("loss");
  auto start = Clock::now();
  const v0::Model model = v0::import_torch(module);
  Json answer{{"import_seconds", seconds_since(start)}};
  start = Clock::now();
  v0::TrainOptions options;
  options.optimizer = v0::Sgd{};
  options.schedule.learning_rate = described.at("rate");
  options.layout = layout;
  v0::Training training(model, options);
  answer["compile_seconds"] = seconds_since(start);
  v0::NamedViews samples;
  std::vector<Loaded> inputs;
  inputs.reserve(file.tensors().size());
  for (const weights::SafetensorsEntry& entry : file.tensors())
    if (entry.name.starts_with("input/")) {
      inputs.push_back(load(file, entry.name));
      samples.emplace_back(entry.name.substr(6), inputs.back().view());
    }
  start = Clock::now();
  answer["losses"] = Json::array();
  for (int64_t step = 0; step < steps; ++step) answer["losses"].push_back(training.step(samples).loss);
  answer["step_seconds"] = seconds_since(start) / static_cast<double>(steps);
  training.save_weights(folder + "/after.safetensors");
  answer["hash"] = training.weights_hash();
  return answer;
}

}  // namespace
}  // namespace ramet::bench

int main(int count, char** arguments) {
  using ramet::bench::Json;
  if (count < 2) return 2;
  Json answer;
  try {
    answer = ramet::bench::take_steps(arguments[1], count > 2 ? std::stoll(arguments[2]) : 1, count > 3 ? arguments[3] : "");
  } catch (const std::exception& error) {
    answer["refused"] = error.what();
  }
  std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}
