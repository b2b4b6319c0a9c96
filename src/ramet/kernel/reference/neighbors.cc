#include "ramet/ops/neighbors.h"

#include <cmath>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/halo.h"

namespace ramet::kernel {
namespace {

using ops::NeighborForm;
using ops::NeighborPointers;
using ops::SegmentForm;

const int32_t* table(const ReferenceOperands& operands, int input) {
  return static_cast<const int32_t*>(operands.input_bytes(input));
}

/// Calls `visit(row, begin, end)` for all rows of a batch: numbers over the whole batch.
template <typename Visit>
void for_each_row(const SegmentForm& form, const int32_t* ptr, const Visit& visit) {
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t i = 0; i < form.rows; ++i) {
      const int32_t* at = ptr + b * (form.rows + 1) + i;
      visit(b * form.rows + i, b * form.edges + at[0], b * form.edges + at[1]);
    }
}

/// The form of a node, with its pointers checked.
SegmentForm checked_form(const ReferenceOperands& operands, bool expands = false) {
  const SegmentForm form = expands ? ops::expand_form(operands.node()) : ops::segment_form(operands.node());
  ops::check_segments(operands.node(), table(operands, 1), form.batch, form.rows, form.edges);
  return form;
}

void segment_sum(const ReferenceOperands& operands) {
  const SegmentForm form = checked_form(operands);
  const bool mean = operands.attributes().get_bool_or("mean", false);
  for_each_row(form, table(operands, 1), [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t f = 0; f < form.width; ++f) {
      double sum = 0;
      for (int64_t e = begin; e < end; ++e) sum += operands.get(0, e * form.width + f);
      operands.set(0, row * form.width + f, mean && end > begin ? sum / static_cast<double>(end - begin) : sum);
    }
  });
}

void segment_extreme(const ReferenceOperands& operands) {
  const SegmentForm form = checked_form(operands);
  const bool least = operands.attributes().get_bool_or("least", false);
  for_each_row(form, table(operands, 1), [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t f = 0; f < form.width; ++f) {
      int64_t best = -1;
      double value = 0;
      for (int64_t e = begin; e < end; ++e) {
        const double next = operands.get(0, e * form.width + f);
        const bool better = std::isnan(next) ? !std::isnan(value) : least ? next < value : next > value;
        if (best < 0 || better) best = e, value = next;
      }
      operands.set(0, row * form.width + f, value);
      operands.set_int(1, row * form.width + f, best < 0 ? -1 : best % form.edges);
    }
  });
}

void segment_softmax(const ReferenceOperands& operands) {
  const SegmentForm form = checked_form(operands);
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, 0);
  for_each_row(form, table(operands, 1), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t f = 0; f < form.width; ++f) {
      double most = -INFINITY, sum = 0;
      for (int64_t e = begin; e < end; ++e) most = std::fmax(most, operands.get(0, e * form.width + f));
      for (int64_t e = begin; e < end; ++e) sum += std::exp(operands.get(0, e * form.width + f) - most);
      for (int64_t e = begin; e < end; ++e)
        operands.set(0, e * form.width + f, std::exp(operands.get(0, e * form.width + f) - most) / sum);
    }
  });
}

void segment_expand(const ReferenceOperands& operands) {
  const SegmentForm form = checked_form(operands, true);
  const bool floating = is_floating(operands.input_type(0).dtype);
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, 0);
  for_each_row(form, table(operands, 1), [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e)
      for (int64_t f = 0; f < form.width; ++f)
        if (floating)
          operands.set(0, e * form.width + f, operands.get(0, row * form.width + f));
        else
          operands.set_int(0, e * form.width + f, operands.get_int(0, row * form.width + f));
  });
}

NeighborPointers lists_at(const ReferenceOperands& operands, int first) {
  return {table(operands, first), table(operands, first + 1), table(operands, first + 2), table(operands, first + 3),
          table(operands, first + 4)};
}

void neighbor_sum(const ReferenceOperands& operands) {
  const NeighborForm form = ops::neighbor_sum_form(operands.node());
  const NeighborPointers lists = lists_at(operands, 1);
  ops::check_neighbors(operands.node(), form, lists);
  const int32_t* const ptr = form.transposed ? lists.source_ptr : lists.ptr;
  const int32_t* const from = form.transposed ? lists.target : lists.source;
  const int64_t heads = form.heads > 0 ? form.heads : 1;
  const SegmentForm rows{form.batch, form.to(), form.edges, form.width};
  for_each_row(rows, ptr, [&](int64_t row, int64_t begin, int64_t end) {
    const int64_t b = row / form.to();
    for (int64_t f = 0; f < form.width; ++f) {
      double sum = 0;
      for (int64_t e = begin; e < end; ++e) {
        const int64_t edge = form.transposed ? b * form.edges + lists.by_source[e] : e;
        const double weight = form.weighted ? operands.get(6, edge * heads + f / (form.width / heads)) : 1;
        sum += weight * operands.get(0, (b * form.from() + from[e]) * form.width + f);
      }
      operands.set(0, row * form.width + f, sum);
    }
  });
}

