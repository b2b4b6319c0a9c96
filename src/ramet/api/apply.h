#pragma once

#include <initializer_list>
#include <vector>

#include "ramet/api/graphs.h"
#include "ramet/base/error.h"
#include "ramet/ops.h"

namespace ramet::v0 {

// How the public functions on tensors call the engine's.

/// Throws Error unless all operands belong to one model or program; those that were never made are allowed to be there.
inline void check_together(const detail::Graphs& graphs, const std::source_location& place,
                           std::initializer_list<const Tensor*> all) {
  for (const Tensor* tensor : all)
    if (!detail::Graphs::has(*tensor, graphs))
      throw Error({.what = "tensors of two models or programs in one op", .where = ir::origin_of(place)});
}

/// An op of several results: `op` is a function on the engine's tensors.
template <typename Op, typename... Operands>
std::vector<Tensor> apply_many(const Op& op, const Operand& first, const Operands&... more) {
  detail::Graphs& graphs = detail::Graphs::of(first);
  check_together(graphs, first.place(), {&first.tensor(), &more.tensor()...});
  return graphs.build_each(first.place(), [&](int which, ir::GraphBuilder&) -> std::vector<ir::Tensor> {
    return op(graphs.in(which, first.tensor()), graphs.in(which, more.tensor())...);
  });
}
template <typename Op, typename... Operands>
Tensor apply(const Op& op, const Operand& first, const Operands&... more) {
  return apply_many([&](auto... tensors) { return std::vector<ir::Tensor>{op(tensors...)}; }, first, more...)[0];
}

}  // namespace ramet::v0
