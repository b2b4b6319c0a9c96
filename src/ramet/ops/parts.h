#pragma once

#include <cstdint>
#include <vector>

#include "ramet/ir/builder.h"

namespace ramet::ops {

// Rows of a tensor that a model cuts into T equal parts, [T, n, ...]: a graph's nodes, dealt to devices part by part
// (the logical axis "parts"). What each part asks of the others stands in tables of indices, whose contents differ from
// part to part while their shapes are equal: shorter ones are padded with kNoRow.

/// An index that names no row: a gather gives zeros for it, a sum leaves it out.
inline constexpr int64_t kNoRow = -1;

/// Rows of each part by indices of its own: [T, n, ...] and i32 [T, I...] give [T, I..., ...].
Tensor gather_parts(Tensor rows, Tensor indices);
/// Sums of updates [T, I..., ...] at rows [T, I...] of each part: [T, n, ...]; a row's sum is one chain of f32
/// additions in order of the indices.
Tensor scatter_parts(Tensor indices, Tensor updates, int64_t rows);
/// Rows that parts send one another: `send` i32 [T, T, K] says which of its rows part q sends to part p, send[q, p, :].
/// The result [T, T, K, ...] has at [p, q] what part p got from part q. Where parts are on different devices, this is
/// one all-to-all.
Tensor exchange_rows(Tensor rows, Tensor send);

/// The lists of all parts as one table [T, longest], shorter ones padded with kNoRow behind their end.
HostTensor padded_table(const std::vector<std::vector<int32_t>>& lists);
/// Share of a table that is padding.
double padding_of(const HostTensor& table);

}  // namespace ramet::ops
