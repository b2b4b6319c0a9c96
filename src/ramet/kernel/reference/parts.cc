#include <algorithm>
#include <cstring>
#include <vector>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

/// How a tensor of parts lies: [parts, indices a part] and [parts, rows, elements a row].
struct PartView {
  int64_t parts, indices, rows, inner;

  PartView(const Shape& table, const Shape& index)
      : parts(table.dim(0)),
        indices(index.elements() / std::max<int64_t>(1, index.dim(0))),
        rows(table.dim(1)),
        inner(1) {
    for (int i = 2; i < table.rank(); ++i) inner *= table.dim(i);
  }
};

void gather_parts(const ReferenceOperands& operands) {
  const PartView view(operands.input_type(0).shape, operands.input_type(1).shape);
  const size_t bytes = static_cast<size_t>(view.inner) * size_of(operands.input_type(0).dtype);
  const auto* from = static_cast<const char*>(operands.input_bytes(0));
  auto* to = static_cast<char*>(operands.output_bytes(0));
  for (int64_t i = 0; i < view.parts * view.indices; ++i) {
    const int64_t row = operands.get_int(1, i), part = i / view.indices;
    char* const place = to + static_cast<size_t>(i) * bytes;
    if (bytes == 0) continue;
    if (row < 0 || row >= view.rows)
      std::memset(place, 0, bytes);
    else
      std::memcpy(place, from + static_cast<size_t>(part * view.rows + row) * bytes, bytes);
  }
}

/// One chain of f32 additions a row and element.
void scatter_parts(const ReferenceOperands& operands) {
  const PartView view(operands.output_type(0).shape, operands.input_type(0).shape);
  std::vector<float> sums(static_cast<size_t>(operands.output_type(0).elements()), 0.0f);
  for (int64_t i = 0; i < view.parts * view.indices; ++i) {
    const int64_t row = operands.get_int(0, i), part = i / view.indices;
    if (row < 0 || row >= view.rows) continue;
    float* const sum = sums.data() + (part * view.rows + row) * view.inner;
    for (int64_t h = 0; h < view.inner; ++h) sum[h] += static_cast<float>(operands.get(1, i * view.inner + h));
  }
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), static_cast<double>(sums[i]));
}

}  // namespace

void add_reference_parts(Backend& backend) {
  add_reference(backend, "gather_parts", gather_parts);
  add_reference(backend, "scatter_parts", scatter_parts);
}

}  // namespace ramet::kernel
