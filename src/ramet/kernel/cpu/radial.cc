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

/// Cells of the table (ops::table_cell), for pairs in ascending order; some are computed at a time, by vectors.
class Cells {
 public:
  explicit Cells(const RadialCall& call) : call_(call), density_(ops::table_density(*call.form)) {}

  /// The cell of a pair, until the next call.
  HWY_INLINE int64_t at(int64_t pair) {
    if (pair >= end_) fill(pair);
    return pair - begin_;
  }
  HWY_INLINE int64_t first(int64_t cell) const { return first_[cell]; }
  HWY_INLINE Vf share(int64_t cell, int k) const { return hn::Set(Df(), share_[k][cell]); }

 private:
  void fill(int64_t pair) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<float, decltype(d)> df;
    const hn::Rebind<int32_t, decltype(d)> di;
    begin_ = pair, end_ = std::min(pair + kCells, call_.pairs());
    HWY_ALIGN float distances[kCells] = {};
    std::copy(call_.distance + begin_, call_.distance + end_, distances);
    const auto one = hn::Set(d, 1), half = hn::Set(d, 0.5), sixth = hn::Set(d, 1.0 / 6), density = hn::Set(d, density_),
               most = hn::Set(d, static_cast<double>(call_.form->points - 3));
    for (int64_t i = 0; i < end_ - begin_; i += static_cast<int64_t>(hn::Lanes(d))) {
      const auto place = hn::Mul(hn::PromoteTo(d, hn::Load(df, distances + i)), density);
      const auto middle = hn::Min(hn::Max(hn::Trunc(place), one), most);
      const auto t = hn::Sub(place, middle), before = hn::Add(t, one), after = hn::Sub(t, one),
                 far = hn::Sub(t, hn::Set(d, 2));
      const auto product = [](auto a, auto b, auto c, auto e)
                               HWY_ATTR { return hn::Mul(hn::Mul(hn::Mul(a, b), c), e); };
      hn::Store(hn::DemoteTo(di, hn::Sub(middle, one)), di, first_ + i);
      hn::Store(hn::DemoteTo(df, product(hn::Neg(t), after, far, sixth)), df, share_[0] + i);
      hn::Store(hn::DemoteTo(df, product(before, after, far, half)), df, share_[1] + i);
      hn::Store(hn::DemoteTo(df, product(hn::Neg(before), t, far, half)), df, share_[2] + i);
      hn::Store(hn::DemoteTo(df, product(before, t, after, sixth)), df, share_[3] + i);
    }
  }

  static constexpr int64_t kCells = 64;
  const RadialCall& call_;
  double density_;
  int64_t begin_ = 0, end_ = 0;
  HWY_ALIGN int32_t first_[kCells];
  HWY_ALIGN float share_[4][kCells];
};

/// Rows [begin, end) of the sums: each is set to 0 when it is first reached, so that it is in the cache when it is
/// added to.
class FreshRows {
 public:
  FreshRows(const RadialCall& call, int64_t begin, int64_t end)
      : out_(call.out), width_(call.form->width), begin_(begin), end_(end), next_(begin) {}
  HWY_INLINE bool own(int64_t row) const { return row >= begin_ && row < end_; }
  /// Before the sums of an own row are read.
  HWY_INLINE void reach(int64_t row) {
    if (row >= next_) clear_to(row + 1);
  }
  void clear_to(int64_t end) {
    if (end > next_) std::fill(out_ + next_ * width_, out_ + end * width_, 0.0f);
    next_ = std::max(next_, end);
  }

 private:
  float* out_;
  int64_t width_, begin_, end_, next_;
};

/// Vectors of features that one walk over the pairs takes, with a row's own in registers.
constexpr int64_t kSumVectors = hn::MaxLanes(Df()) >= 16 ? 8 : 4, kGradientVectors = 4;

