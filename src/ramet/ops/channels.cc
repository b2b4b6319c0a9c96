#include "ramet/ops/channels.h"

#include <algorithm>
#include <map>

#include "ramet/base/shape.h"

namespace ramet::ops {
namespace {

std::map<std::string, ChannelOperands>& operands() {
  static std::map<std::string, ChannelOperands> table;
  return table;
}
std::map<std::string, PermuteRule>& rules() {
  static std::map<std::string, PermuteRule> table;
  return table;
}

}  // namespace

void register_channel_operands(const std::string& op, ChannelOperands of_op) { operands()[op] = std::move(of_op); }

const ChannelOperands* channel_operands(const OpDef& op) {
  const auto found = operands().find(op.name);
  return found == operands().end() ? nullptr : &found->second;
}

void register_permute_rule(const std::string& op, PermuteRule rule) { rules()[op] = std::move(rule); }

const PermuteRule* permute_rule(const OpDef& op) {
  const auto found = rules().find(op.name);
  return found == rules().end() ? nullptr : &found->second;
}

PermuteRule permute_attributes(std::vector<std::string> axis, std::vector<std::string> lists) {
  return [axis = std::move(axis), lists = std::move(lists)](
             const NodeSignature& node, const std::vector<int64_t>& order) -> std::optional<PermutedNode> {
    PermutedNode permuted{node.attributes};
    const int rank = static_cast<int>(order.size());
    for (const std::string& name : axis) {
      if (!node.attributes.has(name)) continue;
      const int64_t old = normalize_axis(node.attributes.get_int(name), rank, node.text());
      permuted.attributes.set(name, static_cast<int64_t>(std::find(order.begin(), order.end(), old) - order.begin()));
    }
    for (const std::string& name : lists) {
      if (!node.attributes.has(name)) continue;
      const std::vector<int64_t>& old = node.attributes.get_ints(name);
      std::vector<int64_t> made;
      for (int64_t dimension : order) made.push_back(old.at(static_cast<size_t>(dimension)));
      permuted.attributes.set(name, std::move(made));
    }
    return permuted;
  };
}

}  // namespace ramet::ops
