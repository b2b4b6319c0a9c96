#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/attention.h"

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

void run_cached_attention(const ReferenceOperands& operands) {
  const AttentionForm form = cached_attention_form(operands.node());
  const auto at = [&](int64_t positions, int64_t b, int64_t position, int64_t h, int64_t d) {
    return ((b * positions + position) * form.heads + h) * form.head_size + d;
  };
  std::vector<double> p;
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t q = 0; q < form.sequence; ++q) {
        const int64_t seen = std::clamp<int64_t>(operands.get_int(form.first, b) + q + 1, 0, form.keys);
        p.assign(static_cast<size_t>(seen), 0);
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < seen; ++k) {
          double& score = p[static_cast<size_t>(k)];
          for (int64_t d = 0; d < form.head_size; ++d)
            score += operands.get(form.query, at(form.sequence, b, q, h, d)) *
                     operands.get(form.key, at(form.keys, b, k, h, d));
          most = std::fmax(most, score *= form.scale);
        }
        for (double& value : p) sum += value = std::exp(value - most);
        for (int64_t d = 0; d < form.head_size; ++d) {
          double mixed = 0;
          for (int64_t k = 0; k < seen; ++k)
            mixed += p[static_cast<size_t>(k)] / sum * operands.get(form.value, at(form.keys, b, k, h, d));
          operands.set(0, at(form.sequence, b, q, h, d), mixed);
        }
      }
}

}  // namespace

void add_reference_cache(Backend& backend) {
  add_reference(backend, "write_rows", run_write_rows);
  add_reference(backend, "cached_attention", run_cached_attention);
}

}  // namespace ramet::kernel
