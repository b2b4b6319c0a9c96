#pragma once

#include <functional>
#include <memory>

#include "ramet/array.h"
#include "ramet/ops.h"
#include "ramet/tensor.h"

namespace ramet::v0 {

/// The first values of a weight or another state. A drawn element depends only on the seed, the state's name and the
/// element's index, so it is the same on every layout.
class RAMET_API Init {
 public:
  enum class Kind { kConstant, kNormal, kTruncatedNormal, kUniform, kIota, kFanIn, kFunction, kNumbers };

  static Init zeros() { return constant(0); }
  static Init ones() { return constant(1); }
  static Init constant(double value) { return {Kind::kConstant, value, 0}; }
  static Init normal(double deviation, double mean = 0) { return {Kind::kNormal, mean, deviation}; }
  /// Normal numbers; a number more than two deviations from the mean is drawn again.
  static Init truncated_normal(double deviation, double mean = 0) { return {Kind::kTruncatedNormal, mean, deviation}; }
  /// Floating-point numbers from low to high, or integers from low to high - 1, all equally likely.
  static Init uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  /// Element i is first + step * i; i is the row-major index.
  static Init iota(double first = 0, double step = 1) { return {Kind::kIota, first, step}; }
  /// Normal numbers of deviation gain / sqrt(n). n is the product of all dimensions but the first: `in` of a weight
  /// [out, in]. The default gain, sqrt(2), is that of He et al. 2015 for products before a relu.
  static Init fan_in(double gain = 1.4142135623730951) { return {Kind::kFanIn, gain, 0}; }
  /// A pure function of the element's row-major index. Different functions need different names.
  static Init by(std::string name, std::function<double(int64_t element)> function);
  /// Copies these numbers. Error when their type or their number is not the state's.
  static Init numbers(const ArrayView& numbers);

  Kind kind() const { return kind_; }
  double first() const { return first_; }    ///< by kind(): value, mean, low, first or gain
  double second() const { return second_; }  ///< by kind(): deviation, high or step
  const std::string& name() const { return name_; }
  const std::function<double(int64_t)>& function() const { return function_; }
  DType dtype() const { return dtype_; }                          ///< of bytes()
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

/// The meaning of one dimension of a weight. Layouts with tensor shards (t=2) cut dimensions by their meaning: "mlp"
/// (the inner size of two successive products), "heads", "embed" (the size between blocks) or "vocab". With blocks = 3
/// the dimension is three such blocks in a row, as in a joint product for query, key and value. "": no meaning.
struct WeightAxis {
  std::string name{};
  int64_t blocks = 1;
  WeightAxis() = default;
  WeightAxis(const char* axis, int64_t axis_blocks = 1) : name(axis), blocks(axis_blocks) {}
  WeightAxis(std::string axis, int64_t axis_blocks = 1) : name(std::move(axis)), blocks(axis_blocks) {}
};

struct WeightOptions {
  std::vector<WeightAxis> axes{};  ///< one for each dimension, or none
  std::optional<bool> decays{};    ///< whether weight decay applies; absent: when the rank is 2 or more
  std::string file_name{};         ///< name in weight files; "": the weight's own name
};

struct InputOptions {
  /// Meaning of each dimension: "batch" (samples), "positions" (of a sequence), "" (features). The first is "batch".
  /// Empty: the first dimension is "batch", the others are features.
  std::vector<std::string> axes{};
  /// Least and greatest value of an element, for integers that index a table. A sample outside of them is an Error.
  std::optional<double> low{}, high{};
};

/// The role of a state that is not a weight: what writes it, and when (docs/states.md).
enum class StateRole {
  kConstant,  ///< never changes
  kPattern,   ///< integers that programs change
  kDeferred,  ///< a statistic: each micro-batch gives a value, and the update folds all of them in order
  kChained,   ///< a memory: a micro-batch reads what the previous one wrote. Requires TrainOptions::lanes = 1
  kKept       ///< a cache that programs on request keep for the next request; not part of a checkpoint
};

/// How the update folds the values of micro-batches into a deferred state.
struct Fold {
  std::string by = "average";  ///< "average", "sum", "max", "min" or "last"
  double momentum = 0.1;       ///< of "average": s = (1 - momentum) s + momentum value
};

struct StateOptions {
  Fold fold{};                     ///< for a deferred state
  std::vector<WeightAxis> axes{};  ///< one for each dimension, or none
};

// Kinds of metrics: how scalars of a micro-batch, f32[] each, are combined over micro-batches.
struct Mean {
  Tensor value;  ///< the mean over micro-batches
};
struct Sum {
  Tensor value;  ///< the sum over micro-batches
};
struct Ratio {
  Tensor numerator, denominator;  ///< sum of numerators / sum of denominators; NaN (not defined) for 0 / 0
};
struct MeanOver {
  Tensor mean, items;  ///< mean over `items` items of a micro-batch; the result is the mean over all items
};
struct ExpOf {
  std::string metric;  ///< name of an earlier metric; the result is e to its power, as perplexity is for a loss
};

/// When a program runs.
class When {
 public:
  enum class Kind { kRequest, kMicroBatch, kSteps };
  /// When the caller asks for it with `run` (Training, Predictor).
  static When on_request() { return {Kind::kRequest, 1, -1}; }
  /// For every micro-batch of training, on its data. The program writes no state.
  static When each_micro_batch() { return {Kind::kMicroBatch, 1, -1}; }
  /// After every n-th step, on the data of that micro-batch of the step; -1: on no data.
  static When each_steps(int64_t n = 1, int64_t micro_batch = -1) { return {Kind::kSteps, n, micro_batch}; }

