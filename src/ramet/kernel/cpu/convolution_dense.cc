#include "ramet/kernel/cpu/convolution_dense.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/work_shares.h"
#include "ramet/kernel/cpu/amx_product.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/convolution_stage.h"
#include "ramet/kernel/cpu/convolution_tile.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/epilogue.h"
#include "ramet/ops/epilogue.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kMergedBytes = 16;    // channels of a position that are too few for a chain of their own
constexpr int64_t kTablePlaces = 8192;  // of a block of positions: a tap of a position each
constexpr int64_t kGatheredBytes =
    512 << 10;  // of a block of positions that tiles read: a part of a second-level cache

constexpr int64_t kUnitsOfThread = 64;   // of work, so that threads end together
constexpr int64_t kLeastPositions = 24;  // of a unit, so that a table is worth it
constexpr int64_t kFewPositions = 16;    // of a thread: threads take panels instead
constexpr int64_t kLineFloats = kAlign / 4;

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// Taps whose places in a panel follow one another: one product.
struct TapRun {
  int64_t first, count;  ///< of the gathered taps
  int64_t tap;           ///< of the filter: the first one's
};

struct Box {
  PositionBox box;
  std::vector<int64_t> wide, last;  ///< where each tap is in a whole panel, and in the last one
  std::vector<int64_t> gathered;    ///< taps in the order of the filter's
  std::vector<TapRun> runs;
  int64_t blocks = 0, units = 0;  ///< of positions; of work
};

/// What a thread takes at once: positions [begin, end) of a box by items [first, last).
struct Unit {
  const Box* box;
  int64_t begin, end, first, last;
};

/// Memory of one thread, and what its tiles share.
struct Own {
  const char** reads;
  char** outs;
  int64_t* results;
  float* sums;
  char* zeros;
  uint32_t* gathered;    ///< [chunk][position][tap][unit]
  int64_t addend = 0;    ///< of an epilogue in registers: bytes from where a sum goes
  bool streams = false;  ///< results go to memory around the caches
};

/// Puts the taps of a box in the order of the filter's, and finds those that lie together.
void order_taps(Box& box, const std::vector<int64_t>& taps) {
  box.gathered.resize(taps.size());
  std::iota(box.gathered.begin(), box.gathered.end(), 0);
  const auto tap_of = [&](int64_t i) { return taps[static_cast<size_t>(i)]; };
  std::sort(box.gathered.begin(), box.gathered.end(), [&](int64_t x, int64_t y) { return tap_of(x) < tap_of(y); });
  for (int64_t i = 0; i < std::ssize(taps); ++i) {
    const int64_t tap = tap_of(box.gathered[static_cast<size_t>(i)]);
    if (!box.runs.empty() && box.runs.back().tap + box.runs.back().count == tap)
      ++box.runs.back().count;
    else
      box.runs.push_back({i, 1, tap});
  }
}

/// Bytes of the last-level cache that the first processor shares. (sysconf counts those of many processors as one.)
int64_t last_level_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // "32768K"
  int64_t size = 0;
  char unit = 0;
  if (!(file >> size >> unit) || size <= 0) return int64_t{32} << 20;
  return size << (unit == 'M' ? 20 : 10);
}

}  // namespace

int64_t streamed_bytes() {
  static const int64_t bytes = last_level_bytes() / 2;
  return bytes;
}

struct DenseConvolution::Parts {
  ConvolutionForm form;
  ConvolutionForm reads;  // the form whose positions tiles read: where taps are merged it has fewer
  bool transposed, blocked = false;
  bool tiles = false;  // products of gathered positions by the tiles of AMX
  BlockedFilter filter;
  StagedActivations staged;
  DType filter_type = DType::kF32, bias_type = DType::kF32;
  int threads = 1;
  std::vector<Box> boxes;
  std::optional<Epilogue> epilogue;
  int64_t block = 0, most_taps = 0;
  int64_t step = 0, parts = 1;  ///< positions of a unit of work, at most `block`; parts that the items are in
  bool stages_out = false;
  int64_t filter_bytes = 0, input_bytes = 0, output_bytes = 0, rank_bytes = 0, gathered_bytes = 0, sums_bytes = 0;

