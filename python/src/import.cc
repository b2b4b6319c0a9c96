#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>

#include <cstring>

#include "arrays.h"
#include "builder.h"

namespace ramet_python {
namespace {

/// A tensor of a PyTorch module, with the array of Python's that its numbers lie in.
struct PyTorchTensor {
  ramet::TorchTensor tensor;
  std::shared_ptr<const ArrayArgument> kept;
};

using AxisArgument = std::variant<std::string, std::pair<std::string, int64_t>>;
using AxesArgument = std::vector<std::pair<std::string, std::vector<AxisArgument>>>;

std::vector<std::pair<std::string, std::vector<ramet::WeightAxis>>> axes_of(const AxesArgument& given) {
  std::vector<std::pair<std::string, std::vector<ramet::WeightAxis>>> all;
  for (const auto& [pattern, axes] : given) {
    auto& made = all.emplace_back(pattern, std::vector<ramet::WeightAxis>{}).second;
    for (const AxisArgument& axis : axes) {
      if (const auto* name = std::get_if<std::string>(&axis))
        made.emplace_back(*name);
      else
        made.emplace_back(std::get<1>(axis).first, std::get<1>(axis).second);
    }
  }
  return all;
}

/// A piece of a tensor: `count` elements from `first` on.
using PieceOf = std::function<nb::object(int64_t first, int64_t count)>;

/// The function of Python as one that writes into memory. It may be called without the GIL.
std::function<void(int64_t, std::span<float>)> filler(const std::string& name, PieceOf piece_of) {
  return [name, piece_of = std::move(piece_of)](int64_t first, std::span<float> to) {
    const nb::gil_scoped_acquire gil;
    const ArrayArgument piece(piece_of(first, static_cast<int64_t>(to.size())));
    if (piece.view().dtype() != ramet::DType::kF32 || piece.view().elements() != static_cast<int64_t>(to.size()))
      throw ramet::Error({.what = "a piece of a tensor is of another type or size",
                          .where = "'" + name + "' from element " + std::to_string(first),
                          .found = std::to_string(piece.view().elements()) + " of " +
                                   std::string(ramet::name_of(piece.view().dtype())),
                          .expected = std::to_string(to.size()) + " of f32"});
    if (!to.empty()) std::memcpy(to.data(), piece.view().data(), to.size_bytes());
  };
}

}  // namespace

void bind_import(nb::module_& m) {
  nb::class_<PyTorchTensor>(m, "TorchTensor", "A parameter, a buffer or a constant tensor of a PyTorch module.")
      .def(
          "__init__",
          [](PyTorchTensor* self, const std::string& name, nb::object numbers, const std::string& storage, bool trained,
             const std::vector<int64_t>& shape) {
            std::shared_ptr<const ArrayArgument> kept;
            ramet::TorchTensor tensor;
            if (nb::hasattr(numbers, "__call__")) {
              tensor.type = {ramet::DType::kF32, ramet::Shape(shape)};
              tensor.fill = filler(name, nb::cast<PieceOf>(numbers));
            } else {
              kept = std::make_shared<const ArrayArgument>(numbers);
              tensor.type = {kept->view().dtype(), kept->shape}, tensor.numbers = kept->view();
            }
            tensor.name = name, tensor.storage = storage, tensor.trained = trained;
            new (self) PyTorchTensor{std::move(tensor), std::move(kept)};
          },
          "name"_a, "numbers"_a, "storage"_a = "", "trained"_a = true, "shape"_a = std::vector<int64_t>{},
          "`storage`: tensors with the same text are one tensor (tied weights); '': of its own. `numbers` may be a "
          "function "
          "of (first, count) that gives so many elements, f32, from that one on; then `shape` is the tensor's.")
      .def_prop_ro("name", [](const PyTorchTensor& self) { return self.tensor.name; });
  const auto module_of = [](const std::string& name, std::string training, std::string evaluation,
                            const std::vector<const PyTorchTensor*>& tensors, std::vector<std::string> outputs,
                            const std::string& loss, const std::string& loss_items, const AxesArgument& axes,
                            std::vector<std::string> parts, uint64_t seed, std::vector<std::string> step_outputs) {
    ramet::TorchModule module;
    module.name = name, module.training = std::move(training), module.evaluation = std::move(evaluation);
    for (const PyTorchTensor* tensor : tensors) module.tensors.push_back(tensor->tensor);
    module.outputs = std::move(outputs), module.loss = loss, module.loss_items = loss_items;
    module.axes = axes_of(axes), module.parts = std::move(parts), module.seed = seed;
    module.step_outputs = std::move(step_outputs);
    return module;
  };
  m.def(
      "import_torch",
      [=](const std::string& name, std::string training, std::string evaluation,
          const std::vector<const PyTorchTensor*>& tensors, std::vector<std::string> outputs, const std::string& loss,
          const std::string& loss_items, const AxesArgument& axes, std::vector<std::string> parts, uint64_t seed,
          bool predicts, std::vector<std::string> step_outputs) {
        ramet::TorchModule module =
            module_of(name, std::move(training), std::move(evaluation), tensors, std::move(outputs), loss, loss_items,
                      axes, std::move(parts), seed, std::move(step_outputs));
        module.predicts = predicts;
        const nb::gil_scoped_release released;
        return ramet::import_torch(module);
      },
      nb::kw_only(), "name"_a = "module", "training"_a = "", "evaluation"_a = "",
      "tensors"_a = std::vector<const PyTorchTensor*>{}, "outputs"_a = std::vector<std::string>{}, "loss"_a = "",
      "loss_items"_a = "", "axes"_a = AxesArgument{}, "parts"_a = std::vector<std::string>{}, "seed"_a = uint64_t(0),
      "predicts"_a = true, "step_outputs"_a = std::vector<std::string>{},
      "A module that torch.export has traced as a model of Ramet (see ramet/import.h). `training` and `evaluation` are "
      "the texts of models/model.json of a .pt2 file.");
  m.def(
      "load_torch",
      [=](const std::filesystem::path& path, const std::string& name, std::vector<std::string> outputs,
          const std::string& loss, const std::string& loss_items, const AxesArgument& axes,
          std::vector<std::string> parts, uint64_t seed, std::vector<std::string> step_outputs) {
        const ramet::TorchModule module = module_of(name, "", "", {}, std::move(outputs), loss, loss_items, axes,
                                                    std::move(parts), seed, std::move(step_outputs));
        const nb::gil_scoped_release released;
        return ramet::load_torch(path.string(), module);
      },
      "path"_a, nb::kw_only(), "name"_a = "module", "outputs"_a = std::vector<std::string>{}, "loss"_a = "",
      "loss_items"_a = "", "axes"_a = AxesArgument{}, "parts"_a = std::vector<std::string>{}, "seed"_a = uint64_t(0),
      "step_outputs"_a = std::vector<std::string>{},
      "Reads a .pt2 file that ramet.torch.save or torch.export.save wrote.");
  m.def(
      "load_onnx",
      [](const std::filesystem::path& path, const std::map<std::string, int64_t>& bind, const std::string& loss,
         const std::vector<std::string>& train, const std::vector<std::string>& freeze) {
        const nb::gil_scoped_release released;
        return ramet::load_onnx(path.string(), {.bind = bind, .loss = loss, .train = train, .freeze = freeze});
      },
      "path"_a, nb::kw_only(), "bind"_a = std::map<std::string, int64_t>{}, "loss"_a = "",
      "train"_a = std::vector<std::string>{}, "freeze"_a = std::vector<std::string>{},
      "Reads an ONNX file. `bind` gives extents of named dimensions, `loss` an output or "
      "'cross_entropy:LOGITS:LABELS'; `train` and `freeze` are patterns of initializers.");
  m.def(
      "save_onnx",
      [](const ramet::Model& model, const std::filesystem::path& path, const std::string& program, int64_t opset,
         bool external_data, const std::optional<std::filesystem::path>& weights) {
        const nb::gil_scoped_release released;
        ramet::save_onnx(model, path.string(),
                         {.program = program,
                          .opset = opset,
                          .external_data = external_data,
                          .weights = weights ? weights->string() : ""});
      },
      "model"_a, "path"_a, nb::kw_only(), "program"_a = "", "opset"_a = int64_t(20), "external_data"_a = false,
      "weights"_a = nb::none(),
      "Writes a model as an ONNX file. `weights` is a file of Training.save_weights; without it the file has the "
      "numbers that the model holds.");
  m.def("torch_operators", &ramet::torch_operators, "The ATen operators that Ramet takes, such as \"aten.conv2d\".");
}

}  // namespace ramet_python
