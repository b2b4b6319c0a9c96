#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ramet/ir/builder.h"
#include "ramet/ir/op.h"

// Functions that the entries of the op table share: checks with good messages, and the usual gradients, costs and
// sharding rules.

namespace ramet::ops {

// --- checks of a type rule; each throws Error with `where` = node.text() ---

[[noreturn]] void refuse(const NodeSignature& node, const std::string& what, const std::string& found = "",
                         const std::string& expected = "", const std::string& remedy = "");
/// "input 1 (weight)" style: `operand` is a word for the message.
void require_floating(const NodeSignature& node, int input, const std::string& operand);
void require_dtype(const NodeSignature& node, int input, const std::string& operand,
                   std::initializer_list<DType> allowed);
void require_rank(const NodeSignature& node, int input, const std::string& operand, int least, int most = 16);
void require_shape(const NodeSignature& node, int input, const std::string& operand, const Shape& expected);
/// Extents of a shape that an attribute gives: at most 16, each in [0, 2^40], at most 2^48 elements.
Shape shape_attribute(const NodeSignature& node, const std::string& name);
/// Throws when a type that a rule is about to return breaks the same bounds.
void require_bounded(const NodeSignature& node, const Shape& shape);
/// Attribute `name` as an axis of a tensor of `rank`, 0 to rank - 1.
int axis_attribute(const NodeSignature& node, const std::string& name, int rank);
/// Attribute `name` as sorted, distinct axes; absent or empty: all.
std::vector<int> axes_attribute(const NodeSignature& node, const std::string& name, int rank);
/// Type that two floating types compute in together: equal ones stay, f64 wins, other pairs give f32. Throws for
/// others.
DType promote_floats(const NodeSignature& node, DType a, DType b);

// --- gradients ---

/// Sums a gradient over the dimensions that `type` was broadcast along, and casts it to its dtype.
Tensor sum_to(Tensor gradient, const TensorType& type);
/// A tensor of zeros of this type.
Tensor zeros(GraphBuilder& build, const TensorType& type);
/// `gradient` cast to `dtype`, when it is not of it already.
Tensor cast_to(Tensor gradient, DType dtype);

// --- cost ---

/// All inputs read once, all outputs written once, and `flops`.
Cost streaming_cost(const NodeSignature& node, double flops);
/// The same with `flops` an element of the first output.
Cost streaming_cost_each(const NodeSignature& node, double flops_each);
Cost no_cost(const NodeSignature& node);

// --- sharding ---

/// Writes a ShardingRule dimension by dimension.
class RuleBuilder {
 public:
  /// A new factor; its name is made from `prefix` and a number.
  int factor(int64_t size, bool whole = false, ShardingRule::Reduce reduce = ShardingRule::Reduce::kNone);
  RuleBuilder& input(ShardingRule::Operand operand);
  RuleBuilder& output(ShardingRule::Operand operand);
  ShardingRule::Factor& at(int factor) { return rule_.factors[static_cast<size_t>(factor)]; }
  ShardingRule build() { return std::move(rule_); }

 private:
  ShardingRule rule_;
};

/// The operand of a tensor broadcast by NumPy's rule to a space whose dimensions are `factors`: extents of 1 where the
/// space's is another broadcast.
ShardingRule::Operand broadcast_operand(const Shape& shape, const Shape& space, const std::vector<int>& factors);
/// All inputs broadcast to the shape of output 0, every dimension of which is free.
ShardingRule elementwise_sharding(const NodeSignature& node);
/// Nothing may be split.
ShardingRule whole_sharding(const NodeSignature& node);
/// Input 0 and all outputs have the same dimensions, of which those in `whole` must stay whole and the others are free.
ShardingRule same_dims_sharding(const NodeSignature& node, const std::vector<int>& whole);

/// OpDef::localize of ops whose attribute `shape` is the shape of output 0.
Attributes localize_shape(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule);
/// OpDef::localize of ops whose attribute `chunks` is the size of the factor called "c": a shard holds some of the
/// chunks.
Attributes localize_chunks(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule);
/// Extent of one dimension in a shard.
int64_t local_extent(const ShardingRule::Dim& dim, const std::vector<int64_t>& parts, const ShardingRule& rule);

// --- attributes ---

AttributeSpec required_attribute(const std::string& name, AttributeSpec::Kind kind, const std::string& doc);
AttributeSpec optional_attribute(const std::string& name, AttributeSpec::Kind kind, const std::string& doc);

}  // namespace ramet::ops