  int64_t results() const { return transposed ? form.channels : form.filters; }
  int64_t group_results() const { return filter.columns(); }
  int64_t out_size() const { return static_cast<int64_t>(size_of(form.result.dtype)); }
  int64_t epilogue_at() const { return filter_bytes + input_bytes + output_bytes + threads * rank_bytes; }
  /// Whether a thread's block of positions is whole rows of the result: the epilogue follows each block.
  bool follows_blocks() const { return boxes.size() == 1 && parts == 1 && !stages_out; }
  bool direct() const {
    const bool stored = form.result.dtype == DType::kF32 || form.result.dtype == DType::kBF16;
    return form.chunks == 1 && stored && (!form.has_bias || bias_type == DType::kF32);
  }
  /// Whether tiles compute the epilogue themselves.
  bool in_registers() const {
    return direct() && filter.compute == DType::kF32 && form.result.dtype == DType::kF32 && !stages_out &&
           epilogue->simple();
  }
  /// Whether the result is written around the caches: it is large, f32, and all of its rows are whole lines.
  bool streams(const char* out) const {
    return direct() && filter.compute == DType::kF32 && form.result.dtype == DType::kF32 &&
           (epilogue->empty() || in_registers()) && form.result.bytes() >= streamed_bytes() &&
           group_results() % kLineFloats == 0 && reinterpret_cast<uintptr_t>(out) % kAlign == 0;
  }
  std::array<int64_t, 3> result_extents() const {
    const auto& s = form.space;
    return transposed ? std::array{s[0].input, s[1].input, s[2].input}
                      : std::array{s[0].output, s[1].output, s[2].output};
  }

  void describe(const NodeSignature& node);
  void merge_taps();
  void make_boxes();
  void divide();
  int64_t items() const { return form.groups * filter.panels(); }
  int64_t units() const {
    return std::accumulate(boxes.begin(), boxes.end(), int64_t{0}, [](int64_t n, const Box& b) { return n + b.units; });
  }
  Unit unit(int64_t index) const;
  void size_scratch();
  Own own(char* scratch, int rank) const;
  void fill_table(const Box& box, const PixelView& view, char* out, int64_t begin, int64_t end, const Own& own) const;
  void compute(const KernelContext& context, const PixelView& view, const uint32_t* panels, char* out, int rank,
               WorkShares& shares) const;
  void tile(const Box& box, int64_t item, int64_t row, int64_t rows, bool fresh, const Own& own, const uint32_t* panels,
            const void* bias) const;
  void by_vectors(const Box& box, int64_t first, int64_t last, int64_t rows, const Own& own, const uint32_t* panels,
                  const void* bias) const;
  void by_tiles(const Box& box, int64_t first, int64_t last, int64_t rows, const Own& own, const uint32_t* panels,
                const void* bias) const;
  void gather(const Box& box, int64_t group, int64_t rows, const Own& own) const;
  void finish(int64_t item, int64_t row, int64_t rows, int64_t chunk_sums, const Own& own, const void* bias) const;
  int64_t column(int64_t item) const {
    return item / filter.panels() * group_results() + item % filter.panels() * filter.width;
  }
  int64_t columns(int64_t item) const {
    return std::min(filter.width, group_results() - item % filter.panels() * filter.width);
  }
};

