#include "builder.h"

#include <nanobind/stl/filesystem.h>

#include "arrays.h"

namespace ramet_python {
namespace {

using ramet::Tensor;

const std::pair<const char*, ramet::StateRole> kRoles[] = {{"constant", ramet::StateRole::kConstant},
                                                           {"pattern", ramet::StateRole::kPattern},
                                                           {"deferred", ramet::StateRole::kDeferred},
                                                           {"chained", ramet::StateRole::kChained},
                                                           {"kept", ramet::StateRole::kKept}};

std::vector<ramet::WeightAxis> axes_of(const std::vector<AxisArgument>& given) {
  std::vector<ramet::WeightAxis> axes;
  for (const AxisArgument& each : given) axes.push_back(axis_of(each));
  return axes;
}

/// `with m.scope("head"):` and `with m.part("encoder", 3):`.
class ScopeContext {
 public:
  ScopeContext(nb::object owner, std::string name, std::optional<int64_t> index)
      : owner_(std::move(owner)), name_(std::move(name)), index_(index) {}
  void enter() {
    if (scope_) throw ramet::Error({.what = "a scope that is open already", .found = "'" + name_ + "'"});
    ramet::Builder& builder = nb::cast<PyBuilder&>(owner_).get();
    if (index_)
      scope_ = std::make_unique<ramet::PartScope>(builder, name_, *index_);
    else
      scope_ = std::make_unique<ramet::Scope>(builder, name_);
  }
  void leave() { scope_.reset(); }

