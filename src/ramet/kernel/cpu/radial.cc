// Sums over pairs of nodes whose filter is read from a table. Features lie along vectors and pairs follow one another,
// so that neither the width of vectors nor threads change a bit.

#include "ramet/kernel/cpu/radial.h"

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/radial.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

using cpu::RadialCall;

/// Rows [begin, end) of the sums.
void SumTable(const RadialCall& call, const float* table, int64_t begin, int64_t end) {
  const Df d;
  const int64_t width = call.form->width, points = call.form->points;
  const double density = ops::table_density(*call.form);
  std::fill(call.out + begin * width, call.out + end * width, 0.0f);
  cpu::walk_pairs(call, begin, end, [&](int64_t pair, int64_t first, int64_t second) {
    const ops::TableCell cell = ops::table_cell(points, static_cast<double>(call.distance[pair]) * density);
    const float* const rows = table + cell.first * width;
    Vf share[4];
    RAMET_UNROLL
    for (int k = 0; k < 4; ++k) share[k] = hn::Set(d, static_cast<float>(cell.share[static_cast<size_t>(k)]));
    const bool own_first = first >= begin && first < end, own_second = second >= begin && second < end;
    const float *const x_first = call.x + first * width, *const x_second = call.x + second * width;
    float *const to_first = call.out + first * width, *const to_second = call.out + second * width;
    walk_vectors(width, [&](int64_t f, int64_t count) {
      Vf filter = hn::Mul(share[0], load_part(rows + f, count));
      RAMET_UNROLL
      for (int k = 1; k < 4; ++k) filter = hn::MulAdd(share[k], load_part(rows + k * width + f, count), filter);
      const Vf of_second = load_part(x_second + f, count), of_first = load_part(x_first + f, count);
      if (own_first) store_part(hn::MulAdd(filter, of_second, load_part(to_first + f, count)), to_first + f, count);
      if (own_second) store_part(hn::MulAdd(filter, of_first, load_part(to_second + f, count)), to_second + f, count);
    });
  });
}

