#pragma once

#include <algorithm>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// Where the elements of an operand that broadcasts to the scores [B, heads, S, T] stand: elements between neighbours
/// along each of the four dimensions, 0 where the operand's extent is 1 and it broadcasts.
struct ScoreStrides {
  int64_t sample = 0, head = 0, query = 0, key = 0;
  int64_t at(int64_t b, int64_t h, int64_t q, int64_t k) const { return b * sample + h * head + q * query + k * key; }
};

/// A node `attention`, `attention_grad` or `cached_attention` as its kernels see it. For every sample b and query head
/// h, with g = h / (heads / key_heads) the head of its keys and values:
///
///     s = scale * q k^T;  s = cap tanh(s / cap) with a soft cap;  s += bias;  s -= slope |own - k| with slopes
///     P = softmax over visible keys of s;  out = dropout(P) v
///
/// Query q stands at position own = q + ahead among the keys, where `ahead` is T - S when the last query stands at the
/// last key (`bottom_right`), first[b] in cached attention, else 0. A key k is visible to it unless the mask is 0
/// there, or causal and k > own, or k < own - left, or k > own + right. A bias of -infinity hides a key too. A query
/// that sees no key gives zeros and lse = -inf, and has no gradient.
///
/// With `segments` the mask numbers the sequences that share a row: q and k see each other when they lie in one run of
/// equal numbers that are not 0. Each run is computed as if it were alone in the row, from its own first position on,
/// so that its bits are those of an attention that has nothing else to see. (A bias is indexed by positions in the
/// row.)
///
/// Dropout of P: element ((b heads + h) S + q) T + k of B heads S T (ops/random_bits.h), with k counted from the first
/// key of its run when there are segments, where b, h, B and heads are those of the logical tensor when the node has a
/// part of the samples or heads (attributes `cuts` and `position`).
///
/// The gradient of the bias is f32. Along dimensions in which the bias broadcasts it is a sum, in an order that depends
/// on logical shapes alone: samples in `sample_blocks()` blocks of neighbours, each in order, blocks in order; query
/// heads in `chunks` parts of neighbours, each in order, the parts by a balanced tree (ops/reduce_order.h).
struct AttentionForm {
  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  int64_t keys = 0;        ///< positions of k and v
  int64_t key_heads = 0;   ///< heads of k and v; divides `heads`
  int64_t value_size = 0;  ///< head size of v and of the output
  bool joint = false;      ///< q, k, v are [.., 0, ..], [.., 1, ..], [.., 2, ..] of one input [B,S,3,heads,D]
  bool causal = false;
  bool segments = false;
  int64_t ahead = 0;              ///< position of query 0 among the keys; not of cached attention
  int64_t left = -1, right = -1;  ///< of the window; -1: no limit
  double scale = 1;
  double soft_cap = 0;  ///< 0: none
  double dropout = 0;
  int64_t seed = 0, tensor = 0;
  DType dtype = DType::kF32;  ///< of q, k, v, out and their gradients
  DType mask_dtype = DType::kI32, bias_dtype = DType::kF32;
  bool key_mask = false;  ///< the mask is [B, T]; else it broadcasts to the scores
  ScoreStrides mask_strides{}, bias_strides{};
  Shape bias_shape{};
  bool bias_gradient = false;  ///< `attention_grad` gives the gradient of the bias
  int64_t chunks = 1;          ///< of heads, for that gradient
  // Which inputs hold what; -1: absent. The last three are attention_grad's.
  int query = 0, key = 0, value = 0, bias = -1, slopes = -1, mask = -1, counter = -1, out = -1, lse = -1, dout = -1;
  int first = -1;  ///< of `cached_attention`: the position of each sample's first query

  int64_t logical_heads = 0;            ///< B heads of the logical tensor
  std::vector<int64_t> logical_head{};  ///< b heads + h in the logical tensor, for each here; empty: the same
  /// Logical number of the head `head` = b heads + h of this node.
  int64_t draws_as(int64_t head) const { return logical_head.empty() ? head : logical_head[static_cast<size_t>(head)]; }
  /// Elements that dropout draws for in one micro-batch.
  int64_t draws() const { return logical_heads * sequence * keys; }

  /// Query heads that share a head of keys.
  int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
  /// Elements between one position of q (part 0), k (1) or v (2) and the next.
  int64_t position_stride(int part = 0) const {
    if (joint) return 3 * heads * head_size;
    return part == 0 ? heads * head_size : key_heads * (part == 1 ? head_size : value_size);
  }
  /// Where k and v begin in the joint input.
  int64_t part_offset(int part) const { return joint ? part * heads * head_size : 0; }

  /// Whether scores are more than scale q k^T with a mask of keys and a causal one.
  bool adjusts_scores() const {
    return bias >= 0 || slopes >= 0 || (mask >= 0 && !key_mask) || soft_cap > 0 || left >= 0 || right >= 0;
  }
  /// The keys [first_key, end_key) of `count` that the query at position `own` may see by its position.
  int64_t first_key(int64_t own) const { return left < 0 ? 0 : std::max<int64_t>(0, own - left); }
  int64_t end_key(int64_t own, int64_t count) const {
    if (causal) return std::clamp<int64_t>(own + 1, 0, count);
    return right < 0 ? count : std::clamp<int64_t>(own + right + 1, 0, count);
  }
  /// Pairs of a query and a key of one head that see each other by their positions.
  double visible_pairs() const;

  bool bias_sums_samples() const { return bias_gradient && bias_shape[0] == 1 && batch > 1; }
  bool bias_sums_heads() const { return bias_gradient && bias_shape[1] == 1 && heads > 1; }
  /// Blocks of samples of which the gradient of the bias is the sum.
  int64_t sample_blocks() const;
};
/// Throws Error naming the node when the operands do not fit.
AttentionForm attention_form(const NodeSignature& node);
/// The same of a node `cached_attention`: causal, with `keys` positions of which query i of sample b sees those from 0
/// to first[b] + i.
AttentionForm cached_attention_form(const NodeSignature& node);
/// Refuses the node unless 0 <= rate < 1.
void check_dropout_rate(const NodeSignature& node, double rate);

}  // namespace ramet::ops
