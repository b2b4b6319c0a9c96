#pragma once

#include <functional>
#include <memory>

#include "ramet/array.h"
#include "ramet/ops.h"
#include "ramet/tensor.h"

namespace ramet::v0 {

/// How a weight or another state starts. An element is drawn from the seed, the name and the element's index alone, so
/// no layout shows.
class RAMET_API Init {
 public:
  enum class Kind { kConstant, kNormal, kTruncatedNormal, kUniform, kIota, kFanIn, kFunction, kNumbers };

  static Init zeros() { return constant(0); }
  static Init ones() { return constant(1); }
  static Init constant(double value) { return {Kind::kConstant, value, 0}; }
  static Init normal(double deviation, double mean = 0) { return {Kind::kNormal, mean, deviation}; }
  /// Drawn again beyond two deviations.
  static Init truncated_normal(double deviation, double mean = 0) { return {Kind::kTruncatedNormal, mean, deviation}; }
  /// Numbers from low to high; integers from low to high - 1.
  static Init uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  /// first + step * index
  static Init iota(double first = 0, double step = 1) { return {Kind::kIota, first, step}; }
  /// Normal numbers of deviation gain / sqrt(n), n the product of all dimensions but the first: the inputs of one row
  /// of a weight [out, in]. He et al. 2015 take sqrt(2) before a relu.
  static Init fan_in(double gain = 1.4142135623730951) { return {Kind::kFanIn, gain, 0}; }
  /// A pure function of the element's row-major index. `name` tells functions apart.
  static Init by(std::string name, std::function<double(int64_t element)> function);
  /// As many numbers as the state has elements, copied.
  static Init numbers(const ArrayView& numbers);

  Kind kind() const { return kind_; }
  double first() const { return first_; }
  double second() const { return second_; }
  const std::string& name() const { return name_; }
  const std::function<double(int64_t)>& function() const { return function_; }
  DType dtype() const { return dtype_; }                          ///< of `bytes`
  const std::vector<std::byte>& bytes() const { return bytes_; }  ///< of Kind::kNumbers

 private:
  Init(Kind kind, double first, double second) : kind_(kind), first_(first), second_(second) {}
  Kind kind_;
  double first_ = 0, second_ = 0;
  std::string name_;
  std::function<double(int64_t)> function_;
  DType dtype_ = DType::kF32;
  std::vector<std::byte> bytes_;
};

/// What a dimension of a weight means, for layouts that cut tensors by meaning (t=2): "mlp" (the inner size of two
/// products one behind the other), "heads", "embed" (the size between blocks), "vocab". With blocks = 3 the dimension
/// is three blocks of it one behind the other, as query, key and value in one product. An empty name says nothing.
struct WeightAxis {
  std::string name{};
  int64_t blocks = 1;
  WeightAxis() = default;
  WeightAxis(const char* axis, int64_t axis_blocks = 1) : name(axis), blocks(axis_blocks) {}
  WeightAxis(std::string axis, int64_t axis_blocks = 1) : name(std::move(axis)), blocks(axis_blocks) {}
};

struct WeightOptions {
  std::vector<WeightAxis> axes{};  ///< one a dimension, or none
  std::optional<bool> decays{};    ///< whether weight decay counts; absent: where the rank is 2 or more
  std::string file_name{};         ///< in files of weights; "": the weight's name
};

struct InputOptions {
  /// Meaning of each dimension: "batch" (samples), "positions" (of a sequence), "" (features). None: the first one is
  /// "batch", the others features.
  std::vector<std::string> axes{};
  /// Least and greatest value that a fed element may have, for integers that index. A sample beyond is an Error.
  std::optional<double> low{}, high{};
};

/// The role of a state that is no weight: who writes it, and when (docs/states.md).
enum class StateRole {
  kConstant,  ///< never changes
  kPattern,   ///< integers that programs change
  kDeferred,  ///< a statistic: each micro-batch gives a value, the update applies all of them in order
  kChained,   ///< a memory: a micro-batch reads what the one before it wrote. Asks for one lane
  kKept       ///< what programs on request leave for the next request; no part of a checkpoint
};

/// How the values that micro-batches give for a deferred state are joined with it.
struct Fold {
  std::string by = "average";  ///< "average", "sum", "max", "min" or "last"
  double momentum = 0.1;       ///< of an average: s = (1 - momentum) s + momentum value
};

struct StateOptions {
  Fold fold{};                     ///< of a deferred state
  std::vector<WeightAxis> axes{};  ///< one a dimension, or none
};

// What a metric is of: scalars of a micro-batch, and how they join over micro-batches.
struct Mean {
  Tensor value;  ///< the mean over micro-batches
};
struct Sum {
  Tensor value;  ///< the sum over micro-batches
};
struct Ratio {
  Tensor numerator, denominator;  ///< sum of numerators over sum of denominators; 0 over 0 is NaN: not defined
};
struct MeanOver {
  Tensor mean, items;  ///< a mean over so many items of the micro-batch, which count by their number
};
struct ExpOf {
  std::string metric;  ///< e to the power of a metric that was declared before, as the perplexity is of the loss
};

/// When a program runs.
class When {
 public:
  enum class Kind { kRequest, kMicroBatch, kSteps };
  static When on_request() { return {Kind::kRequest, 1, -1}; }
  /// For every micro-batch of training, on its data. Writes nothing.
  static When each_micro_batch() { return {Kind::kMicroBatch, 1, -1}; }
  /// After every n-th step, on the data of one of its micro-batches, or on none.
  static When each_steps(int64_t n = 1, int64_t micro_batch = -1) { return {Kind::kSteps, n, micro_batch}; }

