// Products with block-sparse matrices. Tokens lie along vectors: a panel holds 64 tokens of every feature, so one
// layout serves all block sizes and both directions, and a stored zero or the size of a block changes no bit.

#include "ramet/kernel/cpu/sparse.h"

#include <algorithm>
#include <optional>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/hwy_entry.h"
#include "ramet/kernel/cpu/sparse_lines.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/program/keep_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/sparse.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"
#include "ramet/kernel/cpu/sparse_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::kPanelTokens;
using cpu::SparseLines;
using cpu::SparseProduct;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Df()));
constexpr int64_t kLine = 16;                   // numbers that a cache line holds
constexpr int kVectors = kLanes >= 16 ? 4 : 2;  // of tokens that up to four rows of a block meet in one pass
constexpr int kFolds = kLanes >= 16 ? 2 : 1;    // eight rows meet a half of them, where there are registers for eight
constexpr int kRows = 4 * kFolds;               // of a block that one pass computes

// --- sparse x dense ---

/// Where the elements of a block lie: element i of its line, j along the sum.
struct BlockStrides {
  int64_t block, line, sum, along;
};
BlockStrides strides_of(const SparseGrid& grid, bool transpose) {
  if (transpose) return {grid.block_elements(), 1, grid.block_columns, grid.block_rows};
  return {grid.block_elements(), grid.block_columns, 1, grid.block_columns};
}

/// kCount elements of a line for kWide vectors of tokens: chains over the blocks [begin, end), stored at out[i * 64].
template <int kCount, int kWide>
HWY_INLINE void run_line(const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
                         int64_t begin, int64_t end, float* out) {
  const Df d;
  Vf sums[kCount][kWide];
  RAMET_UNROLL
  for (int i = 0; i < kCount; ++i) {
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) sums[i][u] = hn::Zero(d);
  }
  for (int64_t e = begin; e < end; ++e) {
    const float* x = panel + int64_t{lines.other[e]} * kPanelTokens;
    const float* value = values + int64_t{lines.block[e]} * at.block;
    // The panel is in the second-level cache, and the stored blocks lie anywhere in it.
    const float* later = panel + int64_t{lines.other[e + cpu::kAhead]} * kPanelTokens;
    // So do the values, where lines are columns.
    const float* later_value = values + int64_t{lines.block[e + cpu::kAhead]} * at.block;
    for (int64_t i = 0; i < at.block; i += kLine) hwy::Prefetch(later_value + i);
    for (int64_t j = 0; j < at.along; ++j, x += kPanelTokens, later += kPanelTokens, value += at.sum) {
      Vf tokens[kWide];
      RAMET_UNROLL
      for (int u = 0; u < kWide; ++u) {
        tokens[u] = hn::Load(d, x + u * kLanes);
        hwy::Prefetch(later + u * kLanes);
      }
      RAMET_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const Vf factor = hn::Set(d, value[i * at.line]);
        RAMET_UNROLL
        for (int u = 0; u < kWide; ++u) sums[i][u] = hn::MulAdd(factor, tokens[u], sums[i][u]);
      }
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kCount; ++i) {
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) hn::Store(sums[i][u], d, out + i * kPanelTokens + u * kLanes);
  }
}

template <int kCount, int kWide>
void run_tokens(const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
                int64_t begin, int64_t end, float* out) {
  for (int64_t t = 0; t < kPanelTokens; t += kWide * kLanes)
    run_line<kCount, kWide>(lines, at, values, panel + t, begin, end, out + t);
}

/// The same of blocks of one element: kWide vectors of tokens. The processor itself looks far enough ahead.
template <int kWide>
void run_singles(const SparseLines& lines, const float* panel, int64_t begin, int64_t end, float* out) {
  const Df d;
  for (int64_t t = 0; t < kPanelTokens; t += kWide * kLanes) {
    Vf sums[kWide];
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) sums[u] = hn::Zero(d);
    for (const cpu::SparseSingle *e = lines.singles + begin, *last = lines.singles + end; e != last; ++e) {
      const float* x = panel + e->at + t;
      const Vf factor = hn::Set(d, e->value);
      RAMET_UNROLL
      for (int u = 0; u < kWide; ++u) sums[u] = hn::MulAdd(factor, hn::Load(d, x + u * kLanes), sums[u]);
    }
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) hn::Store(sums[u], d, out + t + u * kLanes);
  }
}