void DenseConvolution::Parts::describe(const NodeSignature& node) {
  form = convolution_form(node);
  transposed = form.kind == ConvolutionForm::Kind::kTransposed;
  blocked = node.attributes.has("b_blocked");
  filter_type = blocked ? node.attributes.get_dtype("b_dtype") : node.inputs[1].dtype;
  if (form.has_bias) bias_type = node.inputs[2].dtype;
  const DType compute = convolution_compute(node.inputs[0].dtype);
  tiles = compute == DType::kBF16 && cpu_level() >= CpuLevel::kAmxBf16;
  filter = {.compute = compute,
            .groups = form.groups,
            .filters = form.group_filters(),
            .channels = form.group_channels(),
            .taps = form.taps(),
            .chunks = form.chunks,
            .width = tile_columns(compute),
            .transposed = transposed};
  staged.from = node.inputs[0].dtype;
  staged.compute = compute;
  staged.channels_last = form.channels_last;
  staged.samples = form.samples;
  staged.blocks = form.groups * form.chunks;
  staged.block_channels = filter.summed();
  for (size_t d = 0; d < 3; ++d) staged.extents[d] = transposed ? form.space[d].output : form.space[d].input;
  reads = form;
  merge_taps();
}

/// Few channels (an image's) are read together with those of the neighbours that the next taps read.
void DenseConvolution::Parts::merge_taps() {
  ConvolutionSpace& last = reads.space[2];
  if (transposed || last.taps == 1 || last.dilation != 1 || staged.blocks != 1 ||
      filter.run() * staged.element() > kMergedBytes)
    return;
  filter.merged = last.taps;
  staged.low = last.low, staged.high = last.high;
  last = {.input = staged.row_pixels(), .output = last.output, .taps = 1, .stride = last.stride};
}

void DenseConvolution::Parts::make_boxes() {
  for (PositionBox& box : position_boxes(reads)) {
    Box made{std::move(box), {}, {}, {}, {}, 0, 0};
    const auto& dims = made.box.dims;
    std::vector<int64_t> taps;
    for (const TapRead& z : dims[0].taps)
      for (const TapRead& y : dims[1].taps)
        for (const TapRead& x : dims[2].taps) {
          const int64_t tap = (z.tap * reads.space[1].taps + y.tap) * reads.space[2].taps + x.tap;
          made.wide.push_back(tap * filter.units() * filter.width);
          made.last.push_back(tap * filter.units() * filter.panel_width(filter.panels() - 1));
          taps.push_back(tap);
        }
    order_taps(made, taps);
    most_taps = std::max(most_taps, made.box.taps());
    boxes.push_back(std::move(made));
  }
}

void DenseConvolution::Parts::size_scratch() {
  block = std::clamp<int64_t>(kTablePlaces / std::max<int64_t>(1, most_taps), 14, 96);
  int64_t sums_rows = kTilePositions;
  if (tiles) {
    const int64_t position_bytes = std::max<int64_t>(1, form.chunks * most_taps * filter.units() * 4);
    block = std::clamp<int64_t>(kGatheredBytes / position_bytes / kAmxRows, 1, 96 / kAmxRows) * kAmxRows;
    gathered_bytes = aligned(block * position_bytes);
    sums_rows = block;
  }
  sums_bytes = aligned(form.chunks * sums_rows * kTileColumns * 4);
  stages_out = !form.channels_last && results() > 1 && reads.samples > 0 &&
               form.result.shape.elements() > form.samples * results();
  if (!blocked) filter_bytes = aligned(filter.bytes());
  if (staged.needed()) input_bytes = aligned(staged.bytes());
  if (stages_out) output_bytes = aligned(form.result.bytes());
  rank_bytes = aligned(most_taps * block * 8) + aligned(block * 8) * 2 + sums_bytes +
               aligned(std::max(staged.pixel_bytes(), filter.units() * 4)) + gathered_bytes;
}

