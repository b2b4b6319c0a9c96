#pragma once

#include "ramet/base/house.h"

#include <vector>

#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// The nodes of a graph with one node "Attention" of the domain "ramet" in place of attention that is written out: a
/// product of queries and transposed keys, factors, a summand, a softmax over the last dimension, a guard against rows
/// that are hidden whole, and a product with values. Its inputs are queries, transposed keys, values and the summand
/// (or ""); its attributes are `scale`, the product of the factors, and the softmax's `axis`. `version` is that of the
/// operator set. A group is replaced only where nothing else reads its inner values. Another softmax behind which a Where
/// chooses becomes a "Softmax" of the domain "ramet".
std::vector<OnnxNode> fuse_onnx_nodes(const OnnxGraph& graph, int64_t version);

}  // namespace ramet::front
