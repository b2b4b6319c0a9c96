#pragma once

#include <optional>

#include "ramet/ir/graph.h"
#include "ramet/program/kernel_library.h"

namespace ramet::program {

/// The layout that KernelLibrary::blocking gives for an activation of a product with a block-sparse matrix
/// (ops/sparse.h) where the kernel is faster with panels of this many tokens. Panels are tensors, so no node "block"
/// makes them.
BlockedLayout panel_layout(const TensorType& activation, int64_t tokens);
/// The tokens of a panel, if it is such a layout.
std::optional<int64_t> panel_tokens(const BlockedLayout& layout);

/// Keeps activations between products with block-sparse matrices in the panels in which these products compute, so that
/// no kernel packs or unpacks them. A value is kept so where such a product or an element-wise node of such values
/// makes it, and where all its readers are such products, such element-wise nodes, or sums over all tokens. In a
/// transformer these are the values between the two matrices of a feed-forward layer, in the forward and the backward
/// pass. A value in panels is a tensor [panels, features, tokens of a panel]; biases become [features, 1]. The number
/// of tokens must be a multiple of a panel's. Changes no bit.
Graph keep_panels(const Graph& graph, const KernelLibrary& library);

}  // namespace ramet::program
