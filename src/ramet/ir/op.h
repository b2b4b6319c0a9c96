#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/shape.h"
#include "ramet/ir/attribute.h"

namespace ramet::ir {

struct OpDef;
class Graph;
struct Tensor;
class GraphBuilder;

/// A node as seen from outside any graph: all that its cost, its sharding and its kernel depend on.
struct NodeSignature {
  const OpDef* op = nullptr;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  Attributes attributes;
  std::string name;  ///< for messages only

  /// "matmul 'layer0/ffn' (bf16[2048,768], bf16[768,3072])"
  std::string text() const;
};

/// Work of one node on one device.
struct Cost {
  double flops = 0;        ///< floating-point operations, a multiply-add counts two
  int64_t bytes_read = 0;  ///< from device memory
  int64_t bytes_written = 0;
};

/// `batch` matrix products [m,k] x [k,n] that a node computes, for machines that have units for them.
struct MatrixProduct {
  int64_t batch = 1, m = 0, k = 0, n = 0;
  DType operands = DType::kF32;  ///< that the matrix units read
  friend bool operator==(const MatrixProduct&, const MatrixProduct&) = default;
};

/// How dimensions of a node's operands correspond, in the manner of an einsum (cf. Shardy's op_sharding_rule).
/// Each dimension of each operand is a product of factors, major first. A factor that stands in every output
/// is free to be split; one that stands in inputs only is reduced: shards hold partial results that must be
/// combined as `reduce` says; a `whole` factor must not be split. A factor that stands in some outputs only has a
/// `reduce` too: the outputs that lack it are then partial results. Text form: "([i,k],[k,j])->[i,j]"; a compound
/// dimension "a*b"; a whole factor "!k"; an operand dimension of extent 1 that broadcasts "1".
struct ShardingRule {
  enum class Reduce { kNone, kSum, kMax, kMin };
  struct Factor {
    std::string name;
    int64_t size = 0;
    bool whole = false;
    Reduce reduce = Reduce::kNone;
  };
  using Dim = std::vector<int>;      ///< indices of factors, major first; empty for a broadcast 1
  using Operand = std::vector<Dim>;  ///< one entry a dimension
  std::vector<Factor> factors;
  std::vector<Operand> inputs, outputs;