  Kind kind() const { return kind_; }
  int64_t every() const { return every_; }
  int64_t micro_batch() const { return micro_batch_; }

 private:
  When(Kind kind, int64_t every, int64_t micro_batch) : kind_(kind), every_(every), micro_batch_(micro_batch) {}
  Kind kind_;
  int64_t every_, micro_batch_;
};

/// What builders of models and of programs share: a network that is written as a function of a Builder can stand in
/// both.
class RAMET_API Builder {
 public:
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  virtual ~Builder();

  /// A weight, f32. In a model the first call declares it, and a second one with the same name and shape is the same
  /// weight, as tied ones are; in a program it reads the model's.
  Tensor weight(const std::string& name, Shape shape, const Init& init = Init::zeros(),
                const WeightOptions& options = {}, const std::source_location& place = std::source_location::current());
  /// A weight or a state of the model, by name.
  Tensor state(const std::string& name, const std::source_location& place = std::source_location::current());
  /// The next value of a state: of a deferred one what this micro-batch gives; of a chained one what the next
  /// micro-batch reads; in a program what the state becomes.
  void set_state(const std::string& name, Operand value);

  /// A tensor filled with one value; one that counts along an axis; one that the graph carries.
  Tensor full(DType dtype, const Shape& shape, double value,
              const std::source_location& place = std::source_location::current());
  Tensor iota(DType dtype, const Shape& shape, int64_t axis,
              const std::source_location& place = std::source_location::current());
  Tensor constant(Shape shape, const ArrayView& numbers,
                  const std::source_location& place = std::source_location::current());

 protected:
  friend class Scope;
  friend class detail::Graphs;
  explicit Builder(std::unique_ptr<detail::Graphs> graphs);
  std::unique_ptr<detail::Graphs> graphs_;
};

/// Names the nodes that are added while it lives: those of Scope "head" inside Scope "decoder" are "decoder/head/...".
class RAMET_API Scope {
 public:
  Scope(Builder& builder, const std::string& name, const std::source_location& place = std::source_location::current());
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 protected:
  Scope(Builder& builder, const std::string& stack, int64_t index, const std::source_location& place);
  Builder& builder_;
};

/// A scope that is one part of a stack of parts, as layer 3 of "encoder": pipelines and phases cut between parts, and
/// recomputation keeps what goes from one to the next. Number the parts of a stack from 0 in the order in which data
/// flows through them.
class RAMET_API PartScope : public Scope {
 public:
  PartScope(Builder& builder, const std::string& stack, int64_t index,
            const std::source_location& place = std::source_location::current())
      : Scope(builder, stack, index, place) {}
};

/// A program beside training, on the same weights (ModelBuilder::program).
class RAMET_API ProgramBuilder : public Builder {
 public:
  /// The model's input of that name.
  Tensor input(const std::string& name, const std::source_location& place = std::source_location::current());
  /// An input of the program's own; programs that run in steps have none.
  Tensor input(const std::string& name, DType dtype, Shape shape, const InputOptions& options = {},
               const std::source_location& place = std::source_location::current());
  /// What the program gives.
  void output(const std::string& name, Operand value);