/// What a pair adds to those of its rows that are in `sums`, of features [first_feature, last_feature).
HWY_INLINE void add_pair(const RadialCall& call, const float* table, Cells& cells, FreshRows& sums,
                         int64_t first_feature, int64_t last_feature, int64_t pair, int64_t first, int64_t second) {
  const int64_t width = call.form->width, cell = cells.at(pair);
  const auto at = [&](auto* values, int64_t row) { return values + row * width + first_feature; };
  const bool own_first = sums.own(first), own_second = sums.own(second);
  if (own_first) sums.reach(first);
  if (own_second) sums.reach(second);
  const float *const rows = at(table, cells.first(cell)), *const x_first = at(call.x, first),
                     *const x_second = at(call.x, second);
  float *const to_first = at(call.out, first), *const to_second = at(call.out, second);
  walk_vectors(last_feature - first_feature, [&](int64_t f, int64_t count) HWY_ATTR {
    Vf filter = hn::Mul(cells.share(cell, 0), load_part(rows + f, count));
    RAMET_UNROLL
    for (int k = 1; k < 4; ++k)
      filter = hn::MulAdd(cells.share(cell, k), load_part(rows + k * width + f, count), filter);
    const Vf of_second = load_part(x_second + f, count), of_first = load_part(x_first + f, count);
    if (own_first) store_part(hn::MulAdd(filter, of_second, load_part(to_first + f, count)), to_first + f, count);
    if (own_second) store_part(hn::MulAdd(filter, of_first, load_part(to_second + f, count)), to_second + f, count);
  });
}

/// The pairs of row `row`, for kSumVectors vectors of features from `first_feature` on.
void add_pairs_of_row(const RadialCall& call, const float* table, Cells& cells, FreshRows& fresh, int64_t first_feature,
                      int64_t row) {
  const Df d;
  const int64_t width = call.form->width, lanes = vector_lanes();
  const auto at = [&](auto* values, int64_t of) { return values + of * width + first_feature; };
  Vf x[kSumVectors], sums[kSumVectors];
  const auto load_sums = [&]() HWY_ATTR {
    RAMET_UNROLL
    for (int64_t v = 0; v < kSumVectors; ++v) sums[v] = hn::LoadU(d, at(call.out, row) + v * lanes);
  };
  const auto store_sums = [&]() HWY_ATTR {
    RAMET_UNROLL
    for (int64_t v = 0; v < kSumVectors; ++v) hn::StoreU(sums[v], d, at(call.out, row) + v * lanes);
  };
  RAMET_UNROLL
  for (int64_t v = 0; v < kSumVectors; ++v) x[v] = hn::LoadU(d, at(call.x, row) + v * lanes);
  fresh.reach(row);
  load_sums();
  for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p) {
    const int64_t second = call.second[p];
    if (second == row) {  // a pair of a row with itself
      store_sums();
      add_pair(call, table, cells, fresh, first_feature, first_feature + kSumVectors * lanes, p, row, row);
      load_sums();
      continue;
    }
    const int64_t cell = cells.at(p);
    const float *const rows = at(table, cells.first(cell)), *const x_second = at(call.x, second);
    float* const to_second = at(call.out, second);
    const Vf share0 = cells.share(cell, 0), share1 = cells.share(cell, 1), share2 = cells.share(cell, 2),
             share3 = cells.share(cell, 3);
    // A register for each row of the cell: of sums `k * width + f` compilers keep one in memory for each vector.
    const float *const row1 = rows + width, *const row2 = row1 + width, *const row3 = row2 + width;
    const auto add = [&](bool own_second) HWY_ATTR {
      RAMET_UNROLL
      for (int64_t v = 0; v < kSumVectors; ++v) {
        const int64_t f = v * lanes;
        Vf filter = hn::Mul(share0, hn::LoadU(d, rows + f));
        filter = hn::MulAdd(share1, hn::LoadU(d, row1 + f), filter);
        filter = hn::MulAdd(share2, hn::LoadU(d, row2 + f), filter);
        filter = hn::MulAdd(share3, hn::LoadU(d, row3 + f), filter);
        sums[v] = hn::MulAdd(filter, hn::LoadU(d, x_second + f), sums[v]);
        if (own_second) hn::StoreU(hn::MulAdd(filter, x[v], hn::LoadU(d, to_second + f)), d, to_second + f);
      }
    };
    if (fresh.own(second)) {
      fresh.reach(second);
      add(true);
    } else {
      add(false);
    }
  }
  store_sums();
}

