#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ramet/ir/op.h"

// Facts of ops about the order of dimensions, from which transform/memory_format.h works. The file of an op's family
// registers them beside the op's entry.

namespace ramet::ops {

/// Operands of an op that have channels: [samples, channels, space...], of at least three dimensions; or, where the
/// node's attribute `channels_last` is true, [samples, space..., channels].
struct ChannelOperands {
  std::vector<int> inputs{}, outputs{};
};
void register_channel_operands(const std::string& op, ChannelOperands operands);
/// Null for ops without channels.
const ChannelOperands* channel_operands(const OpDef& op);

/// How a node computes when the dimensions of its operands are permuted.
struct PermutedNode {
  Attributes attributes;
  bool outputs_too = true;  ///< outputs come permuted alike; false: as they were
};
/// The same node where dimension i of each input, all of them of `order`'s rank, is dimension order[i] of the input at
/// hand. Nothing when there is no such node.
using PermuteRule =
    std::function<std::optional<PermutedNode>(const NodeSignature& node, const std::vector<int64_t>& order)>;
void register_permute_rule(const std::string& op, PermuteRule rule);
/// Null for ops without a rule. Element-wise ops (OpDef::map_op) need none: their attributes stay.
const PermuteRule* permute_rule(const OpDef& op);

/// The rule of an op whose attributes named in `axis` are a dimension's number, and whose attributes named in `lists`
/// have one number a dimension.
PermuteRule permute_attributes(std::vector<std::string> axis, std::vector<std::string> lists);

}  // namespace ramet::ops
