// Ops over the edges of graphs: lists of edges are checked, threads share rows, and loops do the rest.

#include "ramet/kernel/cpu/neighbors.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/ops/halo.h"
#include "ramet/ops/neighbors.h"

namespace ramet::kernel {

void cpu::split_rows(ThreadTeam& team, const int32_t* ptr, int64_t rows,
                     const std::function<void(int64_t, int64_t)>& body) {
  const int64_t work = rows + ptr[rows];
  if (team.size() == 1 || work < 256) return body(0, rows);
  const auto cut = [&](int64_t part) {
    const int64_t least = work * part / team.size();
    int64_t low = 0, high = rows;  // the first row before which there is that much work
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (middle + ptr[middle] < least)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  team.run([&](int rank) {
    const int64_t begin = cut(rank), end = rank + 1 == team.size() ? rows : cut(rank + 1);
    if (begin < end) body(begin, end);
  });
}

void cpu::clear_tail(ThreadTeam& team, void* out, const int32_t* ptr, int64_t rows, int64_t edges, int64_t bytes) {
  constexpr int64_t kGrain = 65536;  // bytes that are worth a thread's waking
  std::byte* const tail = static_cast<std::byte*>(out) + ptr[rows] * bytes;
  team.split((edges - ptr[rows]) * bytes, kGrain,
             [&](int64_t begin, int64_t end, int) { std::memset(tail + begin, 0, static_cast<size_t>(end - begin)); });
}

std::string cpu::refuse_edges(const NodeSignature& node) {
  return has_vector_loads(node.inputs[0].dtype) ? "" : "it computes f32, bf16 and f16";
}
int64_t cpu::row_bytes(const NodeSignature& node, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(node.inputs[0].dtype));
}
const void* cpu::rows_at(const NodeSignature& node, const KernelContext& context, size_t input, int64_t element) {
  return static_cast<const std::byte*>(context.inputs[input]) + row_bytes(node, element);
}
void* cpu::result_at(const NodeSignature& node, const KernelContext& context, int64_t element) {
  return static_cast<std::byte*>(context.outputs[0]) + row_bytes(node, element);
}

namespace {

using cpu::clear_tail;
using cpu::EdgeExtremes;
using cpu::EdgeProducts;
using cpu::EdgeSoftmax;
using cpu::EdgeSums;
using cpu::result_at;
using cpu::row_bytes;
using cpu::rows_at;
using cpu::run_rows;
using cpu::split_rows;
using ops::NeighborForm;
using ops::NeighborPointers;
using ops::SegmentForm;

const int32_t* table(const KernelContext& context, size_t input) {
  return static_cast<const int32_t*>(context.inputs[input]);
}
const cpu::EdgeLoops& loops_of(const NodeSignature& node) { return cpu::edge_loops(node.inputs[0].dtype); }

SegmentForm checked_form(const NodeSignature& node, const KernelContext& context, bool expands = false) {
  const SegmentForm form = expands ? ops::expand_form(node) : ops::segment_form(node);
  ops::check_segments(node, table(context, 1), form.batch, form.rows, form.edges);
  return form;
}

void run_segment_sum(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context);
  for (int64_t b = 0; b < form.batch; ++b) {
    EdgeSums call{.x = rows_at(node, context, 0, b * form.edges * form.width),
                  .width = form.width,
                  .mean = node.attributes.get_bool_or("mean", false),
                  .ptr = table(context, 1) + b * (form.rows + 1),
                  .out = result_at(node, context, b * form.rows * form.width)};
    run_rows(context.team, form.rows, call, loops_of(node).sum);
  }
}

void run_segment_extreme(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context);
  for (int64_t b = 0; b < form.batch; ++b) {
    const int64_t first = b * form.rows * form.width;
    const EdgeExtremes call{.x = rows_at(node, context, 0, b * form.edges * form.width),
                            .width = form.width,
                            .least = node.attributes.get_bool_or("least", false),
                            .ptr = table(context, 1) + b * (form.rows + 1),
                            .out = result_at(node, context, first),
                            .places = static_cast<int32_t*>(context.outputs[1]) + first};
    run_rows(context.team, form.rows, call, loops_of(node).extremes);
  }
}

void run_segment_softmax(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context);
  for (int64_t b = 0; b < form.batch; ++b) {
    const EdgeSoftmax call{.x = rows_at(node, context, 0, b * form.edges * form.width),
                           .width = form.width,
                           .ptr = table(context, 1) + b * (form.rows + 1),
                           .out = result_at(node, context, b * form.edges * form.width)};
    run_rows(context.team, form.rows, call, loops_of(node).softmax);
    clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, row_bytes(node, form.width));
  }
}