/// Up to kRows elements of a line: more elements meet fewer tokens at once.
void run_some(int64_t count, const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
              int64_t begin, int64_t end, float* out) {
  if (lines.singles) return run_singles<kVectors>(lines, panel, begin, end, out);
  switch (count) {
    case 1: return run_tokens<1, kVectors>(lines, at, values, panel, begin, end, out);
    case 2: return run_tokens<2, kVectors>(lines, at, values, panel, begin, end, out);
    case 3: return run_tokens<3, kVectors>(lines, at, values, panel, begin, end, out);
    case kRows: return run_tokens<kRows, kVectors / kFolds>(lines, at, values, panel, begin, end, out);
    default: return run_tokens<4, kVectors>(lines, at, values, panel, begin, end, out);
  }
}

/// sums[0] = the balanced tree over `parts` rows of sums, each `count` numbers.
void combine_parts(float* sums, int64_t parts, int64_t count) {
  if (parts == 1) return;
  const int64_t half = tree_split(parts);
  combine_parts(sums, half, count);
  combine_parts(sums + half * count, parts - half, count);
  const Df d;
  for (int64_t i = 0; i < count; i += kLanes)
    hn::Store(hn::Add(hn::Load(d, sums + i), hn::Load(d, sums + half * count + i)), d, sums + i);
}

/// Lines [begin, end) of one panel of tokens, to the rows of `out`. `instruction`: of bf16, whether the processor's
/// instruction has the bits of the sums.
void run_lines(const SparseProduct& call, const float* panel, bool instruction, int64_t begin, int64_t end, float* sums,
               float* out) {
  const SparseLines& lines = call.lines;
  const BlockStrides at = strides_of(call.form.grid, call.form.transpose);
  const int64_t high = lines.high;
  const auto run_part = [&](int64_t i, int64_t count, int64_t first, int64_t last, float* to) {
    if (!call.values.are_pairs)
      return run_some(count, lines, at, call.values.wide + i * at.line, panel, first, last, to);
    const cpu::Bf16Line line{lines, at.along / 2, call.values.pairs + i, panel, first, last, to, instruction};
    lines.singles ? cpu::run_bf16_singles(line) : cpu::run_bf16_line(line, count);
  };
  for (int64_t line = begin; line < end; ++line)
    for (int64_t i = 0, count; i < high; i += count) {
      count = high - i >= kRows ? kRows : std::min<int64_t>(4, high - i);
      float* to = out + ((line - begin) * high + i) * kPanelTokens;
      const int32_t* first = lines.first + line * lines.parts;
      if (lines.parts == 1) {
        run_part(i, count, first[0], first[1], to);
        continue;
      }
      const int64_t size = count * kPanelTokens;
      for (int64_t part = 0; part < lines.parts; ++part)
        run_part(i, count, first[part], first[part + 1], sums + part * size);
      combine_parts(sums, lines.parts, size);
      std::copy_n(sums, size, to);
    }
}

}  // namespace

namespace {

/// The 64 tokens from `first` on as a panel of all features; whether the processor's instruction has the bits of sums
/// over it.
bool fill_panel(const SparseProduct& call, int64_t first, int64_t tokens, float* panel) {
  const int64_t in = call.form.in(), stride = call.form.x.panel, from = call.form.x.element(first, 0);
  if (call.values.are_pairs) {
    const auto* x = static_cast<const uint16_t*>(call.x) + from;
    const bool single = call.lines.singles != nullptr;
    const auto take = single ? cpu::take_single_features : cpu::take_feature_pairs;
    const auto pack = single ? cpu::pack_single_features : cpu::pack_feature_pairs;
    const cpu::LeastBits least = stride ? take(x, stride, in, panel) : pack(x, in, tokens, panel);
    return cpu::takes_instruction(least, call.values.least);
  }
  WithStorage(call.in, call.x, [&](auto* x) {
    if (!stride)
      return pack_square(x, in, 0, in, [&](int64_t i) { return i < tokens ? first + i : -1; }, panel, kPanelTokens);
    constexpr int64_t kRowsAhead = 8;
    for (int64_t f = 0; f < in; ++f) {
      const auto* row = x + from + f * stride;
      for (int64_t t = 0; t < kPanelTokens; t += kLanes) hwy::Prefetch(row + kRowsAhead * stride + t);
      ConvertRow(row, kPanelTokens, panel + f * kPanelTokens);
    }
  });
  return false;
}

/// Features [feature, feature + count) of the results of a panel, to the rows or panels of y.
void put_results(const SparseProduct& call, bool instruction, const float* results, int64_t first, int64_t tokens,
                 int64_t feature, int64_t count) {
  const ops::SparseActivation& lies = call.form.y;
  WithStorage(call.form.output.dtype, call.y, [&](auto* y) {
    using T = std::remove_cvref_t<decltype(*y)>;
    T* to = const_cast<T*>(y) + lies.element(first, feature);
    const int64_t stride = lies.panel ? lies.panel : lies.features;
    const bool whole_lines = (reinterpret_cast<uintptr_t>(to) | static_cast<size_t>(stride) * sizeof(T)) % 64 == 0;
    const bool past_caches = call.past_caches && whole_lines;
    if (lies.panel) {
      if constexpr (std::is_same_v<T, Bf16>)
        if (instruction) return cpu::put_bf16_panel(results, count, &to->bits, stride, past_caches);
      for (int64_t f = 0; f < count; ++f)
        for (int64_t t = 0; t < kPanelTokens; t += kLanes)
          store_result(hn::Load(Df(), results + f * kPanelTokens + t), to + f * stride + t, past_caches);
      return;
    }
    if constexpr (std::is_same_v<T, Bf16>)
      if (instruction) return cpu::unpack_bf16_panel(results, count, tokens, &to->bits, stride, past_caches);
    unpack_panel(results, count, tokens, to, stride, past_caches);
  });
}

}  // namespace

