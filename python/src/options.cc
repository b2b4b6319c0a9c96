#include "options.h"
#include "builder.h"

namespace ramet_python {
namespace {

const std::pair<const char*, ramet::Schedule::Kind> kSchedules[] = {{"constant", ramet::Schedule::Kind::kConstant},
                                                                    {"linear", ramet::Schedule::Kind::kLinear},
                                                                    {"cosine", ramet::Schedule::Kind::kCosine},
                                                                    {"polynomial", ramet::Schedule::Kind::kPolynomial}};
const std::pair<const char*, ramet::Precision> kPrecisions[] = {{"f32", ramet::Precision::kF32},
                                                                {"bf16", ramet::Precision::kBF16},
                                                                {"f16", ramet::Precision::kF16},
                                                                {"f8", ramet::Precision::kF8}};

template <typename T>
T cast_option(const std::string& name, nb::handle value, const char* expected) {
  T made;
  if (!nb::try_cast(nb::borrow(value), made))
    throw ramet::Error({.what = "an option has a wrong type",
                        .where = name,
                        .found = nb::cast<std::string>(nb::repr(value)),
                        .expected = expected});
  return made;
}

/// One option of a struct: how Python reads and sets it.
template <typename Struct>
struct Option {
  const char* name;
  std::function<void(Struct&, nb::handle)> set;
  std::function<nb::object(const Struct&)> get;
  const char* doc;
};

template <typename Struct, typename T>
Option<Struct> option(const char* name, T Struct::* field, const char* expected, const char* doc) {
  return {name, [=](Struct& to, nb::handle value) { to.*field = cast_option<T>(name, value, expected); },
          [=](const Struct& from) { return nb::cast(from.*field); }, doc};
}

template <typename Struct, typename T, size_t N>
Option<Struct> option(const char* name, T Struct::* field, const std::pair<const char*, T> (&table)[N],
                      const char* doc) {
  return {name,
          [=, &table](Struct& to, nb::handle value) {
            to.*field = named(cast_option<std::string>(name, value, "a text"), table, name);
          },
          [=, &table](const Struct& from) { return nb::cast(name_in(from.*field, table)); }, doc};
}

const std::vector<Option<ramet::Group>>& group_options() {
  using ramet::Group;
  static const std::vector<Option<Group>> options = {
      option("name", &Group::name, "a text", "for errors and group_rates; '': 'groupN', from 1"),
      option("weights", &Group::weights, "a list of texts",
             "names or patterns: * stands for any text, ? for one character"),
      option("frozen", &Group::frozen, "True or False", "not trained: no gradient and no optimizer states"),
      option("rate", &Group::rate, "a number or None", "factor on the learning rate"),
      option("weight_decay", &Group::weight_decay, "a number or None", "of all weights of the group"),
      option("beta1", &Group::beta1, "a number or None", ""),
      option("beta2", &Group::beta2, "a number or None", ""),
      option("epsilon", &Group::epsilon, "a number or None", ""),
      option("momentum", &Group::momentum, "a number or None", "")};
  return options;
}

const std::vector<Option<ramet::Schedule>>& schedule_options() {
  using ramet::Schedule;
  static const std::vector<Option<Schedule>> options = {
      option("kind", &Schedule::kind, kSchedules, "'constant', 'linear', 'cosine' or 'polynomial'"),
      option("learning_rate", &Schedule::learning_rate, "a number", ""),
      option("end", &Schedule::end, "a number", "the rate after `steps` steps"),
      option("power", &Schedule::power, "a number", "of 'polynomial'"),
      option("warmup_steps", &Schedule::warmup_steps, "a whole number", ""),
      option("steps", &Schedule::steps, "a whole number", "length of the schedule; 0: that of the training")};
  return options;
}

const std::vector<Option<ramet::TrainOptions>>& train_options() {
  using ramet::TrainOptions;
  static const std::vector<Option<TrainOptions>> options = {
      option("optimizer", &TrainOptions::optimizer, "an optimizer, such as ramet.AdamW()", ""),
      option("groups", &TrainOptions::groups, "a list of ramet.Group", ""),
      option("schedule", &TrainOptions::schedule, "a ramet.Schedule", ""),
      option("precision", &TrainOptions::precision, kPrecisions, "'f32', 'bf16', 'f16' or 'f8'"),
      option("steps", &TrainOptions::steps, "a whole number", "of a whole run: end of the schedule and of `fit`"),
      option("micro_batches", &TrainOptions::micro_batches, "a whole number", "of a step"),
      option("lanes", &TrainOptions::lanes, "a whole number", "sums of gradients, which replicas (r) divide"),
      option("chunks", &TrainOptions::chunks, "a whole number",
             "sums of a contraction, which tensor shards (t) divide"),
      option("max_gradient_norm", &TrainOptions::max_gradient_norm, "a number", "0: no limit"),
      option("loss_scale", &TrainOptions::loss_scale, "a number", "factor on the loss; 0: automatic"),
      option("loss_mean_of_step", &TrainOptions::loss_mean_of_step, "True or False",
             "the loss is the mean over all items of a step"),
      option("moments", &TrainOptions::moments, kPrecisions,
             "of the optimizer: 'f32', or 'bf16' (SGD, Adam, LAMB), rounded stochastically"),
      option("update_in_backward", &TrainOptions::update_in_backward, "True or False",
             "each weight is updated as soon as its gradient is there"),
      option("seed", &TrainOptions::seed, "a whole number", "of initial weights and dropout"),
      option("layout", &TrainOptions::layout, "a text", "such as 'p=2 phases=2'; '': one device"),
      option("threads", &TrainOptions::threads, "a whole number", "of all devices together; 0: all processors"),
      option("device_memory", &TrainOptions::device_memory, "a number of bytes",
             "of each device; 0: what is available"),
      option("device_memory_share", &TrainOptions::device_memory_share, "a number",
             "of the bytes that a device would use without a limit: as many, or as few as it can"),
      option("device", &TrainOptions::device, "a text", "kind of devices, such as 'cpu'"),
      option("evaluate_every", &TrainOptions::evaluate_every, "a whole number", "steps; 0: at the end"),
      option("save_every", &TrainOptions::save_every, "a whole number", "steps; 0: at the end"),
      option("evaluation_batches", &TrainOptions::evaluation_batches, "a whole number", "most micro-batches; 0: all"),
      option("keep", &TrainOptions::keep, "a whole number", "number of checkpoints to keep")};
  return options;
}

const std::vector<Option<ramet::PredictOptions>>& predict_options() {
  using ramet::PredictOptions;
  static const std::vector<Option<PredictOptions>> options = {
      option("precision", &PredictOptions::precision, kPrecisions, "'f32', 'bf16', 'f16' or 'f8'"),
      option("chunks", &PredictOptions::chunks, "a whole number", ""),
      option("programs", &PredictOptions::programs, "a list of texts", "programs on request to compile"),
      option("layout", &PredictOptions::layout, "a text", "such as 'p=2'; '': one device"),
      option("threads", &PredictOptions::threads, "a whole number", "of all devices together; 0: all processors"),
      option("device_memory", &PredictOptions::device_memory, "a number of bytes",
             "of each device; 0: what is available"),
      option("device", &PredictOptions::device, "a text", "kind of devices, such as 'cpu'")};
  return options;
}

template <typename Struct>
void set_all(Struct& to, const nb::kwargs& given, const std::vector<Option<Struct>>& options, const char* what) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    std::string known;
    const Option<Struct>* found = nullptr;
    for (const auto& each : options) {
      if (name == each.name) found = &each;
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
    if (!found)
      throw ramet::Error({.what = std::string("no option of ") + what, .found = "'" + name + "'", .expected = known});
    found->set(to, value);
  }
}

template <typename Struct>
void bind_struct(nb::module_& m, const char* name, const char* doc, const std::vector<Option<Struct>>& options) {
  std::string text = std::string(doc) + "\n";
  for (const auto& each : options)
    text += std::string("\n") + each.name + (*each.doc ? std::string(": ") + each.doc : "");
  nb::class_<Struct> bound(m, name, text.c_str());
  bound.def("__init__", [name, &options](Struct* self, const nb::kwargs& given) {
    Struct made;
    set_all(made, given, options, name);
    new (self) Struct(std::move(made));
  });
  for (const auto& each : options)
    bound.def_prop_rw(
        each.name, [&each](const Struct& self) { return each.get(self); },
        [&each](Struct& self, nb::object value) { each.set(self, value); }, each.doc);
  bound.def("__repr__", [name, &options](const Struct& self) {
    std::string shown;
    for (const auto& each : options)
      shown +=
          (shown.empty() ? "" : ", ") + std::string(each.name) + "=" + nb::cast<std::string>(nb::repr(each.get(self)));
    return std::string("ramet.") + name + "(" + shown + ")";
  });
}

}  // namespace

ramet::TrainOptions train_options_of(const std::optional<ramet::TrainOptions>& options, const nb::kwargs& more) {
  ramet::TrainOptions made = options.value_or(ramet::TrainOptions{});
  set_all(made, more, train_options(), "a training");
  return made;
}

ramet::PredictOptions predict_options_of(const nb::kwargs& given) {
  ramet::PredictOptions made;
  set_all(made, given, predict_options(), "a predictor");
  return made;
}

void bind_options(nb::module_& m) {
  bind_optimizers(m);
  bind_struct(m, "Group", "Weights with options of their own. A weight belongs to the first group that names it.",
              group_options());
  bind_struct(m, "Schedule", "The learning rate of each step, unless the caller gives one.", schedule_options());
  bind_struct(m, "TrainOptions", "How a model is trained.", train_options());
}

}  // namespace ramet_python
