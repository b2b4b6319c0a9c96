#include "ramet/layout/mesh.h"

#include "ramet/base/error.h"

namespace ramet::layout {

std::string_view name_of(MeshAxis axis) {
  constexpr std::array<std::string_view, 4> kNames = {"p", "r", "t1", "t2"};
  return kNames[static_cast<size_t>(axis)];
}

int Mesh::extent(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kStage: return p;
    case MeshAxis::kReplica: return r;
    case MeshAxis::kTensor1: return t1;
    case MeshAxis::kTensor2: return t2;
  }
  internal_error("Mesh::extent", "no such axis");
}

int Mesh::distance(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kStage: return r * t1 * t2;
    case MeshAxis::kReplica: return t1 * t2;
    case MeshAxis::kTensor1: return t2;
    case MeshAxis::kTensor2: return 1;
  }
  internal_error("Mesh::distance", "no such axis");
}

Mesh::Position Mesh::position(int device) const {
  return {.stage = coordinate(device, MeshAxis::kStage),
          .replica = coordinate(device, MeshAxis::kReplica),
          .tensor1 = coordinate(device, MeshAxis::kTensor1),
          .tensor2 = coordinate(device, MeshAxis::kTensor2)};
}

std::vector<int> Mesh::group(int device, MeshAxis axis, int stride, int parts) const {
  if (stride < 1 || parts < 1 || extent(axis) % (stride * parts) != 0)
    internal_error("Mesh::group", std::to_string(parts) + " parts at stride " + std::to_string(stride) +
                                      " of an axis of " + std::to_string(extent(axis)));
  const int base = device - index_in_group(device, axis, stride, parts) * stride * distance(axis);
  std::vector<int> members;
  members.reserve(static_cast<size_t>(parts));
  for (int k = 0; k < parts; ++k) members.push_back(base + k * stride * distance(axis));
  return members;
}

}  // namespace ramet::layout