/// Rows [begin, end) of the sums.
void SumTable(const RadialCall& call, const float* table, int64_t begin, int64_t end) {
  const int64_t width = call.form->width, block = kSumVectors * vector_lanes();
  FreshRows fresh(call, begin, end);
  for (int64_t f = 0; f < width; f += block) {
    const int64_t last = std::min(width, f + block);
    Cells cells(call);
    const auto visit = [&](int64_t pair, int64_t first, int64_t second) {
      add_pair(call, table, cells, fresh, f, last, pair, first, second);
    };
    if (last - f < block) {
      cpu::walk_pairs(call, begin, end, visit);
      fresh.clear_to(end);
      continue;
    }
    cpu::walk_crossing(call, 0, begin, begin, end, visit);
    for (int64_t row = begin; row < end; ++row)
      if (call.ptr[row] < call.ptr[row + 1]) add_pairs_of_row(call, table, cells, fresh, f, row);
    cpu::walk_crossing(call, end, call.form->rows, begin, end, visit);
    fresh.clear_to(end);
  }
}

/// What the pairs of row `row` add to kGradientVectors vectors of the table's gradient, which are features from
/// `feature` on and lie in `columns`, rows of which are `size` apart.
void add_gradients_of_row(const RadialCall& call, Cells& cells, int64_t row, int64_t feature, int64_t size,
                          float* columns) {
  const Df d;
  const int64_t width = call.form->width, lanes = vector_lanes();
  const auto at = [&](const float* values, int64_t of) { return values + of * width + feature; };
  Vf x[kGradientVectors], dy[kGradientVectors];
  RAMET_UNROLL
  for (int64_t v = 0; v < kGradientVectors; ++v)
    x[v] = hn::LoadU(d, at(call.x, row) + v * lanes), dy[v] = hn::LoadU(d, at(call.dy, row) + v * lanes);
  for (int64_t p = call.ptr[row]; p < call.ptr[row + 1]; ++p) {
    const int64_t second = call.second[p], cell = cells.at(p);
    const float *const x_second = at(call.x, second), *const dy_second = at(call.dy, second);
    float* const rows = columns + cells.first(cell) * size;
    float *const row1 = rows + size, *const row2 = row1 + size, *const row3 = row2 + size;
    const Vf share0 = cells.share(cell, 0), share1 = cells.share(cell, 1), share2 = cells.share(cell, 2),
             share3 = cells.share(cell, 3);
    RAMET_UNROLL
    for (int64_t v = 0; v < kGradientVectors; ++v) {
      const int64_t f = v * lanes;
      const Vf one_way = hn::Mul(dy[v], hn::LoadU(d, x_second + f));
      const Vf both = hn::MulAdd(hn::LoadU(d, dy_second + f), x[v], one_way);
      hn::StoreU(hn::MulAdd(share0, both, hn::LoadU(d, rows + f)), d, rows + f);
      hn::StoreU(hn::MulAdd(share1, both, hn::LoadU(d, row1 + f)), d, row1 + f);
      hn::StoreU(hn::MulAdd(share2, both, hn::LoadU(d, row2 + f)), d, row2 + f);
      hn::StoreU(hn::MulAdd(share3, both, hn::LoadU(d, row3 + f)), d, row3 + f);
    }
  }
}