  Kind kind() const { return kind_; }
  int64_t every() const { return every_; }
  int64_t micro_batch() const { return micro_batch_; }

 private:
  When(Kind kind, int64_t every, int64_t micro_batch) : kind_(kind), every_(every), micro_batch_(micro_batch) {}
  Kind kind_;
  int64_t every_, micro_batch_;
};

/// The part that builders of models and of programs share. A network written as a function of a Builder works in
/// both.
class RAMET_API Builder {
 public:
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  virtual ~Builder();

  /// A weight, f32. In a model, the first call declares it; another call with the same name returns the same (tied)
  /// weight. In a program, the call reads the model's weight. Throws Error when the shape is not the declared one.
  Tensor weight(const std::string& name, Shape shape, const Init& init = Init::zeros(),
                const WeightOptions& options = {}, const std::source_location& place = std::source_location::current());
  /// A declared weight or state, by name; throws Error when there is none.
  Tensor state(const std::string& name, const std::source_location& place = std::source_location::current());
  /// Sets the next value of a state. For a deferred state it is this micro-batch's value; for a chained state, what the
  /// next micro-batch reads; in a program, the state's new value. Throws Error when the type is not the state's.
  void set_state(const std::string& name, Operand value);

  /// A tensor filled with `value`.
  Tensor full(DType dtype, const Shape& shape, double value,
              const std::source_location& place = std::source_location::current());
  /// A tensor whose elements are their index along `axis`.
  Tensor iota(DType dtype, const Shape& shape, int64_t axis,
              const std::source_location& place = std::source_location::current());
  /// A tensor of these numbers, stored in the graph; throws Error unless they fill the shape.
  Tensor constant(Shape shape, const ArrayView& numbers,
                  const std::source_location& place = std::source_location::current());

 protected:
  friend class Scope;
  friend class detail::Graphs;
  explicit Builder(std::shared_ptr<detail::Graphs> graphs);
  std::shared_ptr<detail::Graphs> graphs_;
};

/// Prefixes the names of nodes that are added while it lives. Scope "head" inside Scope "decoder": "decoder/head/...".
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

/// A scope that is one part of a stack, such as layer 3 of "encoder". Pipelines and phases cut a model between parts.
/// Recomputation keeps only the tensors that pass from part to part. Number the parts of a stack from 0, in the order
/// in which data flows through them.
class RAMET_API PartScope : public Scope {
 public:
  PartScope(Builder& builder, const std::string& stack, int64_t index,
            const std::source_location& place = std::source_location::current())
      : Scope(builder, stack, index, place) {}
};

/// Builds a program that runs beside training, on the same weights (ModelBuilder::program).
class RAMET_API ProgramBuilder : public Builder {
 public:
  /// The model's input of that name; throws Error when there is none.
  Tensor input(const std::string& name, const std::source_location& place = std::source_location::current());
  /// An input of the program alone, [samples, ...]; programs that run with training steps have none.
  Tensor input(const std::string& name, DType dtype, Shape shape, const InputOptions& options = {},
               const std::source_location& place = std::source_location::current());
  /// Declares a result, of any shape.
  void output(const std::string& name, Operand value);