/// Cuts the work to units, so many that threads end together: blocks of positions, and where those are few, items too,
/// unless what follows a block needs whole rows, or gathers it.
void DenseConvolution::Parts::divide() {
  const int64_t rows_of_tiles = tiles ? kAmxRows : kLeastPositions, wanted = threads * (tiles ? 1 : kUnitsOfThread);
  int64_t positions = 0;
  for (const Box& box : boxes) positions += form.samples * box.box.positions();
  const bool few = positions < kFewPositions * threads && items() >= threads;
  const bool whole = tiles || !(epilogue->empty() || in_registers());
  if (threads > 1 && positions > 0 && (few || !whole))
    parts = std::clamp<int64_t>(wanted / ((positions + block - 1) / block), 1, items());
  const int64_t share = (positions * parts + wanted - 1) / wanted;
  step =
      threads == 1 ? block : std::clamp((share + rows_of_tiles - 1) / rows_of_tiles * rows_of_tiles, int64_t{1}, block);
  for (Box& box : boxes) {
    box.blocks = (form.samples * box.box.positions() + step - 1) / step;
    box.units = box.blocks * parts;
  }
}

Unit DenseConvolution::Parts::unit(int64_t index) const {
  const Box* box = boxes.data();
  while (index >= box->units) index -= box++->units;
  // All blocks by some items, then by the next ones: so a thread keeps reading the same panels.
  const int64_t part = index / box->blocks, begin = index % box->blocks * step;
  return {box, begin, std::min(begin + step, form.samples * box->box.positions()), items() * part / parts,
          items() * (part + 1) / parts};
}

Own DenseConvolution::Parts::own(char* scratch, int rank) const {
  char* at = scratch + filter_bytes + input_bytes + output_bytes + rank * rank_bytes;
  const auto take = [&](int64_t bytes) { return std::exchange(at, at + aligned(bytes)); };
  Own own{};
  own.reads = reinterpret_cast<const char**>(take(most_taps * block * 8));
  own.outs = reinterpret_cast<char**>(take(block * 8));
  own.results = reinterpret_cast<int64_t*>(take(block * 8));
  own.sums = reinterpret_cast<float*>(take(sums_bytes));
  own.zeros = take(std::max(staged.pixel_bytes(), filter.units() * 4));
  own.gathered = reinterpret_cast<uint32_t*>(at);
  return own;
}

void DenseConvolution::Parts::fill_table(const Box& box, const PixelView& view, char* out, int64_t begin, int64_t end,
                                         const Own& own) const {
  find_reads(box.box, view, own.zeros, begin, end, block, own.reads);
  find_results(box.box, result_extents(), begin, end, own.results);
  const int64_t bytes = results() * out_size();
  for (int64_t i = 0; i < end - begin; ++i) own.outs[i] = out + own.results[i] * bytes;
}

/// Rows [row, row + rows) of the block by one panel of one group; `fresh`: what they read is in no cache.
void DenseConvolution::Parts::tile(const Box& box, int64_t item, int64_t row, int64_t rows, bool fresh, const Own& own,
                                   const uint32_t* panels, const void* bias) const {
  const int64_t group = item / filter.panels(), panel = item % filter.panels();
  const bool whole = panel + 1 < filter.panels();
  ConvolutionTile tile{.rows = rows,
                       .width = filter.panel_width(panel),
                       .taps = box.box.taps(),
                       .units = filter.units(),
                       .reads = own.reads + row,
                       .reads_stride = block,
                       .reads_offset = 0,
                       .panel = nullptr,
                       .tap_units = whole ? box.wide.data() : box.last.data(),
                       .sums = nullptr,
                       .out = nullptr,
                       .out_offset = column(item) * out_size(),
                       .columns = columns(item),
                       .bias = nullptr,
                       .type = form.result.dtype};
  if (direct()) {
    tile.out = own.outs + row;
    if (bias) tile.bias = static_cast<const float*>(bias) + column(item);
  }
  if (in_registers()) {
    tile.adds = epilogue->simple()->addend >= 0;
    tile.addend = own.addend;
    tile.relu = epilogue->simple()->relu;
  }
  tile.fresh = fresh;
  tile.stream = own.streams;
  constexpr int64_t kChunkSums = kTilePositions * kTileColumns;
  for (int64_t chunk = 0; chunk < form.chunks; ++chunk) {
    tile.reads_offset = (group * form.chunks + chunk) * staged.run() * staged.element();
    tile.panel = panels + (group * form.chunks + chunk) * filter.chunk_units() + filter.panel_units(panel);
    tile.sums = own.sums + chunk * kChunkSums;
    convolution_tile(filter.compute, tile);
  }
  if (!tile.out) finish(item, row, rows, kChunkSums, own, bias);
}

