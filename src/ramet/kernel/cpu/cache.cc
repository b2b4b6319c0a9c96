// Rows of a cache.

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/families.h"

namespace ramet::kernel {
namespace {

/// The places of the rows in the table. When input and output share bytes, the other rows are there already.
void run_write_rows(const NodeSignature& node, const KernelContext& context) {
  const TensorType &table = node.inputs[0], &rows = node.inputs[1];
  const int64_t room = table.shape[1], count = rows.shape[1], samples = table.shape[0];
  if (table.elements() == 0) return;
  const int64_t row = table.bytes() / (samples * room);
  const auto* from = static_cast<const char*>(context.inputs[1]);
  const auto* first = static_cast<const int32_t*>(context.inputs[2]);
  auto* to = static_cast<char*>(context.outputs[0]);
  if (context.inputs[0] != context.outputs[0]) std::memcpy(to, context.inputs[0], static_cast<size_t>(table.bytes()));
  for (int64_t b = 0; b < samples; ++b) {
    const int64_t begin = std::max<int64_t>(0, -first[b]), end = std::min<int64_t>(count, room - first[b]);
    if (begin >= end) continue;
    std::memcpy(to + (b * room + first[b] + begin) * row, from + (b * count + begin) * row,
                static_cast<size_t>((end - begin) * row));
  }
}

}  // namespace

void add_cpu_cache(Backend& backend) {
  cpu::add_hwy(backend, "write_rows", {},
               [](const NodeSignature& node, int) {
                 return [node](const KernelContext& context) { run_write_rows(node, context); };
               },
               {}, {{0, 0}});
}

}  // namespace ramet::kernel