 private:
  friend class ModelBuilder;
  using Builder::Builder;
};

/// A complete model, for training and prediction. Immutable; cheap to copy.
class RAMET_API Model {
 public:
  const std::string& name() const;
  /// Number of samples in a micro-batch.
  int64_t micro_batch() const;
  /// Number of elements of all weights.
  int64_t parameters() const;
  std::vector<std::string> weights() const;           ///< names, in canonical order
  std::vector<std::string> inputs() const;            ///< names
  std::vector<std::string> metrics() const;           ///< names, "loss" first
  TensorType type_of(const std::string& name) const;  ///< of a weight, state or input; Error if unknown
  /// The graphs as text. Each node names the line of the user's program that made it.
  std::string text() const;

  /// Writes the model to one file (docs/model-files.md), which `ramet train`, `plan`, `predict` and others read. The
  /// file does not need the code that built the model: the values of Init::by are saved as numbers.
  void save(const std::string& path) const;
  /// Reads a file of save(), `ramet export` or a program of the engine. Throws Error, with file and line, when it is no
  /// valid model file, and when an input's first dimension is not the samples of a micro-batch.
  static Model load(const std::string& path);

  struct RAMET_PRIVATE Contents;
  explicit Model(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  const Contents& contents() const { return *contents_; }  ///< for the library

 private:
  std::shared_ptr<const Contents> contents_;
};

/// Builds a model: inputs, weights, ops (ramet/ops.h), one loss, metrics and outputs. All shapes are those of one
/// micro-batch. Every call adds to two graphs, training and evaluation; only some ops (dropout, by_use) differ in them.
class RAMET_API ModelBuilder : public Builder {
 public:
  explicit ModelBuilder(const std::string& name);
  ~ModelBuilder() override;

  /// Declares an input, [samples, ...]; throws Error for a name in use and for a scalar shape.
  Tensor input(const std::string& name, DType dtype, Shape shape, const InputOptions& options = {},
               const std::source_location& place = std::source_location::current());
  using Builder::state;
  /// Declares a state that is not a weight. For kKept the result is not valid(): only programs on request read it.
  Tensor state(const std::string& name, TensorType type, StateRole role, const Init& init = Init::zeros(),
               const StateOptions& options = {}, const std::source_location& place = std::source_location::current());

  /// Sets the number of indivisible units of a weight axis, such as attention heads. No layout cuts a unit.
  void axis_units(const std::string& axis, int64_t units);

  /// Declares the loss, f32[]. Training minimises its mean over micro-batches, which is the metric "loss". A step in
  /// which it is not finite ends the run.
  void loss(Operand value);
  /// Declares a loss that is the mean over `items` items of a micro-batch; both are f32[]. With
  /// TrainOptions::loss_mean_of_step all items of a step count equally.
  void loss(Operand mean, Operand items);
  /// Declares a number that steps and evaluations report. The tensors must be f32[], else Error.
  void metric(const std::string& name, const Mean& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const Sum& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const Ratio& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const MeanOver& value,
              const std::source_location& place = std::source_location::current());
  void metric(const std::string& name, const ExpOf& value);
  /// Declares a scalar, f32[], that ends the run when it is not finite.
  void guard(const std::string& name, Operand value);
  /// Declares an output of `predict` (ramet/predict.h), which reads only the inputs that its outputs depend on.
  void output(const std::string& name, Operand value);
  /// Declares a program. build() calls `write` to build it, after everything else is declared.
  void program(const std::string& name, const When& when, const std::function<void(ProgramBuilder&)>& write);

  /// Returns the model; may be called once. Throws Error when something is missing or contradictory.
  Model build();

 private:
  struct RAMET_PRIVATE State;
  void add_scalar_output(const std::string& name, const Operand& value);
  std::unique_ptr<State> state_;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running statistic = (1 - momentum) running statistic + momentum that of the micro-batch
  bool affine = true;     ///< whether there are the weights "NAME.weight" and "NAME.bias"
  bool running = true;    ///< whether there are running statistics; without, evaluations use those of their micro-batch
  bool channels_last = false;
  WeightAxis axis{};  ///< meaning of the channels
};
/// Batch norm of a [N, C], [N, C, space...] or, channels last, [N, space..., C]. In training it normalises with the
/// statistics of the micro-batch, and the update folds them, in the order of micro-batches, into the states
/// "NAME.running_mean" and "NAME.running_var" (the unbiased estimate), as PyTorch does. Evaluations and programs
/// normalise with these states. Throws Error where a channel of a micro-batch has one element.
RAMET_API Tensor batch_norm_layer(Builder& builder, Operand a, const std::string& name,
                                  const BatchNormOptions& options = {});

}  // namespace ramet::v0
