#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// One cut of a dimension: seen as [blocks, parts, extent / (blocks parts)], a device holds index k of the middle one,
/// for all blocks. (blocks = 3 for a joint query, key and value cut by heads.)
struct PositionCut {
  int64_t dim = 0;
  int64_t axis = 0;  ///< mesh axis along which the devices differ
  int64_t parts = 1;
  int64_t blocks = 1;
  int64_t stride = 1;    ///< between neighbours along that axis
  int64_t position = 0;  ///< k of this device
};

/// Integers that describe a cut in the attribute `cuts`: dim, axis, parts, blocks, stride.
inline constexpr size_t kCutIntegers = 5;

/// Of a graph in clusters (ops/halo.h), cuts along this mesh axis (t1) give a device clusters of any numbers: the
/// attribute `deal` of a node has the clusters in the order of the devices, and the dimension is [clusters, inner].
inline constexpr int64_t kDealtAxis = 2;

/// A flat part (layout/sharding.h): the tensor that the cuts leave is seen as one range of elements and cut into equal
/// parts. The attribute `flat` holds axis, parts, stride, and then the shape that the cuts leave. The operand is
/// [ceil(elements / parts)]; elements beyond the tensor are padding. The number k of the part is the last integer of
/// `position`.
inline constexpr size_t kFlatIntegers = 3;

/// The cuts of a node: attribute `cuts`, kCutIntegers a cut, applied one after another, and attribute `position`, one a
/// cut. Both absent: none. Without `position` (a compiled program, before a device makes its kernels) every k is 0.
/// Throws Error naming the node when they contradict themselves.
std::vector<PositionCut> position_cuts(const NodeSignature& node);

/// The attribute `flat` of a node.
struct PositionFlat {
  int64_t axis = 0, parts = 1, stride = 1;
  Shape shape;
  int64_t position = 0;  ///< k of this device
};
/// Parts 1 when the node has none. Throws Error naming the node when it contradicts itself.
PositionFlat position_flat(const NodeSignature& node);

/// Where the elements of a device's part of a tensor stand in the logical tensor.
class Position {
 public:
  /// Elements [local, local + length) of the part are [logical, logical + length) of the logical tensor, row-major.
  struct Run {
    int64_t local = 0, logical = 0, length = 0;
  };

  /// The node's positional operand (OpDef::positional), its cuts, and that its elements are a flat part of what they
  /// leave (attribute `flat`), if they are. Throws Error naming the node when they do not fit.
  explicit Position(const NodeSignature& node);
  /// `part` is the shape of the part, `node` only has its cuts and a name for messages.
  Position(const NodeSignature& node, const Shape& part);

  /// Whether the part is the whole tensor.
  bool whole() const { return whole_ && !flat(); }
  bool flat() const { return flat_length_ > 0; }
  /// Of a flat part: its first element, among those that the cuts leave.
  int64_t flat_first() const { return flat_first_; }
  /// The shape that the cuts leave; a flat part of it is shorter.
  const Shape& local() const { return local_; }
  const Shape& logical() const { return logical_; }
  int64_t logical_elements() const { return logical_.elements(); }
  /// Parts of a dimension in index order: runs of coordinates.
  const std::vector<Run>& along(int dim) const { return dims_[static_cast<size_t>(dim)].runs; }
  /// Logical coordinate of a local one.
  int64_t coordinate(int dim, int64_t local) const {
    const Run& run = find(dims_[static_cast<size_t>(dim)].runs, local);
    return run.logical + (local - run.local);
  }
  /// Local coordinate of a logical one; -1 when another part holds it.
  int64_t local_coordinate(int dim, int64_t logical) const {
    for (const Run& run : along(dim))
      if (logical >= run.logical && logical < run.logical + run.length) return run.local + (logical - run.logical);
    return -1;
  }
  /// Logical index of element `local` of the part; of padding, some number.
  int64_t index(int64_t local) const {
    const int64_t at = local + flat_first_;
    return at < local_.elements() ? run_at(at).logical : at;
  }

  /// Visits the runs that elements [begin, begin + count) of the part are made of, in order. Padding is in none.
  template <typename Visit>
  void for_each_run(int64_t begin, int64_t count, const Visit& visit) const {
    if (flat()) count = std::min(count, local_.elements() - flat_first_ - begin);
    while (count > 0) {
      Run run = run_at(begin + flat_first_);
      run.local = begin;
      run.length = std::min(run.length, count);
      visit(static_cast<const Run&>(run));
      begin += run.length;
      count -= run.length;
    }
  }

  /// The run from element `local` of what the cuts leave on.
  Run run_at(int64_t local) const {
    if (whole_) return {local, local, local_.elements() - local};
    const int64_t within = local % span_, rest = within % tail_;
    int64_t outer = local / span_, logical = rest;
    for (int dim = last_cut_ - 1; dim >= 0; --dim) {
      const int64_t extent = local_[dim];
      logical += coordinate(dim, outer % extent) * dims_[static_cast<size_t>(dim)].logical_stride;
      outer /= extent;
    }
    const int64_t at = within / tail_;
    const Run& run = find(dims_[static_cast<size_t>(last_cut_)].runs, at);
    logical += (run.logical + (at - run.local)) * tail_;
    return {local, logical, (run.local + run.length - at) * tail_ - rest};
  }

 private:
  struct Dim {
    std::vector<Run> runs;
    int64_t logical_stride = 1;
  };
  static const Run& find(const std::vector<Run>& runs, int64_t local) {
    size_t at = runs.size() - 1;
    while (runs[at].local > local) --at;
    return runs[at];
  }

  Shape local_, logical_;
  std::vector<Dim> dims_;
  bool whole_ = true;
  int64_t flat_first_ = 0, flat_length_ = 0;  ///< of a flat part
  int last_cut_ = 0;                          ///< behind it all dimensions are whole
  int64_t tail_ = 1;                          ///< elements of the dimensions behind it
  int64_t span_ = 1;                          ///< of those and itself, in the part
};

}  // namespace ramet::ops