/// Panels [begin, end) of a product; `room` has a panel of the inputs, some lines of the outputs, and the sums of the
/// parts.
void SparsePanels(const SparseProduct& call, int64_t begin, int64_t end, float* room) {
  const int64_t high = call.lines.high, group = cpu::line_group(high);
  float *panel = room, *results = panel + call.form.in() * kPanelTokens, *sums = results + group * high * kPanelTokens;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = p * kPanelTokens, tokens = std::min(kPanelTokens, call.form.tokens - first);
    const bool instruction = fill_panel(call, first, tokens, panel);
    for (int64_t line = 0; line < call.lines.lines; line += group) {
      const int64_t last = std::min(call.lines.lines, line + group);
      run_lines(call, panel, instruction, line, last, sums, results);
      put_results(call, instruction, results, first, tokens, line * high, (last - line) * high);
    }
  }
  hwy::FlushStream();  // what was written past the caches is there for other threads
}

/// Entries [begin, end) of blocks of one element.
void SparseGather(DType dtype, const void* values, const SparseLines& lines, int64_t begin, int64_t end,
                  cpu::SparseSingle* to) {
  WithStorage(dtype, values, [&](auto* from) {
    const hn::CappedTag<float, 1> d;
    for (int64_t e = begin; e < end; ++e)
      to[e] = {lines.other[e] * static_cast<int32_t>(kPanelTokens), hn::GetLane(LoadF32(d, from + lines.block[e]))};
  });
}