void run_segment_expand(const NodeSignature& node, const KernelContext& context) {
  const SegmentForm form = checked_form(node, context, true);
  const int64_t bytes = row_bytes(node, form.width);
  for (int64_t b = 0; b < form.batch; ++b) {
    const auto* const from = static_cast<const std::byte*>(rows_at(node, context, 0, b * form.rows * form.width));
    auto* const to = static_cast<std::byte*>(result_at(node, context, b * form.edges * form.width));
    const int32_t* const ptr = table(context, 1) + b * (form.rows + 1);
    split_rows(context.team, ptr, form.rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t e = ptr[row]; e < ptr[row + 1]; ++e)
          std::memcpy(to + e * bytes, from + row * bytes, static_cast<size_t>(bytes));
    });
    clear_tail(context.team, to, ptr, form.rows, form.edges, bytes);
  }
}

/// Calls `whole(begin, end)` for parts of `count` numbers that threads share; whether all of them are true.
bool all_parts(ThreadTeam& team, int64_t count, const std::function<bool(int64_t, int64_t)>& whole) {
  constexpr int64_t kGrain = 32768;  // of numbers that are worth a thread's waking
  std::atomic<bool> all{true};
  team.split(count, kGrain, [&](int64_t begin, int64_t end, int) {
    if (!whole(begin, end)) all.store(false, std::memory_order_relaxed);
  });
  return all;
}

/// Whether pointers of `rows` rows ascend from 0 to at most `edges`, and the numbers of each list are in its bound.
bool right_list(ThreadTeam& team, const int32_t* ptr, int64_t rows, int64_t edges,
                std::initializer_list<std::pair<const int32_t*, int64_t>> numbers) {
  if (ptr[0] != 0 || ptr[rows] > edges || !cpu::all_ascend(ptr, rows + 1)) return false;
  return all_parts(team, ptr[rows], [&](int64_t begin, int64_t end) {
    return std::ranges::all_of(
        numbers, [&](const auto& list) { return cpu::all_below(list.first + begin, end - begin, list.second); });
  });
}

/// ops::check_neighbors, by vectors and by all threads; where a list is wrong, that one says what is.
void check_lists(const NodeSignature& node, const NeighborForm& form, const NeighborPointers& lists, ThreadTeam& team) {
  bool right = true;
  for (int64_t b = 0; b < form.batch; ++b) {
    const int64_t at = b * form.edges;
    right = right && right_list(team, lists.ptr + b * (form.targets + 1), form.targets, form.edges,
                                {{lists.source + at, form.sources}});
    right = right && right_list(team, lists.source_ptr + b * (form.sources + 1), form.sources, form.edges,
                                {{lists.target + at, form.targets}, {lists.by_source + at, form.edges}});
  }
  if (!right) ops::check_neighbors(node, form, lists);
}

NeighborPointers lists_at(const KernelContext& context, size_t first) {
  return {table(context, first), table(context, first + 1), table(context, first + 2), table(context, first + 3),
          table(context, first + 4)};
}

void run_neighbor_sum(const NodeSignature& node, const KernelContext& context) {
  const NeighborForm form = ops::neighbor_sum_form(node);
  const NeighborPointers lists = lists_at(context, 1);
  check_lists(node, form, lists, context.team);
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t b = 0; b < form.batch; ++b) {
    const EdgeSums call{
        .x = rows_at(node, context, 0, b * form.from() * form.width),
        .width = form.width,
        .from = (form.transposed ? lists.target : lists.source) + b * form.edges,
        .edge = form.transposed ? lists.by_source + b * form.edges : nullptr,
        .weight = form.weighted ? rows_at(node, context, 6, b * form.edges * heads) : nullptr,
        .heads = heads,
        .ptr = form.transposed ? lists.source_ptr + b * (form.sources + 1) : lists.ptr + b * (form.targets + 1),
        .out = result_at(node, context, b * form.to() * form.width)};
    run_rows(context.team, form.to(), call, loops_of(node).sum);
  }
}

void run_neighbor_dot(const NodeSignature& node, const KernelContext& context) {
  const NeighborForm form = ops::neighbor_dot_form(node);
  const NeighborPointers lists = lists_at(context, 2);
  check_lists(node, form, lists, context.team);
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t b = 0; b < form.batch; ++b) {
    const EdgeProducts call{.a = rows_at(node, context, 0, b * form.targets * form.width),
                            .b = rows_at(node, context, 1, b * form.sources * form.width),
                            .width = form.width,
                            .heads = heads,
                            .source = lists.source + b * form.edges,
                            .ptr = lists.ptr + b * (form.targets + 1),
                            .out = result_at(node, context, b * form.edges * heads)};
    run_rows(context.team, form.targets, call, loops_of(node).multiply);
    clear_tail(context.team, call.out, call.ptr, form.targets, form.edges, row_bytes(node, heads));
  }
}

