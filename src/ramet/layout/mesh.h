#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::layout {

/// The directions in which devices differ.
enum class MeshAxis : uint8_t {
  kStage,    ///< p: which part of the model
  kReplica,  ///< r: which lanes of the global batch
  kTensor1,  ///< t1: which part of columns, heads, vocabulary
  kTensor2,  ///< t2: which part of the hidden dimension
};
inline constexpr std::array<MeshAxis, 4> kMeshAxes = {MeshAxis::kStage, MeshAxis::kReplica, MeshAxis::kTensor1,
                                                      MeshAxis::kTensor2};
/// "p", "r", "t1", "t2"
std::string_view name_of(MeshAxis axis);

/// Devices in a box of p stages, r replicas and t1 x t2 tensor shards. The stage varies slowest and t2 fastest, so that
/// shards, which exchange the most, are neighbours:
/// device = ((stage * r + replica) * t1 + tensor1) * t2 + tensor2.
struct Mesh {
  int p = 1, r = 1, t1 = 1, t2 = 1;

  /// Where a device is, one coordinate an axis.
  struct Position {
    int stage = 0, replica = 0, tensor1 = 0, tensor2 = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };

  int devices() const { return p * r * t1 * t2; }
  int extent(MeshAxis axis) const;
  /// Device numbers from one neighbour along the axis to the next.
  int distance(MeshAxis axis) const;
  Position position(int device) const;
  int device(const Position& position) const {
    return ((position.stage * r + position.replica) * t1 + position.tensor1) * t2 + position.tensor2;
  }
  int coordinate(int device, MeshAxis axis) const { return device / distance(axis) % extent(axis); }

  /// The device's index in its group of `group`, 0 to parts - 1.
  int index_in_group(int device, MeshAxis axis, int stride, int parts) const {
    return coordinate(device, axis) / stride % parts;
  }
  /// The devices with which `device` exchanges when devices that differ only along `axis` form groups of `parts`
  /// members whose coordinates are `stride` apart, in order. stride 1: consecutive ones; stride g with parts = extent /
  /// g: orthogonal to groups of g. stride * parts must divide the axis' extent (internal error otherwise).
  std::vector<int> group(int device, MeshAxis axis, int stride, int parts) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace ramet::layout
