#include "ramet/front/onnx_model.h"

#include <cstring>

#include "ramet/api/contents.h"
#include "ramet/front/onnx_export.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/onnx.h"

namespace ramet::v0 {

Model load_onnx(const std::string& path, const OnnxReading& options) {
  front::ImportedModel read = front::import_onnx_model(
      std::filesystem::path(path),
      {.bind = options.bind, .loss = options.loss, .train = options.train, .freeze = options.freeze});
  auto contents = std::make_shared<Model::Contents>();
  contents->engine = std::move(read.model);
  contents->micro_batch = read.micro_batch;
  return Model(std::move(contents));
}

void save_onnx(const Model& model, const std::string& path, const OnnxWriting& options) {
  const model::Model& engine = model.contents().engine;
  std::map<std::string, HostTensor> learned;
  if (!options.weights.empty()) {
    const std::vector<transform::StateTensor> weights = model::dense_published(engine);
    std::map<std::string, TensorType> types;
    for (const transform::StateTensor& weight : weights) types.emplace(weight.name, weight.type);
    model::import_weights(options.weights, weights, [&](const std::string& name, std::span<const std::byte> bytes) {
      HostTensor tensor(types.at(name));
      std::memcpy(tensor.data.data(), bytes.data(), std::min(bytes.size(), tensor.data.size()));
      learned[name] = std::move(tensor);
    });
  }
  const front::StateValue first = front::first_values(engine);
  front::write_onnx(path, front::predictions_of(engine, options.program), engine.name,
                    [&](const std::string& name) {
                      const auto found = learned.find(name);
                      return found == learned.end() ? first(name) : found->second;
                    },
                    {.opset = options.opset, .external = options.external_data});
}

}  // namespace ramet::v0
