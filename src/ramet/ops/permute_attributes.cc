#include "ramet/ops/permute_attributes.h"

#include <algorithm>

#include "ramet/base/shape.h"

namespace ramet::ops {

std::function<std::optional<PermutedNode>(const NodeSignature&, const std::vector<int64_t>&)> permute_attributes(
    std::vector<std::string> axis, std::vector<std::string> lists) {
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