/// Sums of an item's chunks to rows [row, row + rows) of the result.
void DenseConvolution::Parts::finish(int64_t item, int64_t row, int64_t rows, int64_t chunk_sums, const Own& own,
                                     const void* bias) const {
  const char* bias_at =
      bias ? static_cast<const char*>(bias) + column(item) * static_cast<int64_t>(size_of(bias_type)) : nullptr;
  const int64_t width = filter.panel_width(item % filter.panels());
  finish_rows({.sums = own.sums,
               .sum_stride = width,
               .rows = rows,
               .n = columns(item),
               .chunks = form.chunks,
               .chunk_stride = chunk_sums,
               .bias = bias_at,
               .bias_type = bias_type,
               .out_type = form.result.dtype,
               .outs = own.outs + row,
               .out_offset = column(item) * out_size()});
}

/// Items [first, last) of the rows of a block.
void DenseConvolution::Parts::by_vectors(const Box& box, int64_t first, int64_t last, int64_t rows, const Own& own,
                                         const uint32_t* panels, const void* bias) const {
  for (int64_t item = first; item < last; ++item) {
    // Sums that are not stored by the kernel itself wait in memory, a tile at a time.
    const int64_t most = direct() ? rows : tile_positions(filter.compute, filter.panel_width(item % filter.panels()));
    // The first panel reads what is in no cache. Rows of one tap are read once and in order.
    const bool fresh = item == first && box.box.taps() == 1;
    for (int64_t row = 0; row < rows; row += most)
      tile(box, item, row, std::min(most, rows - row), fresh, own, panels, bias);
  }
}

/// What the positions of a block read of a group: rows of a matrix product's first operand, for each chunk.
void DenseConvolution::Parts::gather(const Box& box, int64_t group, int64_t rows, const Own& own) const {
  const auto bytes = static_cast<size_t>(filter.units() * 4);
  char* to = reinterpret_cast<char*>(own.gathered);
  for (int64_t chunk = 0; chunk < form.chunks; ++chunk) {
    const int64_t offset = (group * form.chunks + chunk) * staged.run() * staged.element();
    for (int64_t row = 0; row < rows; ++row)
      for (const int64_t tap : box.gathered) {
        std::memcpy(to, own.reads[tap * block + row] + offset, bytes);
        to += bytes;
      }
  }
}

/// The same as `by_vectors`: each run of taps is a product of the gathered rows by a part of a panel.
void DenseConvolution::Parts::by_tiles(const Box& box, int64_t first, int64_t last, int64_t rows, const Own& own,
                                       const uint32_t* panels, const void* bias) const {
  const int64_t depth = box.box.taps() * filter.units(), chunk_sums = rows * kTileColumns;
  int64_t gathered = -1;
  for (int64_t item = first; item < last; ++item) {
    const int64_t group = item / filter.panels(), panel = item % filter.panels(), width = filter.panel_width(panel);
    if (std::exchange(gathered, group) != group) gather(box, group, rows, own);
    for (int64_t chunk = 0; chunk < form.chunks; ++chunk) {
      const uint32_t* b = panels + (group * form.chunks + chunk) * filter.chunk_units() + filter.panel_units(panel);
      float* sums = own.sums + chunk * chunk_sums;
      if (depth == 0) std::fill_n(sums, rows * width, 0.0f);
      for (const TapRun& run : box.runs)
        amx_product({.m = rows,
                     .n = width,
                     .k = run.count * filter.units(),
                     .a = own.gathered + chunk * rows * depth + run.first * filter.units(),
                     .a_stride = 4 * depth,
                     .b = b + run.tap * filter.units() * width,
                     .b_stride = width,
                     .panel_stride = 0,
                     .c = sums,
                     .c_stride = width,
                     .add = run.first > 0});
    }
    finish(item, 0, rows, chunk_sums, own, bias);
  }
}

