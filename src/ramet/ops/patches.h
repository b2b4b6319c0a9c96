#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/ir/op.h"
#include "ramet/ops/resize.h"

namespace ramet::ops {

/// What a node of op `im2col` or `col2im` is about.
struct PatchForm {
  int64_t samples = 0, channels = 0;
  std::vector<int64_t> space;                                ///< of the image
  std::vector<int64_t> counts;                               ///< patches along each dimension
  std::vector<int64_t> taps, strides, dilations, low, high;  ///< one a dimension
  bool channels_last = false;

  int64_t taps_each() const;  ///< in a patch
  int64_t patches() const;    ///< in an image
  int64_t pixels() const;     ///< in an image
  /// The element of space that tap `tap` of patch `patch` reads, or -1 in the padding.
  int64_t pixel(int64_t patch, int64_t tap) const;
};
/// Throws Error on a node that breaks a rule; `to_columns` tells im2col. Output types may be missing.
PatchForm patch_form(const NodeSignature& node, bool to_columns);

/// The form of input `input`, an activation with 1 to 3 dimensions of space; `to` is left empty.
SpaceForm space_form(const NodeSignature& node, int input, const std::string& operand);
AttributeSpec channels_last_attribute();

void register_grid_sample_ops(OpRegistry& registry);
void register_patch_ops(OpRegistry& registry);

}  // namespace ramet::ops
