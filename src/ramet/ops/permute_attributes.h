#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// The rule OpDef::permuted of an op whose attributes named in `axis` are a dimension's number, and whose attributes
/// named in `lists` have one number a dimension.
std::function<std::optional<PermutedNode>(const NodeSignature&, const std::vector<int64_t>&)> permute_attributes(
    std::vector<std::string> axis, std::vector<std::string> lists);

}  // namespace ramet::ops
