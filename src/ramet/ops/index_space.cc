#include "ramet/ops/index_space.h"

#include <algorithm>
#include <numeric>

#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

std::vector<int> axes_of(const NodeSignature& node, const char* name, bool gaps, int rank) {
  std::vector<int> axes;
  for (int64_t axis : node.attributes.get_ints(name)) {
    if (axis < (gaps ? -1 : 0) || axis >= rank)
      refuse(node, "'" + std::string(name) + "' names no axis", std::to_string(axis),
             "0 to " + std::to_string(rank - 1) + (gaps ? ", or -1 for none" : ""));
    axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

}  // namespace

IndexSpace::IndexSpace(const NodeSignature& node, size_t first_index) : whole(node.inputs.at(0).shape) {
  const int rank = whole.rank();
  axes = axes_of(node, "axes", false, rank);
  if (axes.size() + first_index != node.inputs.size())
    refuse(node, "'axes' needs one axis an index tensor", text_of(node.attributes.get_ints("axes")),
           std::to_string(node.inputs.size() - first_index) + " axes");
  for (size_t i = first_index; i < node.inputs.size(); ++i) {
    require_dtype(node, static_cast<int>(i), "indices", {DType::kI32, DType::kI64});
    index_shapes.push_back(node.inputs[i].shape);
    space = broadcast_shapes(space, index_shapes.back(), node.text());
  }
  const size_t dims = static_cast<size_t>(space.rank());
  along = node.attributes.has("along") ? axes_of(node, "along", true, rank) : std::vector<int>(dims, -1);
  if (along.size() != dims)
    refuse(node, "'along' needs one axis a dimension of the indices", text_of(node.attributes.get_ints("along")),
           std::to_string(dims) + " axes, as indices " + space.text());
  std::vector<int> uses(static_cast<size_t>(rank), 0);
  for (int axis : axes) ++uses[static_cast<size_t>(axis)];
  for (int axis : along)
    if (axis >= 0) ++uses[static_cast<size_t>(axis)];
  if (std::any_of(uses.begin(), uses.end(), [](int count) { return count > 1; }))
    refuse(node, "an axis is addressed twice", node.inputs[0].text(), "distinct axes in 'axes' and 'along'");
  for (int axis = 0; axis < rank; ++axis)
    if (uses[static_cast<size_t>(axis)] == 0) kept.push_back(axis);
  for (int dim = 0; dim < space.rank(); ++dim)
    if (const int axis = along[static_cast<size_t>(dim)]; axis >= 0 && space.dim(dim) > whole.dim(axis))
      refuse(node,
             "the indices are longer in dimension " + std::to_string(dim) + " than axis " + std::to_string(axis) +
                 " of the tensor, along which they run",
             std::to_string(space.dim(dim)), "at most " + std::to_string(whole.dim(axis)));
  const int64_t leading = node.attributes.get_int_or("before", 0);
  if (leading < 0 || leading > static_cast<int64_t>(kept.size()))
    refuse(node, "'before' out of range", std::to_string(leading), "0 to " + std::to_string(kept.size()));
  before = static_cast<int>(leading);
  from_end = node.attributes.get_bool_or("from_end", false);
  require_bounded(node, picked());
}

Shape IndexSpace::picked() const {
  std::vector<int64_t> dims;
  for (int i = 0; i < before; ++i) dims.push_back(whole.dim(kept[static_cast<size_t>(i)]));
  dims.insert(dims.end(), space.dims().begin(), space.dims().end());
  for (size_t i = static_cast<size_t>(before); i < kept.size(); ++i) dims.push_back(whole.dim(kept[i]));
  return Shape(std::move(dims));
}

std::vector<int64_t> IndexSpace::index_strides(size_t n) const {
  const Shape& shape = index_shapes[n];
  const std::vector<int64_t> own = shape.strides();
  std::vector<int64_t> strides(static_cast<size_t>(space.rank()), 0);
  const int extra = space.rank() - shape.rank();
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (shape.dim(dim) != 1) strides[static_cast<size_t>(dim + extra)] = own[static_cast<size_t>(dim)];
  return strides;
}

Error IndexSpace::out_of_range(const NodeSignature& node, size_t n, int64_t position, int64_t index) const {
  const int64_t extent = whole.dim(axes[n]);
  const std::string which = axes.size() > 1 ? "index tensor " + std::to_string(n) + ", " : "";
  return Error({.what = "index out of range",
                .where = node.text() + ", " + which + "index position " + std::to_string(position),
                .found = std::to_string(index),
                .expected = extent == 0 ? "no index, since axis " + std::to_string(axes[n]) + " has no elements"
                                        : std::to_string(from_end ? -extent : 0) + " to " + std::to_string(extent - 1)},
               ErrorKind::kFailure);
}

Attributes line_attributes(int rank, int axis) {
  std::vector<int64_t> along(static_cast<size_t>(rank));
  std::iota(along.begin(), along.end(), 0);
  along[static_cast<size_t>(axis)] = -1;
  return {{"axes", std::vector<int64_t>{axis}}, {"along", along}};
}

}  // namespace ramet::ops