void SparseWiden(DType dtype, const void* values, int64_t begin, int64_t end, float* to) {
  WithStorage(dtype, values, [&](auto* from) { ConvertRow(from + begin, end - begin, to + begin); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(SparsePanels);
HWY_EXPORT(SparseGather);
HWY_EXPORT(SparseWiden);

namespace {

using cpu::kPanelTokens;
using cpu::SparseLines;
using cpu::SparseProduct;

int64_t panel_room(const ops::SparseMatmulForm& form) {
  const int64_t parts = form.transpose ? form.grid.cells_down : form.grid.cells_across;
  const int64_t high = form.transpose ? form.grid.block_columns : form.grid.block_rows;
  return cpu::scratch_bytes((form.in() + cpu::line_group(high) * high + 8 * parts) * kPanelTokens * 4);
}

/// Bytes of the values of all products as they are read, where the node's own will not do.
int64_t values_room(const NodeSignature& node, const ops::SparseMatmulForm& form) {
  const int64_t elements = form.groups.count * form.grid.stored_elements();
  if (form.grid.block_elements() == 1)
    return cpu::scratch_bytes(elements * static_cast<int64_t>(sizeof(cpu::SparseSingle)));
  return node.inputs[1].dtype == DType::kF32 ? 0 : cpu::scratch_bytes(elements * 4);
}

int64_t matmul_scratch(const NodeSignature& node, int threads) {
  const ops::SparseMatmulForm form = ops::sparse_matmul_form(node);
  return cpu::lines_scratch(form.grid, form.transpose, form.groups, threads) + values_room(node, form) +
         threads * panel_room(form);
}

/// Splits [0, groups * count) over the team and calls body(group, begin, end, rank) for the parts of each group.
template <typename Body>
void split_groups(ThreadTeam& team, int64_t groups, int64_t count, int64_t grain, const Body& body) {
  team.split(groups * count, grain, [&](int64_t begin, int64_t end, int rank) {
    for (int64_t at = begin; at < end;) {
      const int64_t group = at / count, last = std::min(end, (group + 1) * count);
      body(group, at - group * count, last - group * count, rank);
      at = last;
    }
  });
}

/// The stored elements of one product in the order of its lines, with their values, in f32: `made`.
SparseLines sort_singles(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context,
                         cpu::Room& room, cpu::SparseSingle** made) {
  const int64_t slices = context.team.size();
  auto* singles = room.take<cpu::SparseSingle>(form.grid.stored_elements());
  auto* numbers = room.take<int32_t>(cpu::LineSort::room_numbers(form.grid, form.transpose, slices));
  const auto* index = static_cast<const int32_t*>(context.inputs[2]);
  cpu::LineSort sort(form.grid, form.transpose, index, slices, numbers);
  context.team.run([&](int rank) { sort.count(rank); });
  if (!sort.is_valid()) ops::check_sparse_index(node, form.grid, index);
  SparseLines lines = sort.place();
  const auto fill = [&](const auto& value_of) {
    context.team.run([&](int rank) {
      sort.fill(rank, [&](int32_t at, int64_t along, int64_t number) {
        singles[at] = {static_cast<int32_t>(along * kPanelTokens), value_of(number)};
      });
    });
  };
  const void* values = context.inputs[1];
  switch (node.inputs[1].dtype) {
    case DType::kF32: fill([v = static_cast<const float*>(values)](int64_t i) { return v[i]; }); break;
    case DType::kBF16: fill([v = static_cast<const uint16_t*>(values)](int64_t i) { return bf16_to_f32(v[i]); }); break;
    default: fill([v = static_cast<const uint16_t*>(values)](int64_t i) { return f16_to_f32(v[i]); }); break;
  }
  lines.singles = *made = singles;
  return lines;
}

/// The lines of each product, and their values.
struct MatmulOperands {
  std::optional<cpu::SparsePatterns> patterns{};
  SparseLines one{};  ///< where there are no patterns
  cpu::SparseValues values{};
  cpu::SparseSingle* singles = nullptr;

  SparseLines lines_of(int64_t group, int64_t stored) const {
    if (!patterns) return one;
    SparseLines lines = patterns->of(group);
    if (singles) lines.singles = singles + group * stored;
    return lines;
  }
  cpu::SparseValues values_of(int64_t group, int64_t stored) const {
    cpu::SparseValues own = values;
    if (own.pairs) own.pairs += group * stored / 2;
    if (own.wide) own.wide += group * stored;
    return own;
  }
};

/// The elements of blocks along the sum.
int64_t along(const ops::SparseMatmulForm& form) {
  return form.transpose ? form.grid.block_rows : form.grid.block_columns;
}

/// Blocks of one element, with their values.
void take_singles(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context,
                  cpu::Room& room, MatmulOperands& made) {
  const int64_t stored = form.grid.stored_elements(), groups = form.groups.count;
  const DType dtype = node.inputs[1].dtype;
  if (groups == 1) {
    made.one = sort_singles(node, form, context, room, &made.singles);
  } else {
    made.patterns.emplace(node, 2, form.grid, form.transpose, form.groups, context, room);
    made.singles = room.take<cpu::SparseSingle>(groups * stored);
    split_groups(context.team, groups, stored, 4096, [&](int64_t group, int64_t begin, int64_t end, int) {
      const char* from = static_cast<const char*>(context.inputs[1]) + group * stored * size_of(dtype);
      HWY_DYNAMIC_DISPATCH(SparseGather)
      (dtype, from, made.patterns->of(group), begin, end, made.singles + group * stored);
    });
  }
  if (!made.values.are_pairs) return;
  cpu::SharedLeast least;
  const int64_t parts = form.transpose ? form.grid.cells_down : form.grid.cells_across;
  const int64_t all = cpu::line_count(form.grid, form.transpose) * parts;
  split_groups(context.team, groups, all, 16, [&](int64_t group, int64_t begin, int64_t end, int) {
    least.lower(
        cpu::pair_singles(made.lines_of(group, stored), begin, end, made.singles + (groups == 1 ? 0 : group * stored)));
  });
  made.values.least = least.get();
}

/// Blocks of several elements, with their values.
void take_blocks(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context,
                 cpu::Room& room, MatmulOperands& made) {
  const int64_t elements = form.groups.count * form.grid.stored_elements();
  made.patterns.emplace(node, 2, form.grid, form.transpose, form.groups, context, room);
  if (made.values.are_pairs) {
    auto* pairs = room.take<uint32_t>(elements / 2);
    cpu::SharedLeast least;
    context.team.split(elements / form.grid.block_elements(), 64, [&](int64_t begin, int64_t end, int) {
      least.lower(cpu::pair_values(form.grid, form.transpose, static_cast<const uint16_t*>(context.inputs[1]), begin,
                                   end, pairs));
    });
    made.values.pairs = pairs, made.values.least = least.get();
    return;
  }
  made.values.wide = static_cast<const float*>(context.inputs[1]);
  const DType dtype = node.inputs[1].dtype;
  if (dtype == DType::kF32) return;
  float* wide = room.take<float>(elements);
  context.team.split(elements, 4096, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(SparseWiden)(dtype, context.inputs[1], begin, end, wide);
  });
  made.values.wide = wide;
}

MatmulOperands matmul_operands(const NodeSignature& node, const ops::SparseMatmulForm& form,
                               const KernelContext& context, cpu::Room& room) {
  const bool single = form.grid.block_elements() == 1;
  MatmulOperands made;
  made.values.are_pairs = cpu::takes_bf16_pairs(node.inputs[0].dtype, node.inputs[1].dtype, along(form), single);
  single ? take_singles(node, form, context, room, made) : take_blocks(node, form, context, room, made);
  return made;
}

void run_matmul(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context) {
  cpu::Room room(context.scratch);
  const MatmulOperands operands = matmul_operands(node, form, context, room);
  const int64_t stored = form.grid.stored_elements(), groups = form.groups.count;
  const int64_t size = panel_room(form) / 4;
  float* panels = room.take<float>(size * context.team.size());
  const int64_t count = (form.tokens + kPanelTokens - 1) / kPanelTokens;
  const auto x_bytes = static_cast<int64_t>(size_of(node.inputs[0].dtype)) * form.tokens * form.in();
  const auto y_bytes = static_cast<int64_t>(size_of(form.output.dtype)) * form.tokens * form.out();
  split_groups(context.team, groups, count, 1, [&](int64_t group, int64_t begin, int64_t end, int rank) {
    const SparseProduct call{.form = form,
                             .lines = operands.lines_of(group, stored),
                             .in = node.inputs[0].dtype,
                             .x = static_cast<const char*>(context.inputs[0]) + group * x_bytes,
                             .values = operands.values_of(group, stored),
                             .y = static_cast<char*>(context.outputs[0]) + group * y_bytes,
                             .past_caches = groups * y_bytes >= cpu::kPastCaches};
    HWY_DYNAMIC_DISPATCH(SparsePanels)(call, begin, end, panels + rank * size);
  });
}

}  // namespace

bool cpu::takes_panels(DType dtype) {
  return dtype == DType::kF32 || takes_bf16_pairs(dtype, dtype, ops::kOuterTokens, false);
}

namespace {

std::string refuse_matmul(const NodeSignature& node) {
  if (const std::string refused = cpu::refuse_sparse_types(node); !refused.empty()) return refused;
  const ops::SparseMatmulForm form = ops::sparse_matmul_form(node);
  for (const int64_t panel : {form.x.panel, form.y.panel})
    if (panel % kPanelTokens != 0) return "not for panels of " + std::to_string(panel) + " tokens";
  return "";
}

}  // namespace

KernelEntry cpu::sparse_entry(const std::string& op, int activations, std::function<bool(const NodeSignature&)> grouped,
                              std::function<std::string(const NodeSignature&)> refuse, MakeFunction make,
                              ScratchFunction scratch) {
  KernelEntry entry = hwy_entry(op, std::move(refuse), std::move(make), std::move(scratch));
  entry.blocking = [activations, grouped = std::move(grouped)](const NodeSignature& node,
                                                               int input) -> std::optional<BlockedLayout> {
    if (input >= activations || grouped(node) || !takes_panels(node.inputs[0].dtype)) return std::nullopt;
    return program::panel_layout(node.inputs[static_cast<size_t>(input)], kMemoryPanel);
  };
  return entry;
}

std::string cpu::refuse_sparse_types(const NodeSignature& node) {
  for (const TensorType* type : {&node.inputs[0], &node.inputs[1], &node.outputs[0]})
    if (!cpu::has_vector_loads(type->dtype)) return "not for " + type->text();
  return "";
}

void add_cpu_sparse(Backend& backend) {
  cpu::add_sparse_evolve(backend);
  cpu::add_sparse_candidates(backend);
  cpu::add_sparse_outer(backend);
  backend.add(cpu::sparse_entry(
      "sparse_matmul", 1, [](const NodeSignature& node) { return node.inputs[1].shape.rank() == 6; }, refuse_matmul,
      [](const NodeSignature& node, int) {
        cpu_level();
        return [node, form = ops::sparse_matmul_form(node)](const KernelContext& context) {
          run_matmul(node, form, context);
        };
      },
      matmul_scratch));
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
