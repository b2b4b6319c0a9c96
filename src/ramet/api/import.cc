#include <cstring>

#include "ramet/api/contents.h"
#include "ramet/base/error.h"
#include "ramet/front/pt2.h"
#include "ramet/front/step_outputs.h"
#include "ramet/front/table.h"
#include "ramet/front/torch_json.h"
#include "ramet/import.h"

namespace ramet::v0 {
namespace {

ir::TensorData data_of(const TorchTensor& tensor, const std::string& module) {
  const ArrayView& numbers = tensor.numbers;
  if (numbers.dtype() != tensor.type.dtype || numbers.elements() != tensor.type.elements() ||
      (numbers.elements() > 0 && !numbers.data()))
    throw Error({.what = "the numbers of a tensor are not those of its type",
                 .where = "'" + tensor.name + "' of module '" + module + "'",
                 .found = std::to_string(numbers.elements()) + " of " + std::string(name_of(numbers.dtype())),
                 .expected = tensor.type.text()});
  HostTensor copy(tensor.type);
  if (!copy.data.empty()) std::memcpy(copy.data.data(), numbers.data(), copy.data.size());
  return ir::TensorData(std::move(copy));
}

front::ModuleTensor front_tensor(const TorchTensor& tensor, const std::string& module) {
  front::ModuleTensor made{.name = tensor.name, .storage = tensor.storage, .trained = tensor.trained};
  if (!tensor.fill) {
    made.data = data_of(tensor, module);
    return made;
  }
  if (tensor.type.dtype != DType::kF32)
    throw Error({.what = "numbers that are read later must be f32",
                 .where = "'" + tensor.name + "' of module '" + module + "'",
                 .found = tensor.type.text()});
  made.fill = tensor.fill, made.later = tensor.type;
  return made;
}

/// What a module says beside its programs and tensors.
front::TracedModule options_of(const TorchModule& module) {
  front::TracedModule made;
  made.name = module.name;
  made.outputs = module.outputs;
  made.loss = module.loss, made.loss_items = module.loss_items;
  for (const auto& [pattern, axes] : module.axes) {
    std::vector<transform::LogicalAxis> logical;
    for (const WeightAxis& axis : axes) logical.push_back({axis.name, axis.blocks, 0});
    made.axes.emplace_back(pattern, std::move(logical));
  }
  made.parts = module.parts;
  made.predicts = module.predicts;
  made.seed = module.seed;
  return made;
}

Model import_traced(front::TracedModule traced, const std::vector<std::string>& step_outputs) {
  auto contents = std::make_shared<Model::Contents>();
  front::ImportedModel imported = front::import_module(std::move(traced), step_outputs);
  contents->engine = std::move(imported.model);
  contents->micro_batch = imported.micro_batch;
  return Model(std::move(contents));
}

}  // namespace

Model import_torch(const TorchModule& module) {
  front::TracedModule traced = options_of(module);
  const std::string where = "module '" + module.name + "'";
  if (!module.training.empty()) traced.training = front::read_torch_program(module.training, where + " in training");
  if (!module.evaluation.empty())
    traced.evaluation = front::read_torch_program(module.evaluation, where + " in evaluation");
  for (const TorchTensor& tensor : module.tensors) traced.tensors.push_back(front_tensor(tensor, module.name));
  return import_traced(std::move(traced), module.step_outputs);
}

Model load_torch(const std::string& path, const TorchModule& options) {
  return import_traced(front::read_pt2(path, options_of(options)), options.step_outputs);
}

std::vector<std::string> torch_operators() {
  std::vector<std::string> names;
  for (const std::string_view name : front::operator_names()) names.emplace_back(name);
  return names;
}

}  // namespace ramet::v0
