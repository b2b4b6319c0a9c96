#include <cstring>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

void run_write_rows(const ReferenceOperands& operands) {
  const TensorType &table = operands.input_type(0), &rows = operands.input_type(1);
  const auto room = static_cast<int64_t>(table.shape[1]), count = static_cast<int64_t>(rows.shape[1]);
  std::memmove(operands.output_bytes(0), operands.input_bytes(0), static_cast<size_t>(table.bytes()));
  if (table.elements() == 0) return;
  const int64_t row = table.elements() / (table.shape[0] * room);
  for (int64_t b = 0; b < table.shape[0]; ++b)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = operands.get_int(2, b) + i;
      if (position < 0 || position >= room) continue;
      for (int64_t e = 0; e < row; ++e)
        operands.set(0, (b * room + position) * row + e, operands.get(1, (b * count + i) * row + e));
    }
}

}  // namespace

void add_reference_cache(Backend& backend) { add_reference(backend, "write_rows", run_write_rows); }

}  // namespace ramet::kernel
