#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"
#include "ramet/ir/text.h"

namespace ramet::transform {

/// The role of a state: which graphs may read and write it (check_roles), whether it is saved, and how it lies in a
/// layout.
enum class StateKind : uint8_t {
  kWeight,       ///< logical weights: saved, hashed
  kOptimizer,    ///< moments, step counts: saved
  kAccumulator,  ///< sums of micro-batches (gradients, for one) for the update: not saved
  kDerived,      ///< computed from weights and patterns by `derive` (casts, blocked copies): not saved
  kConstant,     ///< data that never changes: a checkpoint has its hash alone
  kPattern,      ///< integers that the update or a program changes; no gradient, no decay: saved, hashed
  /// A statistic. `micro` gives a value for each micro-batch, as a state output of this name; the update applies all of
  /// them in the logical order of micro-batches (StateTensor::fold), whatever lanes and replicas they came from.
  /// Its readers in the step see its value from the beginning of the step. f32: saved, hashed
  kDeferred,
  /// A memory: a micro-batch reads what the one before it wrote. It needs one lane; layouts in which micro-batches
  /// would not follow one another are refused: saved, hashed
  kChained,
  kKept  ///< what a program on request leaves for the next request (caches), the same on all replicas: not saved
};
inline constexpr int kStateKindCount = 9;
std::string_view name_of(StateKind kind);
/// The inverse; throws Error naming the kinds.
StateKind state_kind_from_name(std::string_view name);
/// Whether a checkpoint holds it.
bool is_saved(StateKind kind);
/// Whether `weights_hash` covers it, as a part of what the model has learned: weights, patterns, deferred and chained
/// states.
bool is_hashed(StateKind kind);

/// How a state starts.
struct StateInit {
  enum class Kind : uint8_t {
    kZeros,
    kConstant,
    kNormal,
    kTruncatedNormal,
    kUniform,   ///< of integers: each of a, a + 1, ..., b - 1 alike
    kIota,      ///< a + b i for element i
    kFunction,  ///< `of_element`
    kData       ///< `data`
  } kind = Kind::kZeros;
  double a = 0, b = 0;  ///< constant; mean and deviation; low and high; first and step
  /// The value of an element by its row-major index in the logical tensor: a pure function. `function` is its name in
  /// listings and keys; two functions must have two names.
  std::function<double(int64_t element)> of_element{};
  std::string function{};
  std::optional<TensorData> data{};  ///< of the state's type

  static StateInit iota(double first = 0, double step = 1) { return {Kind::kIota, first, step}; }
  static StateInit by(std::string name, std::function<double(int64_t element)> of_element);
  static StateInit from(TensorData data);
};
inline constexpr int kStateInitKinds = 8;

/// How the values that micro-batches give for a deferred state are joined with it, one after another.
struct Fold {
  std::string by = "average";  ///< "average", "sum", "max", "min" or "last" (op fold)
  double momentum = 0.1;       ///< average: s = (1 - momentum) s + momentum v
};

/// What a dimension of a state means, for layouts that cut by meaning: "embed" (the hidden size), "heads", "mlp" (the
/// inner size of feed-forward), "vocab"; "" says nothing. A joint query-key-value dimension is 3 blocks of heads. The
/// last `padding` entries of a first dimension mean nothing. They only make its extent divisible; they are 0 in
/// weights, and exported files leave them out.
struct LogicalAxis {
  std::string name;
  int64_t blocks = 1;
  int64_t padding = 0;
  friend bool operator==(const LogicalAxis&, const LogicalAxis&) = default;
};
/// "heads", "3*heads", "vocab+47", "-"
std::string text_of(const LogicalAxis& axis);

/// By the name of a logical axis, the axis of tensor shards (1: t1, 2: t2) over which layouts cut a state's dimensions
/// of this name. A model may add its own.
using TensorAxes = std::map<std::string, int>;
/// "heads", "mlp" and "vocab" over t1, as Megatron-LM's column and row parallel layers are cut; "embed" over t2.
const TensorAxes& default_tensor_axes();

/// A tensor that outlives the step.
struct StateTensor {
  std::string name;
  TensorType type;
  StateKind kind;
  StateInit init;
  std::string group;                ///< weights: "decay" or "no_decay", or a user's own group
  std::vector<LogicalAxis> axes{};  ///< one a dimension, or none; optimizer states and accumulators have their weight's
  std::string of{};    ///< the weight that it belongs to; "" of weights themselves, and of states without a weight
  std::string role{};  ///< what it is to that weight: "m", "sum", "low half", "derived"; for people
  std::string part{};  ///< sums of a tied weight: whose gradients, by the place of the readers; "" for all readers, or
                       ///< the first
  std::string external_name{};  ///< in files of other programs; "" where it is `name`
  bool low_half = false;        ///< the lower 16 bits of `of`, which holds the upper (base/rounding.h)
  Fold fold{};                  ///< deferred states