 private:
  const nb::object owner_;  ///< the builder, which must outlive the scope
  const std::string name_;
  const std::optional<int64_t> index_;
  std::unique_ptr<ramet::Scope> scope_;
};

ramet::InputOptions input_options(std::vector<std::string> axes, std::optional<double> low,
                                  std::optional<double> high) {
  return {.axes = std::move(axes), .low = low, .high = high};
}

void bind_init(nb::module_& m) {
  using ramet::Init;
  nb::class_<Init>(m, "Init", "The first values of a weight or another state.")
      .def_static("zeros", &Init::zeros)
      .def_static("ones", &Init::ones)
      .def_static("constant", &Init::constant, "value"_a)
      .def_static("normal", &Init::normal, "deviation"_a, "mean"_a = 0.0)
      .def_static("truncated_normal", &Init::truncated_normal, "deviation"_a, "mean"_a = 0.0,
                  "Normal numbers; a number more than two deviations from the mean is drawn again.")
      .def_static("uniform", &Init::uniform, "low"_a, "high"_a)
      .def_static("iota", &Init::iota, "first"_a = 0.0, "step"_a = 1.0, "Element i is first + step * i.")
      .def_static("fan_in", &Init::fan_in, "gain"_a = 1.4142135623730951,
                  "Normal numbers of deviation gain / sqrt(n); n is the product of all dimensions but the first.")
      .def_static("by", &Init::by, "name"_a, "function"_a,
                  "A pure function of the element's row-major index. Different functions need different names.")
      .def_static(
          "numbers",
          [](nb::object array, std::optional<DTypeArgument> dtype) {
            return Init::numbers(ArrayArgument(array, dtype_of(dtype).value_or(ramet::DType::kF32)).view());
          },
          "array"_a, nb::kw_only(), "dtype"_a = nb::none(), "Copies these numbers. `dtype` is the type of lists.");
}

void bind_when(nb::module_& m) {
  using ramet::When;
  nb::class_<When>(m, "When", "When a program runs.")
      .def_static("on_request", &When::on_request, "When the caller asks for it with `run`.")
      .def_static("each_micro_batch", &When::each_micro_batch,
                  "For every micro-batch of training, on its data. The program writes no state.")
      .def_static("each_steps", &When::each_steps, "n"_a = int64_t(1), "micro_batch"_a = int64_t(-1),
                  "After every n-th step, on the data of that micro-batch of the step; -1: on no data.");
}

template <typename Metric, typename... Names>
void bind_metric(nb::module_& m, const char* name, const char* doc, Names... fields) {
  nb::class_<Metric>(m, name, doc)
      .def(
          "__init__",
          [](Metric* self, decltype((void)fields, OperandArgument{})... given) { new (self) Metric{given.tensor...}; },
          nb::arg(fields)...);
}

void bind_metrics(nb::module_& m) {
  bind_metric<ramet::Mean>(m, "Mean", "A metric: the mean over micro-batches.", "value");
  bind_metric<ramet::Sum>(m, "Sum", "A metric: the sum over micro-batches.", "value");
  bind_metric<ramet::Ratio>(m, "Ratio", "A metric: sum of numerators / sum of denominators; NaN for 0 / 0.",
                            "numerator", "denominator");
  bind_metric<ramet::MeanOver>(m, "MeanOver", "A metric: the mean over `items` items of a micro-batch, over all items.",
                               "mean", "items");
  nb::class_<ramet::ExpOf>(m, "ExpOf", "A metric: e to the power of an earlier metric.")
      .def(nb::init<std::string>(), "metric"_a);
}

void bind_base(nb::module_& m) {
  const auto guard = nb::call_guard<AtCaller>();
  nb::class_<PyBuilder>(m, "Builder", "What builders of models and of programs share.")
      .def(
          "weight",
          [](PyBuilder& self, const std::string& name, std::vector<int64_t> shape, std::optional<ramet::Init> init,
             const std::vector<AxisArgument>& axes, std::optional<bool> decays, const std::string& file_name) {
            return self.get().weight(name, ramet::Shape(std::move(shape)), init ? *init : ramet::Init::zeros(),
                                     {.axes = axes_of(axes), .decays = decays, .file_name = file_name});
          },
          guard, "name"_a, "shape"_a, "init"_a = nb::none(), nb::kw_only(), "axes"_a = std::vector<AxisArgument>{},
          "decays"_a = nb::none(), "file_name"_a = "",
          "A weight, f32, by default zeros. Another call with the same name returns the same (tied) weight.")
      .def(
          "set_state",
          [](PyBuilder& self, const std::string& name, const OperandArgument& value) {
            self.get().set_state(name, value.tensor);
          },
          guard, "name"_a, "value"_a, "Sets the next value of a state.")
      .def(
          "full",
          [](PyBuilder& self, const DTypeArgument& dtype, std::vector<int64_t> shape, double value) {
            return self.get().full(dtype.dtype(), ramet::Shape(std::move(shape)), value);
          },
          guard, "dtype"_a, "shape"_a, "value"_a, "A tensor filled with `value`.")
      .def(
          "iota",
          [](PyBuilder& self, const DTypeArgument& dtype, std::vector<int64_t> shape, int64_t axis) {
            return self.get().iota(dtype.dtype(), ramet::Shape(std::move(shape)), axis);
          },
          guard, "dtype"_a, "shape"_a, "axis"_a, "A tensor whose elements are their index along `axis`.")
      .def(
          "constant",
          [](PyBuilder& self, nb::object numbers, std::optional<DTypeArgument> dtype) {
            const ArrayArgument array(numbers, dtype_of(dtype).value_or(ramet::DType::kF32));
            return self.get().constant(array.shape, array.view());
          },
          guard, "numbers"_a, nb::kw_only(), "dtype"_a = nb::none(),
          "A tensor of these numbers, stored in the graph. `dtype` is the type of lists.")
      .def(
          "scope", [](nb::object self, const std::string& name) { return ScopeContext(self, name, std::nullopt); },
          "name"_a, "A context in which names of nodes begin with this one.")
      .def(
          "part",
          [](nb::object self, const std::string& stack, int64_t index) { return ScopeContext(self, stack, index); },
          "stack"_a, "index"_a,
          "A context that is one part of a stack, such as layer 3 of \"encoder\". Pipelines and phases cut a model "
          "between parts.");
  nb::class_<ScopeContext>(m, "ScopeContext")
      .def(
          "__enter__",
          [](nb::object self) {
            nb::cast<ScopeContext&>(self).enter();
            return self;
          },
          guard)
      .def("__exit__", [](ScopeContext& self, nb::args) { self.leave(); });
}

void bind_program_builder(nb::module_& m) {
  const auto guard = nb::call_guard<AtCaller>();
  nb::class_<PyProgramBuilder, PyBuilder>(m, "ProgramBuilder",
                                          "Builds a program that runs beside training, on the same weights.")
      .def(
          "input", [](PyProgramBuilder& self, const std::string& name) { return self.get().input(name); }, guard,
          "name"_a, "The model's input of that name.")
      .def(
          "input",
          [](PyProgramBuilder& self, const std::string& name, const DTypeArgument& dtype, std::vector<int64_t> shape,
             std::vector<std::string> axes, std::optional<double> low, std::optional<double> high) {
            return self.get().input(name, dtype.dtype(), ramet::Shape(std::move(shape)),
                                    input_options(std::move(axes), low, high));
          },
          guard, "name"_a, "dtype"_a, "shape"_a, nb::kw_only(), "axes"_a = std::vector<std::string>{},
          "low"_a = nb::none(), "high"_a = nb::none(), "An input of the program alone, [samples, ...].")
      .def(
          "state", [](PyProgramBuilder& self, const std::string& name) { return self.get().state(name); }, guard,
          "name"_a, "A declared weight or state, by name.")
      .def(
          "output",
          [](PyProgramBuilder& self, const std::string& name, const OperandArgument& value) {
            self.get().output(name, value.tensor);
          },
          guard, "name"_a, "value"_a, "Declares a result, of any shape.");
}

/// Calls a function of Python's with the builder of a program, which is closed afterwards.
void write_program(const nb::object& write, ramet::ProgramBuilder& builder) {
  auto* const made = new PyProgramBuilder(builder);
  const nb::object object = nb::cast(made, nb::rv_policy::take_ownership);
  struct Closer {
    PyProgramBuilder* builder;
    ~Closer() { builder->close(); }
  } closer{made};
  write(object);
}

template <typename Metric>
void declare_metric(PyModelBuilder& self, const std::string& name, const Metric& metric) {
  self.get().metric(name, metric);
}

void bind_model_builder(nb::module_& m) {
  const auto guard = nb::call_guard<AtCaller>();
  nb::class_<PyModelBuilder, PyBuilder>(
      m, "ModelBuilder",
      "Builds a model: inputs, weights, ops, one loss, metrics and outputs. All shapes "
      "are those of one micro-batch.")
      .def(nb::init<const std::string&>(), "name"_a)
      .def(
          "input",
          [](PyModelBuilder& self, const std::string& name, const DTypeArgument& dtype, std::vector<int64_t> shape,
             std::vector<std::string> axes, std::optional<double> low, std::optional<double> high) {
            return self.get().input(name, dtype.dtype(), ramet::Shape(std::move(shape)),
                                    input_options(std::move(axes), low, high));
          },
          guard, "name"_a, "dtype"_a, "shape"_a, nb::kw_only(), "axes"_a = std::vector<std::string>{},
          "low"_a = nb::none(), "high"_a = nb::none(), "Declares an input, [samples, ...].")
      .def(
          "state", [](PyModelBuilder& self, const std::string& name) { return self.get().state(name); }, guard,
          "name"_a, "A declared weight or state, by name.")
      .def(
          "state",
          [](PyModelBuilder& self, const std::string& name, const DTypeArgument& dtype, std::vector<int64_t> shape,
             const std::string& role, std::optional<ramet::Init> init, const std::string& fold, double momentum,
             const std::vector<AxisArgument>& axes) {
            return tensor_or_none(
                self.get().state(name, {dtype.dtype(), ramet::Shape(std::move(shape))},
                                 named(role, kRoles, "role of a state"), init ? *init : ramet::Init::zeros(),
                                 {.fold = {.by = fold, .momentum = momentum}, .axes = axes_of(axes)}));
          },
          guard, "name"_a, "dtype"_a, "shape"_a, "role"_a, "init"_a = nb::none(), nb::kw_only(), "fold"_a = "average",
          "momentum"_a = 0.1, "axes"_a = std::vector<AxisArgument>{},
          "Declares a state that is not a weight. Roles: constant, pattern, deferred, chained, kept.")
      .def(
          "axis_units",
          [](PyModelBuilder& self, const std::string& axis, int64_t units) { self.get().axis_units(axis, units); },
          guard, "axis"_a, "units"_a, "Number of indivisible units of a weight axis, such as attention heads.")
      .def(
          "loss",
          [](PyModelBuilder& self, const OperandArgument& value, const OperandArgument& items) {
            if (items.tensor.valid())
              self.get().loss(value.tensor, items.tensor);
            else
              self.get().loss(value.tensor);
          },
          guard, "value"_a, "items"_a = nb::none(),
          "Declares the loss, f32[]. With `items`, the loss is a mean over so many items of a micro-batch.")
      .def("metric", &declare_metric<ramet::Mean>, guard, "name"_a, "value"_a, "Declares a number that steps report.")
      .def("metric", &declare_metric<ramet::Sum>, guard, "name"_a, "value"_a)
      .def("metric", &declare_metric<ramet::Ratio>, guard, "name"_a, "value"_a)
      .def("metric", &declare_metric<ramet::MeanOver>, guard, "name"_a, "value"_a)
      .def("metric", &declare_metric<ramet::ExpOf>, guard, "name"_a, "value"_a)
      .def(
          "guard",
          [](PyModelBuilder& self, const std::string& name, const OperandArgument& value) {
            self.get().guard(name, value.tensor);
          },
          guard, "name"_a, "value"_a, "Declares a scalar, f32[], that ends the run when it is not finite.")
      .def(
          "output",
          [](PyModelBuilder& self, const std::string& name, const OperandArgument& value) {
            self.get().output(name, value.tensor);
          },
          guard, "name"_a, "value"_a, "Declares an output of `predict`.")
      .def(
          "program",
          [](PyModelBuilder& self, const std::string& name, const ramet::When& when, nb::callable write) {
            self.get().program(name, when, [write = nb::object(write)](ramet::ProgramBuilder& builder) {
              write_program(write, builder);
            });
          },
          "name"_a, "when"_a, "write"_a, "Declares a program. `build` calls write(builder) to build it.")
      .def(
          "build", [](PyModelBuilder& self) { return self.get().build(); }, guard,
          "The model; may be called once. Raises Error when something is missing or contradictory.");
  m.def(
      "batch_norm_layer",
      [](PyBuilder& builder, const OperandArgument& a, const std::string& name, double epsilon, double momentum,
         bool affine, bool running, bool channels_last, const AxisArgument& axis) {
        return ramet::batch_norm_layer(builder.get(), a.tensor, name,
                                       {.epsilon = epsilon,
                                        .momentum = momentum,
                                        .affine = affine,
                                        .running = running,
                                        .channels_last = channels_last,
                                        .axis = axis_of(axis)});
      },
      guard, "builder"_a, "a"_a, "name"_a, nb::kw_only(), "epsilon"_a = 1e-5, "momentum"_a = 0.1, "affine"_a = true,
      "running"_a = true, "channels_last"_a = false, "axis"_a = "",
      "Batch norm with weights NAME.weight and NAME.bias and running statistics NAME.running_mean and "
      "NAME.running_var.");
}

void bind_model(nb::module_& m) {
  using ramet::Model;
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<Model>(m, "Model", "A complete model, for training and prediction. Immutable.")
      .def_prop_ro("name", &Model::name)
      .def_prop_ro("micro_batch", &Model::micro_batch, "Number of samples in a micro-batch.")
      .def_prop_ro("parameters", &Model::parameters, "Number of elements of all weights.")
      .def_prop_ro("weights", &Model::weights, "Names, in canonical order.")
      .def_prop_ro("inputs", &Model::inputs, "Names.")
      .def_prop_ro("metrics", &Model::metrics, "Names, \"loss\" first.")
      .def(
          "shape_of",
          [](const Model& self, const std::string& name) {
            return nb::tuple(nb::cast(self.type_of(name).shape.dims()));
          },
          "name"_a, "Shape of a weight, state or input.")
      .def(
          "dtype_of", [](const Model& self, const std::string& name) { return self.type_of(name).dtype; }, "name"_a,
          "Element type of a weight, state or input.")
      .def("text", &Model::text, released, "The graphs as text. Each node names the line that made it.")
      .def(
          "save", [](const Model& self, const std::filesystem::path& path) { self.save(path.string()); }, released,
          "path"_a, "Writes the model to one file, which the commands read.")
      .def_static(
          "load", [](const std::filesystem::path& path) { return Model::load(path.string()); }, released, "path"_a,
          "Reads a file of `save`.")
      .def("__repr__", [](const Model& self) {
        return "<ramet.Model '" + self.name() + "', " + std::to_string(self.parameters()) + " parameters>";
      });
}

}  // namespace

ramet::WeightAxis axis_of(const AxisArgument& given) {
  if (const auto* name = std::get_if<std::string>(&given)) return {*name};
  const auto& [name, blocks] = std::get<1>(given);
  return {name, blocks};
}

ramet::ProgramBuilder& PyProgramBuilder::get() {
  if (!builder_) throw ramet::Error({.what = "the builder of a program that is built"});
  return *builder_;
}

void bind_builder(nb::module_& m) {
  bind_init(m);
  bind_when(m);
  bind_metrics(m);
  bind_base(m);
  bind_program_builder(m);
  bind_model_builder(m);
  bind_model(m);
}

}  // namespace ramet_python