/// Adds to `columns` [points, end - begin], which are columns [begin, end) of the table's gradient, for all pairs of a
/// sample.
void AddTableGradient(const RadialCall& call, int64_t begin, int64_t end, float* columns) {
  const int64_t width = call.form->width, size = end - begin, block = kGradientVectors * vector_lanes();
  for (int64_t column = 0; column < size; column += block) {
    Cells cells(call);
    if (size - column >= block) {
      for (int64_t row = 0; row < call.form->rows; ++row)
        if (call.ptr[row] < call.ptr[row + 1])
          add_gradients_of_row(call, cells, row, begin + column, size, columns + column);
      continue;
    }
    cpu::walk_pairs(call, 0, call.form->rows, [&](int64_t pair, int64_t first, int64_t second) {
      const int64_t cell = cells.at(pair);
      float* const rows = columns + cells.first(cell) * size + column;
      const auto at = [&](const float* values, int64_t row) { return values + row * width + begin + column; };
      const float *const x_first = at(call.x, first), *const x_second = at(call.x, second),
                         *const dy_first = at(call.dy, first), *const dy_second = at(call.dy, second);
      walk_vectors(size - column, [&](int64_t f, int64_t count) HWY_ATTR {
        const Vf one_way = hn::Mul(load_part(dy_first + f, count), load_part(x_second + f, count));
        const Vf both = hn::MulAdd(load_part(dy_second + f, count), load_part(x_first + f, count), one_way);
        RAMET_UNROLL
        for (int k = 0; k < 4; ++k) {
          float* const to = rows + k * size + f;
          store_part(hn::MulAdd(cells.share(cell, k), both, load_part(to, count)), to, count);
        }
      });
    });
  }
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

/// Whether a run may end before row `first` + i without cutting a pair, for the rows of [first, last].
std::vector<bool> clean_cuts(const RadialCall& call, int64_t first, int64_t last) {
  std::vector<bool> clean;
  const int32_t before = call.ptr[first];  // pairs
  int64_t reach = -1;                      // the last row of any pair so far
  if (has_row_within(call.second, before, first, call.form->rows))
    reach = *std::max_element(call.second, call.second + before);
  for (int64_t row = first; row <= last; ++row) {
    clean.push_back(reach < row);
    for (int64_t p = call.ptr[row]; row < last && p < call.ptr[row + 1]; ++p)
      reach = std::max<int64_t>(reach, call.second[p]);
  }
  return clean;
}

/// The place near `ideal` where no pair is cut; `ideal` where there is none.
int64_t clean_cut(const RadialCall& call, int64_t ideal) {
  const int64_t first = std::max<int64_t>(0, ideal - kNearRows), last = std::min(call.form->rows, ideal + kNearRows);
  const std::vector<bool> clean = clean_cuts(call, first, last);
  for (int64_t apart = 0; apart <= kNearRows; ++apart)
    for (const int64_t cut : {ideal + apart, ideal - apart})
      if (cut >= first && cut <= last && (clean[static_cast<size_t>(cut - first)] || cut == call.form->rows))
        return cut;
  return ideal;
}

}  // namespace

void split_pairs(ThreadTeam& team, const RadialCall& call,
                 const std::function<void(int64_t begin, int64_t end, int rank)>& body) {
  const int64_t rows = call.form->rows;
  if (team.size() == 1 || call.pairs() < kFewPairs) return body(0, rows, 0);
  std::vector<int64_t> cuts{0};
  for (int part = 1; part < team.size(); ++part) {
    const auto least = static_cast<int32_t>(call.pairs() * part / team.size());
    const int64_t ideal = std::lower_bound(call.ptr, call.ptr + rows, least) - call.ptr;
    cuts.push_back(std::max(clean_cut(call, ideal), cuts.back()));
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

void sum_samples(const NodeSignature& node, const ops::RadialForm& form, const KernelContext& context,
                 const std::function<void(const RadialCall&, int64_t b, int64_t begin, int64_t end, int rank)>& body) {
  RadialCall first = checked_pairs(node, form, context);
  first.x = static_cast<const float*>(context.inputs[0]);
  for (int64_t b = 0; b < form.batch; ++b) {
    RadialCall call = pairs_of_sample(first, b);
    call.out = static_cast<float*>(context.outputs[0]) + b * form.rows * form.width;
    split_pairs(context.team, call, [&](int64_t begin, int64_t end, int rank) { body(call, b, begin, end, rank); });
  }
}

void add_pair_kernel(Backend& backend, const char* op, void (*run)(const NodeSignature&, const KernelContext&),
                     const ScratchFunction& scratch) {
  add_hwy(
      backend, op, [](const NodeSignature&) { return ""; },
      [run](const NodeSignature& node, int) {
        cpu_level();
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      scratch);
}

}  // namespace cpu

namespace {

using cpu::RadialCall;

void run_table_sum(const NodeSignature& node, const KernelContext& context) {
  const auto* const table = static_cast<const float*>(context.inputs[4]);
  cpu::sum_samples(node, ops::table_filter_form(node), context,
                   [&](const RadialCall& call, int64_t, int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(SumTable)(call, table, begin, end);
                   });
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
  cpu::add_pair_kernel(backend, "table_filter_sum", run_table_sum, {});
  cpu::add_pair_kernel(backend, "table_filter_gradient", run_table_gradient, table_gradient_scratch);
  cpu::add_network_filters(backend);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