void neighbor_dot(const ReferenceOperands& operands) {
  const NeighborForm form = ops::neighbor_dot_form(operands.node());
  const NeighborPointers lists = lists_at(operands, 2);
  ops::check_neighbors(operands.node(), form, lists);
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, 0);
  const int64_t heads = form.heads > 0 ? form.heads : 1, size = form.width / heads;
  const SegmentForm rows{form.batch, form.targets, form.edges, form.width};
  for_each_row(rows, lists.ptr, [&](int64_t row, int64_t begin, int64_t end) {
    const int64_t b = row / form.targets;
    for (int64_t e = begin; e < end; ++e)
      for (int64_t h = 0; h < heads; ++h) {
        double sum = 0;
        for (int64_t d = h * size; d < (h + 1) * size; ++d)
          sum += operands.get(0, row * form.width + d) *
                 operands.get(1, (b * form.sources + lists.source[e]) * form.width + d);
        operands.set(0, e * heads + h, sum);
      }
  });
}

/// Element f of row `row` of x (input `first`) and the far rows behind it, of cluster k.
double near_or_far(const ReferenceOperands& operands, int first, const ops::HaloForm& form, int64_t k, int64_t row,
                   int64_t f) {
  return row < form.rows ? operands.get(first, (k * form.rows + row) * form.width + f)
                         : operands.get(first + 1, (k * form.far + row - form.rows) * form.width + f);
}

void halo_sum(const ReferenceOperands& operands) {
  const ops::HaloForm form = ops::halo_sum_form(operands.node());
  ops::check_halo(operands.node(), form, table(operands, 2), table(operands, 3));
  const int64_t heads = form.heads > 0 ? form.heads : 1;
  const SegmentForm rows{form.clusters, form.rows, form.edges, form.width};
  for_each_row(rows, table(operands, 3), [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t f = 0; f < form.width; ++f) {
      double sum = 0;
      for (int64_t e = begin; e < end; ++e) {
        const double weight = form.weighted ? operands.get(6, e * heads + f / (form.width / heads)) : 1;
        sum += weight * near_or_far(operands, 0, form, row / form.rows, table(operands, 2)[e], f);
      }
      operands.set(0, row * form.width + f, sum);
    }
  });
}

void halo_dot(const ReferenceOperands& operands) {
  const ops::HaloForm form = ops::halo_dot_form(operands.node());
  ops::check_halo(operands.node(), form, table(operands, 3), table(operands, 4));
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, 0);
  const int64_t heads = form.heads > 0 ? form.heads : 1, size = form.width / heads;
  const SegmentForm rows{form.clusters, form.rows, form.edges, form.width};
  for_each_row(rows, table(operands, 4), [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e)
      for (int64_t h = 0; h < heads; ++h) {
        double sum = 0;
        for (int64_t d = h * size; d < (h + 1) * size; ++d)
          sum += operands.get(0, row * form.width + d) *
                 near_or_far(operands, 1, form, row / form.rows, table(operands, 3)[e], d);
        operands.set(0, e * heads + h, sum);
      }
  });
}

/// Rows of output 0: from(place) gives an input and its row, or an input of -1 for zeros.
template <typename From>
void copy_rows(const ReferenceOperands& operands, int64_t places, int64_t width, const From& from) {
  const bool floating = is_floating(operands.input_type(0).dtype);
  for (int64_t i = 0; i < places; ++i) {
    const auto [input, row] = from(i);
    for (int64_t f = 0; f < width; ++f)
      if (floating)
        operands.set(0, i * width + f, input < 0 ? 0 : operands.get(input, row * width + f));
      else
        operands.set_int(0, i * width + f, input < 0 ? 0 : operands.get_int(input, row * width + f));
  }
}

void halo_rows(const ReferenceOperands& operands) {
  const ops::HaloRowsForm form = ops::halo_rows_form(operands.node());
  copy_rows(operands, form.clusters * form.places, form.width,
            [&](int64_t i) { return std::pair(form.table[i] < 0 ? -1 : 0, int64_t{form.table[i]}); });
}

void halo_pack(const ReferenceOperands& operands) {
  const ops::HaloPackForm form = ops::halo_pack_form(operands.node());
  copy_rows(operands, form.devices * form.places, form.width,
            [&](int64_t i) { return std::pair(form.send[i] < 0 ? -1 : 0, int64_t{form.send[i]}); });
}

void halo_unpack(const ReferenceOperands& operands) {
  const ops::HaloUnpackForm form = ops::halo_unpack_form(operands.node());
  copy_rows(operands, form.clusters * form.places, form.width, [&](int64_t i) {
    const int64_t at = form.place[i];
    return at == 0 ? std::pair(-1, int64_t{0}) : at > 0 ? std::pair(1, at - 1) : std::pair(0, -at - 1);
  });
}

}  // namespace

void add_reference_neighbors(Backend& backend) {
  add_reference(backend, "segment_sum", segment_sum);
  add_reference(backend, "segment_extreme", segment_extreme);
  add_reference(backend, "segment_softmax", segment_softmax);
  add_reference(backend, "segment_expand", segment_expand);
  add_reference(backend, "neighbor_sum", neighbor_sum);
  add_reference(backend, "neighbor_dot", neighbor_dot);
  add_reference(backend, "halo_sum", halo_sum);
  add_reference(backend, "halo_dot", halo_dot);
  add_reference(backend, "halo_rows", halo_rows);
  add_reference(backend, "halo_pack", halo_pack);
  add_reference(backend, "halo_unpack", halo_unpack);
}

}  // namespace ramet::kernel