void run_halo_sum(const NodeSignature& node, const KernelContext& context) {
  const ops::HaloForm form = ops::halo_sum_form(node);
  ops::check_halo(node, form, table(context, 2), table(context, 3));
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t k = 0; k < form.clusters; ++k) {
    const EdgeSums call{.x = rows_at(node, context, 0, k * form.rows * form.width),
                        .width = form.width,
                        .from = table(context, 2) + k * form.edges,
                        .far = rows_at(node, context, 1, k * form.far * form.width),
                        .near = form.rows,
                        .weight = form.weighted ? rows_at(node, context, 6, k * form.edges * heads) : nullptr,
                        .heads = heads,
                        .ptr = table(context, 3) + k * (form.rows + 1),
                        .out = result_at(node, context, k * form.rows * form.width)};
    run_rows(context.team, form.rows, call, loops_of(node).sum);
  }
}

void run_halo_dot(const NodeSignature& node, const KernelContext& context) {
  const ops::HaloForm form = ops::halo_dot_form(node);
  ops::check_halo(node, form, table(context, 3), table(context, 4));
  const int64_t heads = std::max<int64_t>(1, form.heads);
  for (int64_t k = 0; k < form.clusters; ++k) {
    const EdgeProducts call{.a = rows_at(node, context, 0, k * form.rows * form.width),
                            .b = rows_at(node, context, 1, k * form.rows * form.width),
                            .width = form.width,
                            .heads = heads,
                            .far = rows_at(node, context, 2, k * form.far * form.width),
                            .near = form.rows,
                            .source = table(context, 3) + k * form.edges,
                            .ptr = table(context, 4) + k * (form.rows + 1),
                            .out = result_at(node, context, k * form.edges * heads)};
    run_rows(context.team, form.rows, call, loops_of(node).multiply);
    clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, row_bytes(node, heads));
  }
}

/// Rows of `count` places, one after another: row(place) gives the bytes of one, or null for zeros.
template <typename Row>
void copy_rows(const KernelContext& context, int64_t count, int64_t bytes, const Row& row) {
  auto* const out = static_cast<std::byte*>(context.outputs[0]);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, bytes));
  context.team.split(count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      if (const std::byte* from = row(i))
        std::memcpy(out + i * bytes, from, static_cast<size_t>(bytes));
      else
        std::memset(out + i * bytes, 0, static_cast<size_t>(bytes));
  });
}

std::function<void(const KernelContext&)> make_halo_rows(const NodeSignature& node) {
  return [node, form = ops::halo_rows_form(node)](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    const int64_t bytes = row_bytes(node, form.width);
    copy_rows(context, form.clusters * form.places, bytes,
              [&](int64_t i) { return form.table[i] < 0 ? nullptr : x + form.table[i] * bytes; });
  };
}

std::function<void(const KernelContext&)> make_halo_pack(const NodeSignature& node) {
  return [node, form = ops::halo_pack_form(node)](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    const int64_t bytes = row_bytes(node, form.width);
    copy_rows(context, form.devices * form.places, bytes,
              [&](int64_t i) { return form.send[i] < 0 ? nullptr : x + form.send[i] * bytes; });
  };
}

std::function<void(const KernelContext&)> make_halo_unpack(const NodeSignature& node) {
  return [node, form = ops::halo_unpack_form(node)](const KernelContext& context) {
    const auto* const x = static_cast<const std::byte*>(context.inputs[0]);
    const auto* const came = static_cast<const std::byte*>(context.inputs[1]);
    const int64_t bytes = row_bytes(node, form.width);
    copy_rows(context, form.clusters * form.places, bytes, [&](int64_t i) -> const std::byte* {
      const int64_t at = form.place[i];
      return at == 0 ? nullptr : at > 0 ? came + (at - 1) * bytes : x + (-at - 1) * bytes;
    });
  };
}

void add_rows(Backend& backend, const std::string& op,
              std::function<void(const KernelContext&)> (*make)(const NodeSignature&)) {
  cpu::add_hwy(backend, op, {}, [make](const NodeSignature& node, int) { return make(node); }, {}, {}, true);
}

void add(Backend& backend, const std::string& op, void (*run)(const NodeSignature&, const KernelContext&),
         bool any_type = false) {
  cpu::add_hwy(
      backend, op, [any_type](const NodeSignature& node) { return any_type ? "" : cpu::refuse_edges(node); },
      [run](const NodeSignature& node, int) {
        cpu_level();
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      {}, {}, any_type);
}

}  // namespace

void add_cpu_neighbors(Backend& backend) {
  add(backend, "segment_sum", run_segment_sum);
  add(backend, "segment_extreme", run_segment_extreme);
  add(backend, "segment_softmax", run_segment_softmax);
  add(backend, "segment_expand", run_segment_expand, true);
  add(backend, "neighbor_sum", run_neighbor_sum);
  add(backend, "neighbor_dot", run_neighbor_dot);
  add(backend, "halo_sum", run_halo_sum);
  add(backend, "halo_dot", run_halo_dot);
  add_rows(backend, "halo_rows", make_halo_rows);
  add_rows(backend, "halo_pack", make_halo_pack);
  add_rows(backend, "halo_unpack", make_halo_unpack);
}

}  // namespace ramet::kernel