  /// Parses the text form against the operands' shapes, which give the factors' sizes (at most one unknown
  /// factor in each compound dimension can be inferred; others must be known from elsewhere). Reduced factors
  /// get `reduce`. Throws Error when extents contradict each other.
  static ShardingRule parse(std::string_view text, const NodeSignature& node, Reduce reduce = Reduce::kSum);
  std::string text() const;
};

/// Arguments of a gradient rule, and the tools to build its result.
struct GradientContext {
  GraphBuilder& build;                       ///< appends to the graph being differentiated
  const NodeSignature& node;                 ///< the forward node
  std::span<const Tensor> inputs, outputs;   ///< its values, usable in the backward graph
  std::span<const Tensor> output_gradients;  ///< one an output; invalid where no gradient flows
  std::vector<bool> needed;                  ///< one an input: whether its gradient is wanted
};

/// Arguments of a simplification rule. Inputs are values of the graph under construction, already simplified.
struct SimplifyContext {
  GraphBuilder& build;
  const NodeSignature& node;
  std::span<const Tensor> inputs;
};

/// One attribute of an op, for the verifier and for `--help`.
struct AttributeSpec {
  std::string name;
  enum class Kind { kBool, kInt, kFloat, kString, kInts, kDType, kTensor } kind;
  bool required = true;
  std::string doc;
};

/// What moves between devices when a node runs; such nodes are made by partitioning and run by a transport, not by a
/// kernel.
enum class Exchange : uint8_t { kNone, kAllReduce, kAllGather, kReduceScatter, kAllToAll };

/// The expected size of a value's elements before the first step of training, for unit scaling
/// (transform/unit_scale.h). A row runs along the last dimension; the rows of one sample are adjacent.
struct Amplitude {
  double rms = 1;          ///< root of the mean square
  double in_sample = 0;    ///< mean product of one element in two rows of a sample, over the mean square
  double across = 0;       ///< the same of rows of different samples
  double weight = 1;       ///< with which a residual takes it: below 1 behind averages over rows
  bool parameter = false;  ///< a weight, or a part of one, whose rows are found by index
  bool exact = false;      ///< a statistic, a count, a loss: stays as it is
};

/// Arguments of a scaling rule: the node, its inputs (already scaled) and the number of samples in a micro-batch, all
/// of logical tensors.
struct ScalingContext {
  const NodeSignature& node;
  std::span<const Amplitude> inputs;
  int64_t samples = 1;
};

/// How an op's results and gradients spread, from which unit scaling (Blake, Orr and Luschi, arXiv 2303.11257) takes
/// the op's forward and backward factors. See ops/scaling_rules.h.
struct ScalingRule {
  /// Amplitude of each output as the op stands. Empty: the op has no rule, and unit scaling refuses it.
  std::function<std::vector<Amplitude>(const ScalingContext&)> forward{};
  /// Amplitude of each input's gradient, for those of the outputs (rms 0: none flows). Empty: no gradient.
  std::function<std::vector<Amplitude>(const ScalingContext&, std::span<const Amplitude> gradients)> backward{};
  bool sum = false;          ///< output 0 is the sum of the inputs, each of which may be given a weight
  bool passes = false;       ///< output 0 is input 0 in another form, type or place
  bool part = false;         ///< output 0 is a part of input 0
  std::vector<int> added{};  ///< inputs that are added to output 0 at the end (bias): the factor is not theirs
  bool logits = false;       ///< input 0 are logits, so that a weight's product that makes them is a model's last
  /// Of a product with a weight in input 1: how many of the weight's elements meet in a sum. Empty: no product.
  std::function<int64_t(const NodeSignature&)> fan_in{};
  /// Attributes under u-muP, where the product of queries and keys is `multiplier` / head size. Empty: the same.
  std::function<Attributes(const NodeSignature&, double multiplier)> u_mup{};
};

/// Operands of an op that have channels: [samples, channels, space...], of at least three dimensions; or, where the
/// node's attribute `channels_last` is true, [samples, space..., channels]. Empty: the op has none.
struct ChannelOperands {
  std::vector<int> inputs{}, outputs{};
  bool empty() const { return inputs.empty() && outputs.empty(); }
};

/// How a node computes when the dimensions of its operands are permuted.
struct PermutedNode {
  Attributes attributes;
  bool outputs_too = true;  ///< outputs come permuted alike; false: as they were
};

/// All that the compiler knows of an op (docs/contributing.md: an op is one entry).
struct OpDef {
  std::string name;
  std::string doc;  ///< one line: what it computes, with shapes
  int min_inputs = 0;
  int max_inputs = 0;  ///< -1: any number
  std::vector<AttributeSpec> attributes;

