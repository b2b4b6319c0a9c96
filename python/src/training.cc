#include <nanobind/stl/filesystem.h>

#include <cstring>

#include "builder.h"
#include "log.h"
#include "options.h"
#include "training.h"

namespace ramet_python {
namespace {

nb::dict dict_of(const ramet::Metrics& metrics) {
  nb::dict made;
  for (const auto& [name, value] : metrics) made[name.c_str()] = value;
  return made;
}

/// The samples of a call: a dictionary, or keywords.
nb::dict samples_of(const std::optional<nb::dict>& samples) { return samples ? *samples : nb::dict(); }

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

PyFitResult PyTraining::fit(ramet::FitOptions options, nb::object on_step, nb::object on_evaluation,
                            nb::object progress) {
  const Exclusive::Use use(exclusive_, "fit");
  ramet::Training& training = open("fit");
  PyFitResult fitted;
  options.on_step = [&](const ramet::StepResult& result) {
    fitted.losses.emplace_back(result.step, result.loss);
    const nb::gil_scoped_acquire held;
    if (!progress.is_none()) progress.attr("step")(result);
    if (!on_step.is_none()) on_step(result);
    check_signals();
  };
  options.on_evaluation = [&](int64_t step, const ramet::Metrics& metrics) {
    if (metrics.has("loss")) fitted.evaluation_losses.emplace_back(step, metrics["loss"]);
    const nb::gil_scoped_acquire held;
    if (!on_evaluation.is_none()) on_evaluation(step, dict_of(metrics));
    check_signals();
  };
  const nb::gil_scoped_release released;
  fitted.result = training.fit(options);
  return fitted;
}

namespace {

ramet::StepOptions step_options(std::optional<double> rate, std::map<std::string, double> group_rates) {
  return {.rate = rate, .group_rates = std::move(group_rates)};
}

void bind_results(nb::module_& m) {
  using ramet::StepResult;
  nb::class_<StepResult>(m, "StepResult", "The result of a step.")
      .def_ro("step", &StepResult::step, "Steps done, including this one.")
      .def_ro("loss", &StepResult::loss)
      .def_ro("gradient_norm", &StepResult::gradient_norm)
      .def_ro("learning_rate", &StepResult::learning_rate)
      .def_ro("seconds", &StepResult::seconds)
      .def_ro("skipped", &StepResult::skipped, "Gradients overflowed under an automatic loss scale: no weight changed.")
      .def_prop_ro(
          "metrics", [](const StepResult& self) { return dict_of(self.metrics); }, "Of the model, by name.")
      .def_prop_ro(
          "outputs", [](const StepResult& self) { return to_python(self.outputs, false); },
          "Arrays that the model was asked for, by name (`step_outputs` of import_torch).")
      .def("__repr__", [](const StepResult& self) {
        return "<ramet.StepResult step " + std::to_string(self.step) + ", loss " + std::to_string(self.loss) + ">";
      });
  nb::class_<PyFitResult>(m, "FitResult", "What `fit` did. Notebooks show its losses as curves.")
      .def_prop_ro(
          "steps", [](const PyFitResult& self) { return self.result.steps; }, "Steps done in all.")
      .def_prop_ro(
          "stopped", [](const PyFitResult& self) { return self.result.stopped; }, "Ended early.")
      .def_prop_ro("last_evaluation", [](const PyFitResult& self) { return dict_of(self.result.last_evaluation); })
      .def_prop_ro(
          "checkpoint", [](const PyFitResult& self) { return self.result.checkpoint; },
          "Path of the last one; '': none.")
      .def_ro("losses", &PyFitResult::losses, "(step, loss) of every step.")
      .def_ro("evaluation_losses", &PyFitResult::evaluation_losses, "(step, loss) of every evaluation.")
      .def("_repr_html_", [](nb::object self) { return nb::module_::import_("ramet.pictures").attr("fit")(self); });
}

nb::object weight_of(PyTraining& self, const std::string& name) {
  const auto [type, numbers] = self.run("weight", [&](ramet::Training& training) {
    return std::pair(training.model().type_of(name), training.weight(name));
  });
  std::vector<std::byte> bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return to_python(ramet::Array(name, {ramet::DType::kF32, type.shape}, std::move(bytes)));
}

nb::object state_of(PyTraining& self, const std::string& name) {
  return to_python(self.run("state", [&](ramet::Training& training) { return training.state(name); }));
}

void set_weight(PyTraining& self, const std::string& name, nb::object numbers) {
  const ArrayArgument array(numbers);
  const ramet::ArrayView& view = array.view();
  if (view.dtype() != ramet::DType::kF32)
    throw ramet::ShapeError({.what = "a weight has numbers of f32",
                             .where = "'" + name + "'",
                             .found = std::string(ramet::name_of(view.dtype()))});
  self.run("set_weight", [&](ramet::Training& training) {
    training.set_weight(name, {reinterpret_cast<const float*>(view.data()), static_cast<size_t>(view.elements())});
  });
}

nb::object progress_of(const PyTraining& self, bool wanted, int64_t until) {
  if (!wanted) return nb::none();
  const auto [done, all] = self.look("fit", [](const ramet::Training& training) {
    return std::pair(training.steps_done(), training.options().steps);
  });
  return nb::module_::import_("ramet.progress").attr("Progress")(done, until > 0 ? until : all);
}

void bind_training_class(nb::module_& m) {
  using ramet::Training;
  nb::class_<PyTraining>(m, "Training",
                         "A model compiled for a layout and in memory, with its initial weights. Threads take turns.")
      .def(
          "__init__",
          [](PyTraining* self, const ramet::Model& model, const std::optional<ramet::TrainOptions>& options,
             const PyData* train, const PyData* held_out, const nb::kwargs& more) {
            new (self) PyTraining(model, train_options_of(options, more), train ? *train : PyData{},
                                  held_out ? *held_out : PyData{});
          },
          "model"_a, "options"_a = nb::none(), "train"_a = nb::none(), "held_out"_a = nb::none(), "more"_a,
          "Compiles the model and allocates all memory. Options of TrainOptions may be given as keywords. Without "
          "`train`, samples are given to step().")
      .def_prop_ro(
          "samples_per_step",
          [](const PyTraining& self) {
            return self.look("samples_per_step", [](const Training& t) { return t.samples_per_step(); });
          },
          "Samples of a step: Model.micro_batch times micro_batches.")
      .def_prop_ro("steps_done",
                   [](const PyTraining& self) {
                     return self.look("steps_done", [](const Training& t) { return t.steps_done(); });
                   })
      .def_prop_ro(
          "model",
          [](const PyTraining& self) { return self.look("model", [](const Training& t) { return t.model(); }); })
      .def_prop_ro(
          "options",
          [](const PyTraining& self) { return self.look("options", [](const Training& t) { return t.options(); }); })
      .def(
          "step",
          [](PyTraining& self, const std::optional<nb::dict>& samples, std::optional<double> rate,
             std::map<std::string, double> group_rates) {
            const ramet::StepOptions options = step_options(rate, std::move(group_rates));
            if (!samples) return self.run("step", [&](Training& t) { return t.step(options); });
            const ramet::Model model = self.look("step", [](const Training& t) { return t.model(); });
            const Feeds feeds(*samples, &model);
            return self.run("step", [&](Training& t) { return t.step(feeds.views(), options); });
          },
          "samples"_a = nb::none(), nb::kw_only(), "rate"_a = nb::none(),
          "group_rates"_a = std::map<std::string, double>{},
          "One step on these samples, arrays by name, or on the next samples of the training data. Raises Error, and "
          "changes no weight, when the arrays do not match the inputs and when the loss is not finite.")
      .def(
          "fit",
          [](PyTraining& self, int64_t until_step, const std::optional<std::filesystem::path>& checkpoints,
             nb::object on_step, nb::object on_evaluation, PyRun* run, bool progress) {
            ramet::FitOptions options;
            options.until_step = until_step, options.checkpoints = checkpoints ? checkpoints->string() : "";
            if (run) options.run = &run->get();
            const nb::object bar = progress_of(self, progress, until_step);
            struct Closer {
              const nb::object& bar;
              ~Closer() {
                if (!bar.is_none()) bar.attr("close")();
              }
            } closer{bar};
            return self.fit(std::move(options), std::move(on_step), std::move(on_evaluation), bar);
          },
          nb::kw_only(), "until_step"_a = int64_t(0), "checkpoints"_a = nb::none(), "on_step"_a = nb::none(),
          "on_evaluation"_a = nb::none(), "run"_a = nb::none(), "progress"_a = true,
          "Runs steps, evaluations and checkpoints until the end. Ctrl-C ends it between two steps; a checkpoint of "
          "that "
          "step is saved where `checkpoints` names a folder. `progress`: a bar of tqdm, where tqdm is installed.")
      .def(
          "evaluate",
          [](PyTraining& self, const std::optional<nb::dict>& samples) {
            if (!samples) return dict_of(self.run("evaluate", [](Training& t) { return t.evaluate(); }));
            const ramet::Model model = self.look("evaluate", [](const Training& t) { return t.model(); });
            const Feeds feeds(*samples, &model);
            return dict_of(self.run("evaluate", [&](Training& t) { return t.evaluate(feeds.views()); }));
          },
          "samples"_a = nb::none(),
          "The model's metrics, without dropout, on the held-out data or on these samples (whole micro-batches).")
      .def(
          "predict",
          [](PyTraining& self, const nb::dict& samples) {
            const ramet::Model model = self.look("predict", [](const Training& t) { return t.model(); });
            const Feeds feeds(samples, &model);
            return to_python(self.run("predict", [&](Training& t) { return t.predict(feeds.views()); }), feeds.torch());
          },
          "samples"_a, "The model's outputs for any number of samples.")
      .def(
          "run",
          [](PyTraining& self, const std::string& program, const std::optional<nb::dict>& samples) {
            const ramet::Model model = self.look("run", [](const Training& t) { return t.model(); });
            const Feeds feeds(samples_of(samples), &model);
            return to_python(self.run("run", [&](Training& t) { return t.run(program, feeds.views()); }),
                             feeds.torch());
          },
          "program"_a, "samples"_a = nb::none(), "Runs a program on request on whole micro-batches of samples.")
      .def(
          "results",
          [](PyTraining& self, const std::string& program) {
            return dict_of(self.run("results", [&](Training& t) { return t.results(program); }));
          },
          "program"_a, "Scalar results of a program of When.each_steps in the last step.")
      .def(
          "save",
          [](PyTraining& self, const std::filesystem::path& folder) {
            return self.run("save", [&](Training& t) { return t.save(folder.string()); });
          },
          "folder"_a, "Saves all that training needs to resume, whole or not at all. Returns the path.")
      .def(
          "restore",
          [](PyTraining& self, const std::filesystem::path& checkpoint) {
            return self.run("restore", [&](Training& t) { return t.restore(checkpoint.string()); });
          },
          "checkpoint"_a, "Resumes from a checkpoint of any layout. Returns warnings, one a line.")
      .def(
          "states", [](PyTraining& self) { return self.run("states", [](Training& t) { return t.states(); }); },
          "Names of all states that a checkpoint holds: weights, statistics, and 'optimizer.NAME.WEIGHT'.")
      .def("state", &state_of, "name"_a, "The numbers of a state, a new array.")
      .def(
          "set_states",
          [](PyTraining& self, const nb::dict& states) {
            const Feeds feeds(states, nullptr);
            self.run("set_states", [&](Training& t) { t.set_states(feeds.views()); });
          },
          "states"_a, "Sets the numbers of some states, arrays by name.")
      .def(
          "set_steps_done",
          [](PyTraining& self, int64_t steps) {
            self.run("set_steps_done", [&](Training& t) { t.set_steps_done(steps); });
          },
          "steps"_a, "Continues as after this many steps.")
      .def("weight", &weight_of, "name"_a, "The numbers of a weight, a new array.")
      .def("set_weight", &set_weight, "name"_a, "numbers"_a)
      .def(
          "save_weights",
          [](PyTraining& self, const std::filesystem::path& path) {
            self.run("save_weights", [&](Training& t) { t.save_weights(path.string()); });
          },
          "path"_a, "Writes all weights to one safetensors file.")
      .def(
          "load_weights",
          [](PyTraining& self, const std::filesystem::path& path) {
            self.run("load_weights", [&](Training& t) { t.load_weights(path.string()); });
          },
          "path"_a, "Reads weights from a file (safetensors or PyTorch) with the model's names and shapes.")
      .def(
          "weights_hash",
          [](PyTraining& self) { return self.run("weights_hash", [](Training& t) { return t.weights_hash(); }); },
          "Hash of all learned states. Equal bits give equal hashes, on any layout.")
      .def(
          "plan", [](PyTraining& self) { return self.run("plan", [](Training& t) { return t.plan(); }); },
          "What each device of the compiled program holds in memory, as text.")
      .def(
          "memory", [](PyTraining& self) { return self.run("memory", [](Training& t) { return t.memory(); }); },
          "The same as numbers, as text and as a picture.")
      .def("close", &PyTraining::close, "Frees all memory. Later calls raise Error.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](PyTraining& self, nb::args) { self.close(); });
}

void bind_predictor(nb::module_& m) {
  using ramet::CallTimes;
  using ramet::Predictor;
  nb::class_<CallTimes>(m, "CallTimes", "Durations of the calls of a Predictor, in seconds.")
      .def_ro("calls", &CallTimes::calls)
      .def_ro("samples", &CallTimes::samples)
      .def_ro("seconds", &CallTimes::seconds)
      .def_ro("median", &CallTimes::median)
      .def_ro("p90", &CallTimes::p90)
      .def_ro("p99", &CallTimes::p99);
  nb::class_<PyPredictor>(m, "Predictor", "A model for prediction alone. Threads take turns.")
      .def(
          "__init__",
          [](PyPredictor* self, const ramet::Model& model, const std::optional<std::filesystem::path>& weights,
             const nb::kwargs& options) {
            new (self) PyPredictor(model, weights ? weights->string() : "", predict_options_of(options));
          },
          "model"_a, "weights"_a = nb::none(), "options"_a,
          "`weights`: a weight file (safetensors or PyTorch) or a checkpoint; None: the model's first values. Options: "
          "precision, chunks, programs, layout, threads, device_memory, device.")
      .def_prop_ro("model", &PyPredictor::model)
      .def(
          "predict",
          [](PyPredictor& self, const nb::dict& samples) {
            const Feeds feeds(samples, &self.model());
            return to_python(self.run("predict", [&](Predictor& p) { return p.predict(feeds.views()); }),
                             feeds.torch());
          },
          "samples"_a,
          "The model's outputs for any number of samples: arrays of NumPy, or tensors of PyTorch where "
          "samples are.")
      .def(
          "run",
          [](PyPredictor& self, const std::string& program, const std::optional<nb::dict>& samples) {
            const Feeds feeds(samples_of(samples), &self.model());
            return to_python(self.run("run", [&](Predictor& p) { return p.run(program, feeds.views()); }),
                             feeds.torch());
          },
          "program"_a, "samples"_a = nb::none(), "Runs a program on request on whole micro-batches of samples.")
      .def("times", [](PyPredictor& self) { return self.run("times", [](Predictor& p) { return p.times(); }); })
      .def_prop_ro(
          "bytes", [](PyPredictor& self) { return self.run("bytes", [](Predictor& p) { return p.bytes(); }); },
          "Bytes that all devices use.")
      .def("weights_hash",
           [](PyPredictor& self) { return self.run("weights_hash", [](Predictor& p) { return p.weights_hash(); }); });
}

void bind_plan(nb::module_& m) {
  using ramet::MemoryPlan;
  using ramet::Plan;
  nb::class_<MemoryPlan>(m, "MemoryPlan", "The memory of a compiled training. Notebooks show a picture of it.")
      .def_ro("device_bytes", &MemoryPlan::device_bytes, "Of one device of each pipeline stage.")
      .def_ro("streaming_bytes", &MemoryPlan::streaming_bytes, "Of all devices together, in host memory or files.")
      .def_ro("text", &MemoryPlan::text, "For people.")
      .def_ro("svg", &MemoryPlan::svg, "A picture: the memory of each stage over the time of a step.")
      .def("__str__", [](const MemoryPlan& self) { return self.text; })
      .def("_repr_html_", [](nb::object self) { return nb::module_::import_("ramet.pictures").attr("plan")(self); });
  nb::class_<Plan, MemoryPlan>(m, "Plan", "The memory and the time that training will take, before it runs.")
      .def_ro("step_seconds", &Plan::step_seconds, "Predicted; 0: without `time`.");
  m.def(
      "plan",
      [](const ramet::Model& model, const std::optional<ramet::TrainOptions>& options, const std::string& machine,
         bool time, const nb::kwargs& more) {
        const ramet::TrainOptions asked = train_options_of(options, more);
        const nb::gil_scoped_release released;
        return ramet::plan(model, asked, {.machine = machine, .time = time});
      },
      "model"_a, "options"_a = nb::none(), nb::kw_only(), "machine"_a = "", "time"_a = true, "more"_a,
      "Compiles a step without running it. `machine`: name or file of another machine. `time`: predict the time of a "
      "step. Options of TrainOptions may be given as keywords.");
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_results(m);
  bind_training_class(m);
  bind_predictor(m);
  bind_plan(m);
}

}  // namespace ramet_python