  /// The weight that the state is, or belongs to.
  const std::string& weight() const { return kind == StateKind::kWeight && !low_half ? name : of; }
  /// The type without the padding at its end.
  TensorType unpadded() const;
};

/// When a program of a step runs, beside the training program.
struct When {
  enum class Kind : uint8_t {
    kMicroBatch,  ///< for every micro-batch, beside the micro graph, on the same data
    kSteps,       ///< after every `every`-th training step
    kRequest      ///< when the caller asks, on micro-batches that the caller feeds
  };
  Kind kind = Kind::kRequest;
  int64_t every = 1;   ///< kSteps: after steps every, 2 * every, ..., counted from 1
  int64_t micro = -1;  ///< kSteps: the micro-batch of the step whose data the program reads; -1: it reads no data
  friend bool operator==(const When&, const When&) = default;

  static When each_micro_batch() { return {Kind::kMicroBatch}; }
  static When each_step(int64_t every = 1, int64_t micro = -1) { return {Kind::kSteps, every, micro}; }
  static When on_request() { return {}; }
};
/// "every micro-batch", "every step", "every 2 steps", "micro-batch 3 of every 100 steps", "on request"
std::string text_of(const When& when);

/// A graph of the step that has a name, beside those of the training program. Reads states, scalar inputs and, but for
/// a program of kind kSteps without a micro-batch, the data of one micro-batch. Gives results of any shape. What it may
/// read and write is decided by the roles of states (check_roles).
struct StepProgram {
  std::string name;
  Graph graph;
  When when;

  bool writes_states() const;  ///< of any role
  /// Whether its graph has data inputs, and so is run for one micro-batch.
  bool reads_data() const;
};

/// A whole training step before it knows of devices. The training program is: for each lane, zero the accumulators, run
/// `micro` for each of its micro-batches in order; combine the lanes' accumulators by a balanced binary tree; run
/// `update`, then `derive`. With lanes = micro_batches_per_lane = 1 the compiler joins micro and update into one graph.
/// `derive` also runs after weights are loaded, and after a program of `programs` has written a state, before the next
/// use of any state. The order within a step, and what a step that a guard ends does to `programs`:
/// docs/architecture.md.
struct StepGraph {
  std::vector<StateTensor> states;
  Graph micro{"micro"};
  Graph update{"update"};
  Graph derive{"derive"};
  std::vector<StepProgram> programs;  ///< in the order in which they run after a step
  /// Scalar results of `micro` and `update` that end the step when they are not finite. Others may be anything.
  std::vector<std::string> guards;
  TensorAxes axes = default_tensor_axes();
  int64_t lanes = 1;
  int64_t micro_batches_per_lane = 1;
  bool joined = false;  ///< `micro` is the whole step, with the update in it (program/join.h)

  const StateTensor& state(const std::string& name) const;  ///< throws Error on an unknown name
  /// The kind whose place in a layout (rts, offload) the state takes: its own, but an optimizer state's for the low half
  /// of a weight that nothing but the update reads.
  StateKind placed_as(const StateTensor& state) const;
  /// The program of that name, or null.
  const StepProgram* find_program(std::string_view name) const;
  /// Whether the program writes states that derived ones may come from.
  bool writes_sources(const StepProgram& program) const;
  int64_t micro_batches() const { return lanes * micro_batches_per_lane; }
  /// All graphs: derive, micro, update, then those of `programs`.
  std::vector<Graph*> graphs();
  std::vector<const Graph*> graphs() const;
};

/// Throws Error, naming state and graph, where a graph reads or writes a state that it may not. `micro` may write sums,
/// chained states and the values of deferred states; the update and programs behind a step may write all saved states;
/// a program on request may write saved and kept states; `derive` writes derived states; a program of every micro-batch
/// writes none. Otherwise the devices that hold a state could have different values of it. The check also covers the
/// types, initial values and lanes that the roles need.
void check_roles(const StepGraph& step);

/// Verifies all graphs and the roles, that state inputs and outputs agree with `states`, that programs may run when
/// they say, and that guards are scalar results of the training program.
void verify(const StepGraph& step, const std::string& after);

/// Text of all: states, then the graphs.
std::string print(const StepGraph& step, PrintedText how = PrintedText::kListing);

}  // namespace ramet::transform
