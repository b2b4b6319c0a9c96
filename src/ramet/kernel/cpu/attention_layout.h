#pragma once

#include <cstdint>

#include "ramet/kernel/cpu/attention_tile.h"
#include "ramet/ops/attention.h"

namespace ramet::kernel {

// Tile sizes of attention. They decide the order of sums, so they are part of the kernel class.
inline constexpr int64_t kForwardQueries = 64;
inline constexpr int64_t kForwardKeys = 128;
inline constexpr int64_t kBackwardKeys = 64;
inline constexpr int64_t kBackwardQueries = 128;

/// Extents of one head and the buffers that a thread works in. Units are 32 bits (attention_tile.h).
struct AttentionLayout {
  int64_t sequence, head_size;
  int64_t ratio;  ///< elements in a unit: 2 for bf16
  int64_t whole;  ///< products take a multiple of so many columns
  int64_t positions() const { return (sequence + 63) / 64 * 64; }
  /// Columns that products take of so many positions. What stands behind them in a panel is not read.
  int64_t taken(int64_t count) const { return (count + whole - 1) / whole * whole; }
  int64_t columns() const { return (head_size + 15) / 16 * 16; }        ///< of head size, as n of a product
  int64_t panels() const { return (head_size + kPanel - 1) / kPanel; }  ///< of head size
  int64_t depth() const { return (head_size + ratio - 1) / ratio; }     ///< units of head size, as k of a product
  int64_t depth_stride() const { return (depth() + 15) / 16 * 16; }
  int64_t position_units() const { return positions() / ratio; }
  int64_t sums_stride() const { return panels() * kPanel; }
  /// Bytes of one operand of a head with the contraction over head size ([panels of positions][depth][64]), and over
  /// positions ([panels of head size][position units][64]).
  int64_t by_depth_units() const { return positions() * depth_stride(); }
  int64_t by_position_units() const { return panels() * kPanel * position_units(); }
};

/// Hands out buffers of a thread's scratch one after the other, aligned to 64 bytes; from null it only counts.
class Scratch {
 public:
  explicit Scratch(char* base) : base_(base) {}
  template <typename T>
  T* take(int64_t count) {
    T* at = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return at;
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

struct ForwardBuffers {
  uint32_t *key, *value, *query, *probabilities;
  float *scores, *sums, *most, *total, *bias;
  uint16_t* bits;
  float* terms;  ///< of a row of a tile; null where scores need none

  /// `keys` and `values` are the keys of a head and its values.
  ForwardBuffers(const AttentionForm& form, const AttentionLayout& keys, const AttentionLayout& values,
                 Scratch& scratch)
      : key(scratch.take<uint32_t>(keys.by_depth_units())),
        value(scratch.take<uint32_t>(values.by_position_units())),
        query(scratch.take<uint32_t>(kForwardQueries * keys.depth_stride())),
        probabilities(scratch.take<uint32_t>(kForwardQueries * kForwardKeys / keys.ratio)),
        scores(scratch.take<float>(kForwardQueries * kForwardKeys)),
        sums(scratch.take<float>(kForwardQueries * values.sums_stride())),
        most(scratch.take<float>(kForwardQueries)),
        total(scratch.take<float>(kForwardQueries)),
        bias(scratch.take<float>(keys.positions())),
        bits(scratch.take<uint16_t>(kForwardKeys + 256)),
        terms(scratch.take<float>(form.adjusts_scores() ? kForwardKeys : 0)) {}
};

struct BackwardBuffers {
  // Of the head: q and dout in both forms; dq transposed; what each query subtracts.
  uint32_t *query_by_depth, *dout_by_depth, *query_by_position, *dout_by_position;
  float *dquery, *lse, *delta, *bias;
  // Of a block of keys: rows of k and v, columns of k, sums (of all keys where query heads share them).
  uint32_t *key_rows, *value_rows, *key_columns;
  float *dkey, *dvalue;
  // Of a tile.
  float *scores, *dscores;
  uint32_t *probability_rows, *dscore_rows, *dscore_pairs;
  uint16_t *keep, *bits;
  // Of a tile whose scores are adjusted: what is added to them, rows by query, then rows by key; slopes of the cap.
  float *terms, *terms_by_key, *cap_slopes;
  /// Gradients of scores [keys][queries], summed over samples and heads: one plane, or one for each query head that
  /// shares the keys.
  float* planes;

  int64_t dquery_stride;  // off a power of two, so that rows do not meet in one set of the cache
  int64_t plane_stride;   // between keys; has room for a run's last tile
  int64_t plane_elements;

  /// `queries` are q of a head, `outputs` its output.
  BackwardBuffers(const AttentionForm& form, const AttentionLayout& queries, const AttentionLayout& outputs,
                  Scratch& scratch)
      : BackwardBuffers(form, queries, outputs,
                        AttentionLayout{form.keys, form.head_size, queries.ratio, queries.whole}.positions(), scratch) {
  }

  static int64_t planes_of(const AttentionForm& form) {
    return !form.bias_gradient ? 0 : form.bias_sums_heads() ? 1 : form.group();
  }
  float* plane(int64_t which) const { return planes + which * plane_elements; }

 private:
  BackwardBuffers(const AttentionForm& form, const AttentionLayout& queries, const AttentionLayout& outputs,
                  int64_t key_positions, Scratch& scratch)
      : query_by_depth(scratch.take<uint32_t>(queries.by_depth_units())),
        dout_by_depth(scratch.take<uint32_t>(outputs.by_depth_units())),
        query_by_position(scratch.take<uint32_t>(queries.by_position_units())),
        dout_by_position(scratch.take<uint32_t>(outputs.by_position_units())),
        dquery(scratch.take<float>(queries.sums_stride() * (queries.positions() + 16))),
        lse(scratch.take<float>(queries.positions())),
        delta(scratch.take<float>(queries.positions())),
        bias(scratch.take<float>(key_positions)),
        key_rows(scratch.take<uint32_t>(kBackwardKeys * queries.depth_stride())),
        value_rows(scratch.take<uint32_t>(kBackwardKeys * outputs.depth_stride())),
        key_columns(scratch.take<uint32_t>(queries.sums_stride() * kBackwardKeys / queries.ratio)),
        dkey(scratch.take<float>((form.group() > 1 ? key_positions : kBackwardKeys) * queries.sums_stride())),
        dvalue(scratch.take<float>((form.group() > 1 ? key_positions : kBackwardKeys) * outputs.sums_stride())),
        scores(scratch.take<float>(kBackwardKeys * kBackwardQueries)),
        dscores(scratch.take<float>(kBackwardKeys * kBackwardQueries)),
        probability_rows(scratch.take<uint32_t>(kBackwardKeys * kBackwardQueries / queries.ratio)),
        dscore_rows(scratch.take<uint32_t>(kBackwardKeys * kBackwardQueries / queries.ratio)),
        dscore_pairs(scratch.take<uint32_t>(kBackwardKeys * kBackwardQueries / queries.ratio)),
        keep(scratch.take<uint16_t>(kBackwardKeys * kBackwardQueries)),
        bits(scratch.take<uint16_t>(kBackwardKeys + 256)),
        terms(scratch.take<float>(form.adjusts_scores() ? kBackwardKeys * kBackwardQueries : 0)),
        terms_by_key(scratch.take<float>(form.adjusts_scores() ? kBackwardKeys * kBackwardQueries : 0)),
        cap_slopes(scratch.take<float>(form.soft_cap > 0 ? kBackwardKeys * kBackwardQueries : 0)),
        planes(scratch.take<float>(planes_of(form) * key_positions * (queries.positions() + 64))),
        dquery_stride(queries.positions() + 16),
        plane_stride(queries.positions() + 64),
        plane_elements(key_positions * (queries.positions() + 64)) {}
};

}  // namespace ramet::kernel