  /// Type rule: output types from input types and attributes. `node.outputs` is empty. Throws Error whose
  /// `where` is `node.text()`.
  std::function<std::vector<TensorType>(const NodeSignature& node)> infer;
  /// Reverse-mode rule: one gradient an input (an invalid Tensor where there is none). Empty: the op has no
  /// gradient, and differentiate refuses to pass through it unless `gradient_stops`.
  std::function<std::vector<Tensor>(GradientContext&)> gradient;
  /// Whether gradients stop here silently (comparisons, argmax, one-hot, casts to integers).
  bool gradient_stops = false;
  /// Algebraic identities: a tensor of the same type that equals output 0, or an invalid one when none applies. Must
  /// not change a bit. May build nodes. Empty: none.
  std::function<Tensor(SimplifyContext&)> simplify{};
  /// The same bits with the reduction as a bare node of f32 and the rest (bias, rounding) behind it: what partitioning
  /// puts in place of the node before it splits the reduced factor, whose shards hold partial sums. Gives a tensor of
  /// output 0's type, or an invalid one when the node is bare already or cannot be taken apart. Empty: never.
  std::function<Tensor(SimplifyContext&)> apart{};
  std::function<ShardingRule(const NodeSignature& node)> sharding;
  /// Attributes of the node that computes one shard, when factor f of `rule` (this op's, for the whole node) is split
  /// in parts[f]. Needed by ops whose attributes hold extents of dimensions that may be split. Empty: unchanged.
  std::function<Attributes(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule)>
      localize{};
  /// Of ops whose attribute `chunks` cuts a dimension of their own choice, samples too (transform/chunk.h): its extent,
  /// 0 where nothing may be cut. Empty: the dimensions that the sharding rule reduces, unless they are samples.
  std::function<int64_t(const NodeSignature& node)> chunked_extent{};
  std::function<Cost(const NodeSignature& node)> cost;
  /// The matrix products in it, one after another. Empty: none.
  std::function<std::vector<MatrixProduct>(const NodeSignature& node)> products{};
  /// Not empty: an element-wise op with this opcode of map programs (ops/map_program.h), or with this whole program
  /// (its text form has a colon); inputs broadcast.
  std::string map_op{};
  /// Whether the order of two inputs does not matter to any bit (for common subexpressions).
  bool commutative = false;
  /// Of an op with any number of inputs: any grouping of them gives the same bits, op(op(a, b), c) = op(a, b, c), so
  /// that partitioning may compute a part where its inputs are.
  bool regroups = false;
  /// Output 0 is rows of input 0 (parts of one index of dimension 0), picked by the indices in input 1.
  bool picks_rows = false;
  /// Costs nothing at run time: the output is the input's bytes under another type (reshape).
  bool is_view = false;
  /// Not kNone: a collective of a group of devices (ops/collective.h).
  Exchange exchange = Exchange::kNone;
  /// Whether recomputing the node in the backward pass is cheap against storing its outputs (element-wise, norms).
  bool cheap = false;
  /// Precision policy under a low-precision recipe (transform/precision.h).
  enum class Precision {
    kFollow,  ///< computes in the type of its floating inputs; casts none (element-wise, shapes, norms)
    kLow,     ///< floating inputs are cast to the compute type (matrix products, attention)
    kFull     ///< floating inputs are cast to f32 (losses, optimizers, reductions to a scalar)
  } precision = Precision::kFollow;
  /// The operand whose dimensions the attributes `cuts` and `position` (ops/position.h) speak of, for ops whose result
  /// depends on where in the logical tensor their elements are: an input, or kPositionalOutput for output 0. Any node
  /// of such an op may have the two attributes; absent, its operand is whole. kNotPositional: the op does not care.
  int positional = kNotPositional;
  static constexpr int kNotPositional = -1, kPositionalOutput = -2;
  /// Of such an op: whether this node's result depends on where its elements are. Empty: every node's does.
  std::function<bool(const NodeSignature& node)> positional_if{};
  /// Inputs that the precision pass leaves in f32 whatever the policy: bias, gain, statistics.
  std::vector<int> full_inputs{};
  /// From which the memory formats of a network are chosen (transform/memory_format.h).
  ChannelOperands channels{};
  /// The same node where dimension i of each input, all of them of `order`'s rank, is dimension order[i] of the input
  /// at hand. Nothing when there is no such node. Empty: no rule; element-wise ops (map_op) need none, their attributes
  /// stay.
  std::function<std::optional<PermutedNode>(const NodeSignature& node, const std::vector<int64_t>& order)> permuted{};
  /// Of ops with precision kLow: whether operands may be 8-bit floats (transform/precision.h).
  bool narrow = false;
  ScalingRule scaling{};
};

/// Whether a node's result depends on where its elements are in the logical tensor.
inline bool depends_on_positions(const NodeSignature& node) {
  return node.op->positional != OpDef::kNotPositional && (!node.op->positional_if || node.op->positional_if(node));
}

/// The table of all ops. Entries are added once, by ops/ (see ops/register.h), and never change.
class OpRegistry {
 public:
  static OpRegistry& instance();
  /// Throws Error on a second op of the same name.
  const OpDef& add(OpDef op);
  /// Throws Error naming the nearest known op.
  const OpDef& get(std::string_view name) const;
  const OpDef* find(std::string_view name) const;
  std::vector<const OpDef*> all() const;  ///< in order of name

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

}  // namespace ramet::ir