/// Adds to `columns` [points, end - begin], which are columns [begin, end) of the table's gradient, for all pairs of a
/// sample.
void AddTableGradient(const RadialCall& call, int64_t begin, int64_t end, float* columns) {
  const Df d;
  const int64_t width = call.form->width, points = call.form->points, size = end - begin;
  const double density = ops::table_density(*call.form);
  cpu::walk_pairs(call, 0, call.form->rows, [&](int64_t pair, int64_t first, int64_t second) {
    const ops::TableCell cell = ops::table_cell(points, static_cast<double>(call.distance[pair]) * density);
    float* const rows = columns + cell.first * size;
    Vf share[4];
    RAMET_UNROLL
    for (int k = 0; k < 4; ++k) share[k] = hn::Set(d, static_cast<float>(cell.share[static_cast<size_t>(k)]));
    const auto at = [&](const float* values, int64_t row) { return values + row * width + begin; };
    const float *const x_first = at(call.x, first), *const x_second = at(call.x, second),
                       *const dy_first = at(call.dy, first), *const dy_second = at(call.dy, second);
    walk_vectors(size, [&](int64_t f, int64_t count) {
      const Vf one_way = hn::Mul(load_part(dy_first + f, count), load_part(x_second + f, count));
      const Vf both = hn::MulAdd(load_part(dy_second + f, count), load_part(x_first + f, count), one_way);
      RAMET_UNROLL
      for (int k = 0; k < 4; ++k) {
        float* const to = rows + k * size + f;
        store_part(hn::MulAdd(share[k], both, load_part(to, count)), to, count);
      }
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(SumTable);
HWY_EXPORT(AddTableGradient);

namespace cpu {
namespace {

constexpr int64_t kNearRows = 64;     // how far a cut between runs moves to the end of a graph
constexpr int64_t kFewPairs = 64;     // which one thread computes
constexpr int64_t kColumnBlock = 16;  // features that a thread takes at once

/// Rows before which a run may end without cutting a pair: clean[i] for a cut before row i.
std::vector<bool> clean_cuts(const RadialCall& call) {
  std::vector<bool> clean(static_cast<size_t>(call.form->rows) + 1);
  int64_t reach = -1;  // the last row of any pair so far
  for (int64_t row = 0; row < call.form->rows; ++row) {
    clean[static_cast<size_t>(row)] = reach < row;
    for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p) reach = std::max<int64_t>(reach, call.second[p]);
  }
  clean.back() = true;
  return clean;
}

}  // namespace

void split_pairs(ThreadTeam& team, const RadialCall& call,
                 const std::function<void(int64_t begin, int64_t end, int rank)>& body) {
  const int64_t rows = call.form->rows;
  if (team.size() == 1 || call.pairs() < kFewPairs) return body(0, rows, 0);
  const std::vector<bool> clean = clean_cuts(call);
  std::vector<int64_t> cuts{0};
  for (int part = 1; part < team.size(); ++part) {
    const auto least = static_cast<int32_t>(call.pairs() * part / team.size());
    const int64_t ideal = std::lower_bound(call.ptr, call.ptr + rows, least) - call.ptr;
    int64_t cut = ideal;
    for (int64_t apart = 0; apart <= kNearRows; ++apart) {
      if (ideal + apart <= rows && clean[static_cast<size_t>(ideal + apart)]) {
        cut = ideal + apart;
        break;
      }
      if (ideal >= apart && clean[static_cast<size_t>(ideal - apart)]) {
        cut = ideal - apart;
        break;
      }
    }
    cuts.push_back(std::max(cut, cuts.back()));
  }
  cuts.push_back(rows);
  team.run([&](int rank) {
    const auto at = static_cast<size_t>(rank);
    if (cuts[at] < cuts[at + 1]) body(cuts[at], cuts[at + 1], rank);
  });
}

RadialCall checked_pairs(const NodeSignature& node, const ops::RadialForm& form, const KernelContext& context) {
  RadialCall call{.form = &form,
                  .distance = static_cast<const float*>(context.inputs[1]),
                  .ptr = static_cast<const int32_t*>(context.inputs[2]),
                  .second = static_cast<const int32_t*>(context.inputs[3])};
  ops::check_pairs(node, form, call.distance, call.ptr, call.second);
  return call;
}

RadialCall pairs_of_sample(const RadialCall& first, int64_t b) {
  const ops::RadialForm& form = *first.form;
  RadialCall call = first;
  const int64_t elements = b * form.rows * form.width;
  call.x += elements;
  if (call.dy) call.dy += elements;
  call.distance += b * form.pairs, call.second += b * form.pairs, call.ptr += b * (form.rows + 1);
  return call;
}

}  // namespace cpu

namespace {

using cpu::RadialCall;

void run_table_sum(const NodeSignature& node, const KernelContext& context) {
  const ops::RadialForm form = ops::table_filter_form(node);
  RadialCall first = cpu::checked_pairs(node, form, context);
  first.x = static_cast<const float*>(context.inputs[0]);
  const auto* const table = static_cast<const float*>(context.inputs[4]);
  for (int64_t b = 0; b < form.batch; ++b) {
    RadialCall call = cpu::pairs_of_sample(first, b);
    call.out = static_cast<float*>(context.outputs[0]) + b * form.rows * form.width;
    cpu::split_pairs(context.team, call,
                     [&](int64_t begin, int64_t end, int) { HWY_DYNAMIC_DISPATCH(SumTable)(call, table, begin, end); });
  }
}

void run_table_gradient(const NodeSignature& node, const KernelContext& context) {
  const ops::RadialForm form = ops::table_gradient_form(node);
  RadialCall first = cpu::checked_pairs(node, form, context);
  first.dy = static_cast<const float*>(context.inputs[0]);
  first.x = static_cast<const float*>(context.inputs[4]);
  auto* const out = static_cast<float*>(context.outputs[0]);
  const int64_t blocks = (form.width + cpu::kColumnBlock - 1) / cpu::kColumnBlock;
  // A thread's columns lie together in scratch: in the output, threads would write to neighbouring cache lines.
  context.team.split(blocks, 1, [&](int64_t begin, int64_t end, int) {
    const int64_t first_column = begin * cpu::kColumnBlock, last = std::min(form.width, end * cpu::kColumnBlock),
                  size = last - first_column;
    float* const columns = static_cast<float*>(context.scratch) + first_column * form.points;
    std::fill(columns, columns + form.points * size, 0.0f);
    for (int64_t b = 0; b < form.batch; ++b)
      HWY_DYNAMIC_DISPATCH(AddTableGradient)(cpu::pairs_of_sample(first, b), first_column, last, columns);
    for (int64_t point = 0; point < form.points; ++point)
      std::copy(columns + point * size, columns + (point + 1) * size, out + point * form.width + first_column);
  });
}

int64_t table_gradient_scratch(const NodeSignature& node, int) {
  const ops::RadialForm form = ops::table_gradient_form(node);
  return form.points * form.width * static_cast<int64_t>(sizeof(float));
}

}  // namespace

void add_cpu_radial(Backend& backend) {
  const auto add = [&](const char* op, void (*run)(const NodeSignature&, const KernelContext&),
                       const cpu::ScratchFunction& scratch) {
    cpu::add_hwy(
        backend, op, [](const NodeSignature&) { return ""; },
        [run](const NodeSignature& node, int) {
          cpu_level();
          return [node, run](const KernelContext& context) { run(node, context); };
        },
        scratch);
  };
  add("table_filter_sum", run_table_sum, {});
  add("table_filter_gradient", run_table_gradient, table_gradient_scratch);
  cpu::add_network_filters(backend);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
