// Maps over edges that read rows and add to rows. Where the edges of a row lie together, a thread computes the values
// of a tile of edges and adds them to the rows, which no other thread has. Sums by row indices take edges a block at a
// time: first all threads compute the values of their tiles of it into a buffer that the caches hold, then each adds
// the values of the rows that are its own. So a row's sum is one chain in the order of the edges for any number of
// threads.

#include "ramet/kernel/cpu/edge_map.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ramet/kernel/cpu/hwy_entry.h"
#include "ramet/kernel/cpu/map.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/edge_map.h"
#include "ramet/ops/neighbors.h"

namespace ramet::kernel {
namespace {

using cpu::map_steps;
using cpu::MapEvaluator;
using ops::EdgeMapForm;
using Table = EdgeMapForm::Table;

constexpr int64_t kTileElements = 4096;    ///< that a thread computes at a time: its operands are in L1 and L2
constexpr int64_t kBlockElements = 65536;  ///< a thread, between two waits
constexpr int64_t kRowsOfThread = 16;      ///< so many rows are shared evenly enough
constexpr int64_t kAhead = 8;              ///< edges from a row that is fetched to the one that is copied
constexpr int64_t kGrain = 4096;
constexpr int64_t kLine = 64;

int64_t up_to_line(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

/// One node's kernel, made once. Edges are numbered over all samples, and rows of an operand too.
class EdgeMapKernel {
 public:
  EdgeMapKernel(const NodeSignature& node, int threads)
      : node_(node), form_(node), threads_(threads), edges_(form_.samples * form_.edges) {
    const int64_t width = std::max<int64_t>(1, form_.width);
    tile_ = std::clamp<int64_t>(kTileElements / width, 1, std::max<int64_t>(1, edges_));
    block_ = std::max<int64_t>(tile_ * threads, kBlockElements * threads / width / tile_ * tile_);
    make_evaluator();
    find_sums();
    lay_out();
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }

  void run(const KernelContext& context) const {
    check(context);
    if (form_.width == 0) return;
    if (together_)
      run_together(context);
    else
      run_blocks(context);
    for (size_t i = 0; i < form_.gives.size(); ++i)
      if (form_.gives[i].mean) divide(context, i);
  }

 private:
  /// Each thread has whole rows.
  void run_together(const KernelContext& context) const {
    context.team.run([&](int rank) { clear(context, rank); });
    context.team.split(edges_, tile_, [&](int64_t first, int64_t last, int rank) {
      first = begin_of_row(context, first), last = begin_of_row(context, last);
      for (int64_t at = first; at < last; at += tile_) {
        const int64_t stop = std::min(last, at + tile_);
        compute(context, at, at, stop - at, rank);
        add(context, at, stop, rank, 1, 0);
      }
    });
  }

  void run_blocks(const KernelContext& context) const {
    const auto threads = static_cast<uint32_t>(threads_);
    for (int64_t begin = 0; begin == 0 || begin < edges_; begin += block_) {
      const int64_t end = std::min(edges_, begin + block_);
      context.team.run([&](int rank) {
        if (begin == 0) clear(context, rank);
        const auto [first, last] = share(end - begin, tile_, rank);
        for (int64_t at = first; at < last; at += tile_)
          compute(context, begin, begin + at, std::min(tile_, last - at), rank);
      });
      context.team.run([&](int rank) { add(context, begin, end, rank, threads, static_cast<uint32_t>(rank)); });
    }
  }

  /// The first edge from `edge` on that begins a row of the sums, or has none.
  int64_t begin_of_row(const KernelContext& context, int64_t edge) const {
    if (summed_table_ < 0 || edge >= edges_) return edge;
    const auto table = static_cast<size_t>(summed_table_);
    const int64_t rows = form_.tables[table].rows, sample = edge / form_.edges, first = sample * form_.edges;
    const int32_t* const ptr = static_cast<const int32_t*>(context.inputs[table]) + sample * (rows + 1);
    const int32_t* const next = std::lower_bound(ptr, ptr + rows + 1, static_cast<int32_t>(edge - first));
    return next == ptr + rows + 1 ? edge : first + *next;
  }

  const TensorType& operand(size_t read) const { return node_.inputs[form_.tables.size() + read]; }

  /// Bytes of one row (of one edge) of an operand.
  int64_t row_bytes(size_t read) const { return form_.reads[read].features.elements() * bytes_of(operand(read).dtype); }
  bool is_summed(size_t output) const { return form_.gives[output].table >= 0; }
  int64_t value_bytes(size_t output) const { return form_.width * bytes_of(node_.outputs[output].dtype); }

  /// A program over the edges of a tile.
  void make_evaluator() {
    const auto of_tile = [&](const Shape& features) {
      std::vector<int64_t> dims{tile_};
      dims.insert(dims.end(), features.dims().begin(), features.dims().end());
      return Shape(dims);
    };
    std::vector<TensorType> inputs, outputs;
    for (size_t i = 0; i < form_.reads.size(); ++i) {
      const EdgeMapForm::Read& read = form_.reads[i];
      inputs.push_back({operand(i).dtype, read.table >= 0 || read.edges ? of_tile(read.features) : read.features});
    }
    for (const TensorType& output : node_.outputs) outputs.push_back({output.dtype, of_tile(form_.features)});
    evaluator_ = std::make_unique<MapEvaluator>(form_.program, of_tile(form_.features), inputs, outputs, threads_);
  }

  /// Scratch: the evaluator's; for each thread places of operands and results, rows that it has read and, where threads
  /// have whole rows, values that are summed; else these for a block behind all threads.
  void lay_out() {
    int64_t at = up_to_line(static_cast<int64_t>((form_.reads.size() + form_.gives.size()) * sizeof(void*)));
    for (size_t i = 0; i < form_.reads.size(); ++i) {
      tile_at_.push_back(at);
      if (form_.reads[i].table >= 0) at += up_to_line(tile_ * row_bytes(i));
    }
    const auto add_values = [&](int64_t edges) {
      for (size_t i = 0; i < form_.gives.size(); ++i) {
        values_at_.push_back(at);
        if (is_summed(i)) at += up_to_line(edges * value_bytes(i));
      }
    };
    threads_at_ = up_to_line(evaluator_->scratch_bytes());
    if (together_) add_values(tile_);
    thread_bytes_ = at;
    at = threads_at_ + threads_ * thread_bytes_;
    if (!together_) add_values(std::min(block_, edges_));
    scratch_bytes_ = at;
  }

  /// Whether no sum needs edges that lie apart: there is one thread, or all sums are by one table of pointers, of
  /// enough rows for all threads.
  void find_sums() {
    std::set<int> tables;
    for (const EdgeMapForm::Give& give : form_.gives)
      if (give.table >= 0) tables.insert(give.table);
    together_ = threads_ == 1 || tables.empty();
    if (together_ || tables.size() > 1) return;
    const EdgeMapForm::Table& table = form_.tables[static_cast<size_t>(*tables.begin())];
    together_ = table.pointers && form_.samples * table.rows >= kRowsOfThread * threads_;
    if (together_) summed_table_ = *tables.begin();
  }

  char* thread_scratch(const KernelContext& context, int rank) const {
    return static_cast<char*>(context.scratch) + threads_at_ + rank * thread_bytes_;
  }

  /// Throws Error unless pointers ascend and indices are rows.
  void check(const KernelContext& context) const {
    for (size_t i = 0; i < form_.tables.size(); ++i) {
      const Table& table = form_.tables[i];
      if (table.pointers)
        ops::check_segments(node_, static_cast<const int32_t*>(context.inputs[i]), form_.samples, table.rows,
                            form_.edges);
      else
        with_indices(context, i, [&](const auto* numbers) { check_indices(context, i, numbers); });
    }
  }

  template <typename T>
  void check_indices(const KernelContext& context, size_t table, const T* numbers) const {
    const auto limit = static_cast<uint64_t>(form_.tables[table].rows);
    context.team.split(edges_, kGrain, [&](int64_t begin, int64_t end, int) {
      bool wrong = false;  // without a branch an index
      for (int64_t e = begin; e < end; ++e) wrong |= static_cast<uint64_t>(int64_t{numbers[e]}) >= limit;
      for (int64_t e = begin; wrong && e < end; ++e)
        if (static_cast<uint64_t>(int64_t{numbers[e]}) >= limit)
          throw ops::wrong_edge_list(node_, "table " + std::to_string(table) + ", edge " + std::to_string(e),
                                     numbers[e], 0, static_cast<int64_t>(limit) - 1);
    });
  }

  /// Calls `run` with the typed indices of a table.
  template <typename Run>
  void with_indices(const KernelContext& context, size_t table, const Run& run) const {
    if (node_.inputs[table].dtype == DType::kI64)
      run(static_cast<const int64_t*>(context.inputs[table]));
    else
      run(static_cast<const int32_t*>(context.inputs[table]));
  }

  /// Calls `visit(row, first, last)` for the runs of edges in [begin, end) that a table of pointers gives to one row;
  /// row -1: to none.
  template <typename Visit>
  void for_each_run(const KernelContext& context, size_t table, int64_t begin, int64_t end, const Visit& visit) const {
    const int64_t rows = form_.tables[table].rows;
    const auto* const pointers = static_cast<const int32_t*>(context.inputs[table]);
    for (int64_t e = begin; e < end;) {
      const int64_t sample = e / form_.edges, first = sample * form_.edges;
      const int32_t* const ptr = pointers + sample * (rows + 1);
      int64_t row = std::upper_bound(ptr, ptr + rows + 1, static_cast<int32_t>(e - first)) - ptr - 1;
      const int64_t stop = std::min(end, first + form_.edges);
      for (; row < rows && e < stop; ++row) {
        const int64_t last = std::min<int64_t>(stop, first + ptr[row + 1]);
        if (last > e) visit(sample * rows + row, e, last);
        e = std::max(e, last);
      }
      if (e < stop) visit(-1, e, stop);
      e = stop;
    }
  }

  /// The rows that edges [begin, begin + count) have, one after another.
  void read_rows(const KernelContext& context, size_t read, int64_t begin, int64_t count, char* to) const {
    const auto bytes = static_cast<size_t>(row_bytes(read));
    const auto table = static_cast<size_t>(form_.reads[read].table);
    const auto* const from = static_cast<const char*>(context.inputs[form_.tables.size() + read]);
    if (form_.tables[table].pointers) {
      for_each_run(context, table, begin, begin + count, [&](int64_t row, int64_t first, int64_t last) {
        char* at = to + static_cast<size_t>(first - begin) * bytes;
        if (row < 0) std::memset(at, 0, static_cast<size_t>(last - first) * bytes);
        for (int64_t e = first; row >= 0 && e < last; ++e, at += bytes)
          std::memcpy(at, from + static_cast<size_t>(row) * bytes, bytes);
      });
      return;
    }
    const int64_t rows = form_.reads[read].rows;
    with_indices(context, table, [&](const auto* numbers) {
      for (int64_t e = begin; e < begin + count;) {
        const int64_t sample = e / form_.edges, stop = std::min(begin + count, (sample + 1) * form_.edges);
        const char* const base = from + static_cast<size_t>(sample * rows) * bytes;
        for (; e < stop; ++e) {
          if (e + kAhead < stop) {
            const char* const next = base + static_cast<size_t>(numbers[e + kAhead]) * bytes;
            for (size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(next + line);
          }
          std::memcpy(to + static_cast<size_t>(e - begin) * bytes, base + static_cast<size_t>(numbers[e]) * bytes,
                      bytes);
        }
      }
    });
  }

  /// Values of edges [begin, begin + count), which are a part of the block from `block` on.
  void compute(const KernelContext& context, int64_t block, int64_t begin, int64_t count, int rank) const {
    char* const own = thread_scratch(context, rank);
    auto* const inputs = reinterpret_cast<const void**>(own);
    auto* const outputs = reinterpret_cast<void**>(own + form_.reads.size() * sizeof(void*));
    for (size_t i = 0; i < form_.reads.size(); ++i) {
      const EdgeMapForm::Read& read = form_.reads[i];
      const auto* const from = static_cast<const char*>(context.inputs[form_.tables.size() + i]);
      if (read.table >= 0) {
        read_rows(context, i, begin, count, own + tile_at_[i]);
        inputs[i] = own + tile_at_[i];
      } else {
        inputs[i] = read.edges ? from + begin * row_bytes(i) : from;
      }
    }
    for (size_t i = 0; i < form_.gives.size(); ++i)
      outputs[i] = is_summed(i) ? values(context, i, rank) + (begin - block) * value_bytes(i)
                                : static_cast<char*>(context.outputs[i]) + begin * value_bytes(i);
    evaluator_->run_part(std::span(inputs, form_.reads.size()), std::span(outputs, form_.gives.size()), context.scratch,
                         rank, 0, count * form_.width);
  }

  /// Of an output that is summed: the values of the edges of a block, or of the thread's tile.
  char* values(const KernelContext& context, size_t output, int rank) const {
    return (together_ ? thread_scratch(context, rank) : static_cast<char*>(context.scratch)) + values_at_[output];
  }

  /// Adds the values of edges [begin, end), a block or the thread's tile, to every row whose remainder of `threads` is
  /// `own`.
  void add(const KernelContext& context, int64_t begin, int64_t end, int rank, uint32_t threads, uint32_t own) const {
    const int64_t width = form_.width;
    for (size_t i = 0; i < form_.gives.size(); ++i) {
      if (!is_summed(i)) continue;
      const auto table = static_cast<size_t>(form_.gives[i].table);
      const auto* const from = reinterpret_cast<const float*>(values(context, i, rank));
      auto* const sums = static_cast<float*>(context.outputs[i]);
      if (form_.tables[table].pointers) {
        for_each_run(context, table, begin, end, [&](int64_t row, int64_t first, int64_t last) {
          if (row >= 0 && static_cast<uint32_t>(row) % threads == own)
            map_steps().add_rows(from + (first - begin) * width, last - first, width, false, sums + row * width);
        });
        continue;
      }
      const int64_t rows = form_.gives[i].rows;
      with_indices(context, table, [&](const auto* numbers) {
        for (int64_t e = begin; e < end;) {
          const int64_t sample = e / form_.edges, stop = std::min(end, (sample + 1) * form_.edges);
          float* const base = sums + sample * rows * width;
          for (; e < stop; ++e)
            if (const auto row = static_cast<uint32_t>(numbers[e]); row % threads == own)
              map_steps().add(from + (e - begin) * width, width, base + row * width);
        }
      });
    }
  }

  /// Part `rank` of [0, count), cut at multiples of `grain`.
  std::pair<int64_t, int64_t> share(int64_t count, int64_t grain, int rank) const {
    const int64_t grains = (count + grain - 1) / grain;
    const auto cut = [&](int64_t part) { return std::min(count, grains * part / threads_ * grain); };
    return {cut(rank), cut(rank + 1)};
  }

  /// Zeros in a thread's part of all sums.
  void clear(const KernelContext& context, int rank) const {
    for (size_t i = 0; i < form_.gives.size(); ++i) {
      if (!is_summed(i)) continue;
      const auto [begin, end] = share(node_.outputs[i].elements(), kLine, rank);
      auto* const sums = static_cast<float*>(context.outputs[i]);
      std::fill(sums + begin, sums + end, 0.0f);
    }
  }

  /// Sums by pointers to means.
  void divide(const KernelContext& context, size_t output) const {
    const auto table = static_cast<size_t>(form_.gives[output].table);
    const int64_t rows = form_.tables[table].rows;
    const auto* const pointers = static_cast<const int32_t*>(context.inputs[table]);
    auto* const sums = static_cast<float*>(context.outputs[output]);
    context.team.split(form_.samples * rows, std::max<int64_t>(1, kGrain / form_.width),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t row = begin; row < end; ++row) {
                           const int32_t* const ptr = pointers + row / rows * (rows + 1) + row % rows;
                           const auto count = static_cast<float>(std::max(1, ptr[1] - ptr[0]));
                           float* const sum = sums + row * form_.width;
                           for (int64_t f = 0; f < form_.width; ++f) sum[f] /= count;
                         }
                       });
  }

  const NodeSignature node_;
  const EdgeMapForm form_;
  const int threads_;
  const int64_t edges_;    ///< of all samples
  int64_t tile_, block_;   ///< edges
  bool together_ = true;   ///< threads have whole rows
  int summed_table_ = -1;  ///< the pointers that threads cut edges by; -1: they cut anywhere
  std::unique_ptr<const MapEvaluator> evaluator_;
  std::vector<int64_t> tile_at_, values_at_;
  int64_t threads_at_ = 0, thread_bytes_ = 0, scratch_bytes_ = 0;
};

std::string refuse(const NodeSignature& node) {
  for (const auto* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types)
      if (type.dtype == DType::kF64 || (is_floating(type.dtype) && !map_steps().load(type.dtype)))
        return "maps are computed in f32";
  return "";
}

/// Operands of the edges themselves, and results of the edges of as many bytes: a tile is read before it is written.
std::vector<std::pair<int, int>> aliases(const NodeSignature& node) {
  const EdgeMapForm form(node);
  std::vector<std::pair<int, int>> found;
  for (size_t i = 0; i < form.reads.size(); ++i)
    for (size_t j = 0; j < form.gives.size(); ++j) {
      const TensorType& operand = node.inputs[form.tables.size() + i];
      const bool alike = form.reads[i].edges && form.gives[j].table < 0 && operand.shape == node.outputs[j].shape;
      if (alike && size_of(operand.dtype) == size_of(node.outputs[j].dtype))
        found.emplace_back(static_cast<int>(form.tables.size() + i), static_cast<int>(j));
    }
  return found;
}

}  // namespace

void add_cpu_edge_map(Backend& backend) {
  KernelEntry entry = cpu::hwy_entry(
      "edge_map", refuse,
      [](const NodeSignature& node, int threads) {
        return [kernel = std::make_shared<const EdgeMapKernel>(node, threads)](const KernelContext& context) {
          kernel->run(context);
        };
      },
      [](const NodeSignature& node, int threads) { return EdgeMapKernel(node, threads).scratch_bytes(); });
  entry.may_alias = aliases;
  backend.add(std::move(entry));
}

}  // namespace ramet::kernel