 private:
  friend class ModelBuilder;
  using Builder::Builder;
};

/// A model, ready to be trained and to predict. Never changes; cheap to copy.
class RAMET_API Model {
 public:
  const std::string& name() const;
  /// Samples of a micro-batch.
  int64_t micro_batch() const;
  /// Elements of all weights.
  int64_t parameters() const;
  std::vector<std::string> weights() const;           ///< names, in canonical order
  std::vector<std::string> inputs() const;            ///< names
  std::vector<std::string> metrics() const;           ///< names, "loss" first
  TensorType type_of(const std::string& name) const;  ///< of a weight, a state or an input
  /// Its graphs as text, node by node with the user's line.
  std::string text() const;

  /// Writes the model as one file (docs/model-files.md), which the commands take: `ramet train`, `plan`, `predict` and
  /// others. It needs none of the code that built it: what Init::by gives is saved as numbers.
  void save(const std::string& path) const;
  /// A model that save(), an engine's program or `ramet export` wrote. Throws Error with file and line for what is no
  /// such file, and for inputs that do not begin with the samples of a micro-batch.
  static Model load(const std::string& path);

  struct RAMET_PRIVATE Contents;
  explicit Model(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  const Contents& contents() const { return *contents_; }  ///< the library's

 private:
  std::shared_ptr<const Contents> contents_;
};

/// Builds a model: inputs, weights, ops (ramet/ops.h), one loss, metrics and outputs. All shapes are those of one
/// micro-batch. Training and evaluation are built at once; they differ where ops say so (dropout, by_use).
class RAMET_API ModelBuilder : public Builder {
 public:
  explicit ModelBuilder(const std::string& name);
  ~ModelBuilder() override;

  /// Data that each sample brings.
  Tensor input(const std::string& name, DType dtype, Shape shape, const InputOptions& options = {},
               const std::source_location& place = std::source_location::current());
  using Builder::state;
  /// Declares a state that is no weight.
  Tensor state(const std::string& name, TensorType type, StateRole role, const Init& init = Init::zeros(),
               const StateOptions& options = {}, const std::source_location& place = std::source_location::current());

  /// How many units of a weight axis there are that no layout can cut, as heads.
  void axis_units(const std::string& axis, int64_t units);

  /// What is trained: f32[], the mean over micro-batches counts. It is the metric "loss", and a step in which it is not
  /// finite ends the run.
  void loss(Operand value);
  /// A mean over `items` of the micro-batch: TrainOptions::loss_mean_of_step makes all items of a step count alike.
  void loss(Operand mean, Operand items);
  /// Numbers that a step and an evaluation tell.
  void metric(const std::string& name, const Mean& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const Sum& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const Ratio& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const MeanOver& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const ExpOf& value);
  /// A scalar that ends the run when it is not finite.
  void guard(const std::string& name, Operand value);
  /// What `predict` gives (ramet/predict.h); it reads the inputs that its outputs come from, and no others.
  void output(const std::string& name, Operand value);
  /// A program with a name, written by `write`. It is built when all else is declared, by build().
  void program(const std::string& name, const When& when, const std::function<void(ProgramBuilder&)>& write);

  /// The model. Throws Error for what is missing or contradicts itself. The builder is used up.
  Model build();

 private:
  struct RAMET_PRIVATE State;
  void add_scalar_output(const std::string& name, const Operand& value);
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0