void DenseConvolution::Parts::compute(const KernelContext& context, const PixelView& view, const uint32_t* panels,
                                      char* out, int rank, WorkShares& shares) const {
  char* scratch = static_cast<char*>(context.scratch);
  const void* bias = form.has_bias ? context.inputs[2] : nullptr;
  Own own = this->own(scratch, rank);
  if (in_registers() && epilogue->simple()->addend >= 0)
    own.addend = static_cast<const char*>(context.inputs[static_cast<size_t>(epilogue->simple()->addend)]) - out;
  own.streams = streams(out);
  std::memset(own.zeros, 0, static_cast<size_t>(std::max(staged.pixel_bytes(), filter.units() * 4)));
  for (int64_t index; (index = shares.take(rank)) >= 0;) {
    const auto& [box, begin, end, first, last] = unit(index);
    fill_table(*box, view, out, begin, end, own);
    if (tiles)
      by_tiles(*box, first, last, end - begin, own, panels, bias);
    else
      by_vectors(*box, first, last, end - begin, own, panels, bias);
    if (follows_blocks() && !in_registers())
      epilogue->apply(context, scratch + epilogue_at(), rank, begin * results(), end * results());
  }
}

DenseConvolution::DenseConvolution(const NodeSignature& node, int threads) : parts_(std::make_unique<Parts>()) {
  parts_->threads = threads;
  parts_->describe(without_epilogue(node));
  parts_->epilogue.emplace(node, threads);
  parts_->make_boxes();
  parts_->size_scratch();
  parts_->divide();
}
DenseConvolution::~DenseConvolution() = default;

int64_t DenseConvolution::scratch_bytes() const { return parts_->epilogue_at() + parts_->epilogue->scratch_bytes(); }

const BlockedFilter& DenseConvolution::filter() const { return parts_->filter; }

void DenseConvolution::run(const KernelContext& context) const {
  const Parts& p = *parts_;
  if (context.team.size() != p.threads)
    internal_error("DenseConvolution::run", "prepared for another team than " + std::to_string(context.team.size()));
  if (p.form.result.elements() == 0) return;
  char* scratch = static_cast<char*>(context.scratch);
  const void* panels = context.inputs[1];
  if (!p.blocked) {
    context.team.split(p.filter.items(), 1, [&](int64_t begin, int64_t end, int) {
      fill_filter(p.filter, context.inputs[1], p.filter_type, p.filter_type, begin, end, scratch);
    });
    panels = scratch;
  }
  const auto* input = static_cast<const char*>(context.inputs[0]);
  if (p.staged.needed()) {
    char* to = scratch + p.filter_bytes;
    context.team.split(p.staged.rows(), 1, [&](int64_t begin, int64_t end, int) {
      stage_rows(p.staged, context.inputs[0], begin, end, to);
    });
    input = to;
  }
  const PixelView view{
      input, {p.staged.extents[0], p.staged.extents[1], p.staged.row_pixels()}, p.staged.pixel_bytes()};
  char* out = p.stages_out ? scratch + p.filter_bytes + p.input_bytes : static_cast<char*>(context.outputs[0]);
  WorkShares shares(p.units(), p.threads);
  context.team.run(
      [&](int rank) { p.compute(context, view, static_cast<const uint32_t*>(panels), out, rank, shares); });
  if (p.stages_out) {
    const int64_t positions = p.form.result.elements() / (p.form.samples * p.results());
    context.team.split(p.form.samples * p.results(), 1, [&](int64_t begin, int64_t end, int) {
      channels_to_front(p.results(), positions, p.out_size(), out, begin, end, context.outputs[0]);
    });
  }
  if (!p.follows_blocks() && !p.in_registers()) p.epilogue->apply_to_all(context, scratch + p.epilogue_at());
}

}  // namespace ramet::kernel
