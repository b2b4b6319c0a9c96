#pragma once

#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// A node `attention` or `attention_grad` as its kernels see it. For every sample b and head h, with P = softmax over
/// visible keys of scale * q k^T: out = dropout(P) v. A key k is visible to query q unless mask[b,k] is 0, or causal
/// and k > q. A query that sees no key gives zeros and lse = -inf.
///
/// With `segments` the mask numbers the sequences that share a row: q and k see each other when they lie in one run of
/// equal numbers that are not 0. Each run is computed as if it were alone in the row, from its own first position on,
/// so that its bits are those of an attention that has nothing else to see.
///
/// Dropout of P: element ((b heads + h) S + q) S + k of B heads S S (ops/random_bits.h), with k counted from the first
/// key of its run when there are segments, where b, h, B and heads are those of the logical tensor when the node has a
/// part of the samples or heads (attributes `cuts` and `position`).
struct AttentionForm {
  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  int64_t keys = 0;    ///< positions of k and v; of `attention` as many as queries
  bool joint = false;  ///< q, k, v are [.., 0, ..], [.., 1, ..], [.., 2, ..] of one input [B,S,3,heads,D]
  bool causal = false;
  bool segments = false;
  double scale = 1;
  double dropout = 0;
  int64_t seed = 0, tensor = 0;
  DType dtype = DType::kF32;  ///< of q, k, v, out and their gradients
  DType mask_dtype = DType::kI32;
  // Which inputs hold what; -1: absent. The last three are attention_grad's.
  int query = 0, key = 0, value = 0, mask = -1, counter = -1, out = -1, lse = -1, dout = -1;
  int first = -1;  ///< of `cached_attention`: the position of each sample's first query

  int64_t logical_heads = 0;            ///< B heads of the logical tensor
  std::vector<int64_t> logical_head{};  ///< b heads + h in the logical tensor, for each here; empty: the same
  /// Logical number of the head `head` = b heads + h of this node.
  int64_t draws_as(int64_t head) const { return logical_head.empty() ? head : logical_head[static_cast<size_t>(head)]; }
  /// Elements that dropout draws for in one micro-batch.
  int64_t draws() const { return logical_heads * sequence * sequence; }

  /// Elements between one position of q (or k, v) and the next, and where k and v begin in the joint input.
  int64_t position_stride() const { return (joint ? 3 : 1) * heads * head_size; }
  int64_t part_offset(int part) const { return joint ? part * heads * head_size : 0; }
};
/// Throws Error naming the node when the operands do not fit.
AttentionForm attention_form(const NodeSignature& node);
/// The same of a node `cached_attention`: causal, with `keys` positions of which query i of sample b sees those from 0
/// to first[b] + i.
AttentionForm cached_attention_form(const NodeSignature& node);

}  // namespace ramet::ops
