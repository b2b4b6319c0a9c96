#include "ramet/runtime/localize.h"

#include "ramet/layout/sharding.h"
#include "ramet/ops/position.h"

namespace ramet::runtime {

NodeSignature localize(NodeSignature node, const Mesh::Position& position) {
  if (!node.attributes.has("cuts") && !node.attributes.has("flat")) return node;
  std::vector<int64_t> parts;
  for (const PositionCut& cut : position_cuts(node))
    parts.push_back(part_of({.dim = static_cast<int>(cut.dim),
                             .axis = static_cast<MeshAxis>(cut.axis),
                             .parts = cut.parts,
                             .blocks = cut.blocks,
                             .stride = cut.stride},
                            position));
  if (node.attributes.has("flat")) {
    const PositionFlat flat = position_flat(node);
    parts.push_back(
        part_of({.axis = static_cast<MeshAxis>(flat.axis), .parts = flat.parts, .stride = flat.stride}, position));
  }
  node.attributes.set("position", std::move(parts));
  return node;
}

}  // namespace ramet::runtime
