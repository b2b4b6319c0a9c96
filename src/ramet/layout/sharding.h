#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ramet/base/shape.h"
#include "ramet/layout/mesh.h"

namespace ramet::layout {

/// One dimension cut in equal parts among the devices of a group. The dimension, of extent E, is viewed as
/// [blocks, parts, E / (blocks * parts)]; a device holds part k of every block, where k is its coordinate along the
/// axis, divided by `stride`, modulo `parts`. Blocks are for fused weights: three for query, key and value cut by
/// heads.
struct Cut {
  int dim = 0;
  MeshAxis axis = MeshAxis::kTensor1;
  int64_t parts = 1, blocks = 1, stride = 1;
  bool dealt = false;  ///< the dimension is [clusters, inner], of which a device has those that the layout deals to it
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// How a logical tensor lies on the devices that hold it. First its dimensions are cut. Then, with `flat_parts` > 1,
/// the remaining tensor is seen as one range of elements, padded with zeros to a multiple of flat_parts, and each
/// member of the group (axis r, `flat_stride`) holds an equal part of the range (replicated tensor sharding; cf. ZeRO,
/// arXiv 1910.02054).
struct Sharding {
  TensorType logical;
  std::vector<Cut> cuts;  ///< at most one a dimension
  int64_t flat_parts = 1, flat_stride = 1;
  std::vector<int64_t> deal{};  ///< for cuts that are dealt: the clusters in the order of the devices

  bool whole() const { return cuts.empty() && flat_parts == 1; }
  /// Type after the cuts of dimensions.
  TensorType cut_type() const;
  /// Type that a device holds: cut_type, or [ceil(elements / flat_parts)].
  TensorType local() const;
  std::string text() const;  ///< "f32[768,768] 0/t1:2 flat r:4"
};

/// A run of elements that is contiguous both in the logical tensor and on the device, in elements.
struct ShardRun {
  int64_t logical = 0, local = 0, count = 0;
};

/// Calls `body` for each run of the piece that the device at `position` holds, in order of local elements, merged as
/// far as possible. Padding belongs to no run.
void for_each_run(const Sharding& sharding, const Mesh::Position& position,
                  const std::function<void(const ShardRun&)>& body);

/// Index of the part that a device holds.
int64_t part_of(const Cut& cut, const Mesh::Position& position);

}  // namespace ramet::layout
