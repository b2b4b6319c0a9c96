#pragma once

#include <cstdint>

#include "ramet/kernel/cpu/attention_tile.h"

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
  int64_t positions() const { return (sequence + 63) / 64 * 64; }
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
  ForwardBuffers(const AttentionLayout& layout, Scratch& scratch)
      : key(scratch.take<uint32_t>(layout.by_depth_units())),
        value(scratch.take<uint32_t>(layout.by_position_units())),
        query(scratch.take<uint32_t>(kForwardQueries * layout.depth_stride())),
        probabilities(scratch.take<uint32_t>(kForwardQueries * kForwardKeys / layout.ratio)),
        scores(scratch.take<float>(kForwardQueries * kForwardKeys)),
        sums(scratch.take<float>(kForwardQueries * layout.sums_stride())),
        most(scratch.take<float>(kForwardQueries)),
        total(scratch.take<float>(kForwardQueries)),
        bias(scratch.take<float>(layout.positions())),
        bits(scratch.take<uint16_t>(kForwardKeys + 256)) {}
};

struct BackwardBuffers {
  // Of the head: q and dout in both forms; dq transposed; what each query subtracts.
  uint32_t *query_by_depth, *dout_by_depth, *query_by_position, *dout_by_position;
  float *dquery, *lse, *delta, *bias;
  // Of a block of keys: rows of k and v, columns of k, sums.
  uint32_t *key_rows, *value_rows, *key_columns;
  float *dkey, *dvalue;
  // Of a tile.
  float *scores, *dscores;
  uint32_t *probability_rows, *dscore_rows, *dscore_pairs;
  uint16_t *keep, *bits;

  int64_t dquery_stride;  // off a power of two, so that rows do not meet in one set of the cache

  BackwardBuffers(const AttentionLayout& layout, Scratch& scratch)
      : query_by_depth(scratch.take<uint32_t>(layout.by_depth_units())),
        dout_by_depth(scratch.take<uint32_t>(layout.by_depth_units())),
        query_by_position(scratch.take<uint32_t>(layout.by_position_units())),
        dout_by_position(scratch.take<uint32_t>(layout.by_position_units())),
        dquery(scratch.take<float>(layout.sums_stride() * (layout.positions() + 16))),
        lse(scratch.take<float>(layout.positions())),
        delta(scratch.take<float>(layout.positions())),
        bias(scratch.take<float>(layout.positions())),
        key_rows(scratch.take<uint32_t>(kBackwardKeys * layout.depth_stride())),
        value_rows(scratch.take<uint32_t>(kBackwardKeys * layout.depth_stride())),
        key_columns(scratch.take<uint32_t>(layout.sums_stride() * kBackwardKeys / layout.ratio)),
        dkey(scratch.take<float>(kBackwardKeys * layout.sums_stride())),
        dvalue(scratch.take<float>(kBackwardKeys * layout.sums_stride())),
        scores(scratch.take<float>(kBackwardKeys * kBackwardQueries)),
        dscores(scratch.take<float>(kBackwardKeys * kBackwardQueries)),
        probability_rows(scratch.take<uint32_t>(kBackwardKeys * kBackwardQueries / layout.ratio)),
        dscore_rows(scratch.take<uint32_t>(kBackwardKeys * kBackwardQueries / layout.ratio)),
        dscore_pairs(scratch.take<uint32_t>(kBackwardKeys * kBackwardQueries / layout.ratio)),
        keep(scratch.take<uint16_t>(kBackwardKeys * kBackwardQueries)),
        bits(scratch.take<uint16_t>(kBackwardKeys + 256)),
        dquery_stride(layout.positions() + 16) {}
};

}  // namespace ramet::kernel
