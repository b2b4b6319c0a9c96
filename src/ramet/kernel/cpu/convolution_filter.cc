#include "ramet/kernel/cpu/convolution_filter.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/amx_product.h"
#include "ramet/kernel/cpu/convolution_plan.h"
#include "ramet/kernel/cpu/convolution_stage.h"
#include "ramet/kernel/cpu/convolution_tile.h"
#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kFilterBlock = 48;        // filters whose units lie together: a multiple of all tiles' rows
constexpr int64_t kTileFilters = 256;       // the same for tiles
constexpr int64_t kBlockBytes = 384 << 10;  // of copied operands: less than half of a second-level cache
constexpr int64_t kFoldedPositions = 256;   // of a row
constexpr int64_t kMergedChannels = 8;      // so few channels are read together with those of the next taps
constexpr int64_t kBunchBytes = 1 << 20;    // of sums that are made before they become filters

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16; }

/// Rows of the output's positions, and the rows of the input that they read.
struct RowBlock {
  int64_t begin = 0, end = 0;
  std::vector<int64_t> inputs;  ///< rows of the input, each once
  /// For each tap of the first two dimensions, the rows of the block that it reads something for, and which of
  /// `inputs`.
  std::vector<std::vector<int64_t>> a_rows, b_rows;
};

/// What a thread computes of a bunch: items are panels of groups, from the bunch's first on.
struct Share {
  int64_t first_item, last_item, first_filter, last_filter;
};

}  // namespace

struct FilterGradient::Parts {
  ConvolutionForm form;
  DType compute = DType::kF32;
  StagedActivations input, output;
  int threads = 1;
  bool merged = false, compact = false, by_filters = false;
  bool tiles = false;   // products by the tiles of AMX, whose groups of units go on from row to row
  int64_t unit = 1;     // positions of a unit
  int64_t units = 0;    // of a row
  int64_t columns = 0;  // of a group: channels, or channels of merged taps
  int64_t width = 64;   // of a panel
  int64_t bunch = 1;    // groups whose sums are made at once
  int64_t places = 0;   // of a copied row of the input
  std::vector<RowBlock> blocks;
  int64_t input_bytes = 0, output_bytes = 0, sums_bytes = 0, a_bytes = 0, b_bytes = 0, read_bytes = 0;

  const ConvolutionSpace& last() const { return form.space[2]; }
  int64_t taps() const { return form.space[0].taps * form.space[1].taps; }  ///< of the first two dimensions
  int64_t last_taps() const { return merged ? 1 : last().taps; }
  int64_t panels() const { return (columns + width - 1) / width; }
  int64_t panel_width(int64_t panel) const { return std::min(width, padded(columns - panel * width)); }
  int64_t rank_bytes() const { return a_bytes + b_bytes + read_bytes; }
  /// Rows of a block: whole groups of units for tiles, so that blocks do not show in sums.
  int64_t block_rows(int64_t most) const {
    const int64_t step = tiles ? kAmxUnits / std::gcd(units, kAmxUnits) : 1;
    return std::max(step, most / step * step);
  }
  /// Units between filters of a block's first operand: an odd number of lines, off the sets of one another.
  int64_t filter_stride(const RowBlock& block) const {
    return (((block.end - block.begin) * units + 15) / 16 | 1) * 16;
  }
  /// Whether a copied input is the second operand as it is.
  bool reads_in_place(const RowBlock& block) const {
    return taps() * last_taps() == 1 && place_step() == 1 &&
           std::ssize(block.a_rows.front()) == block.end - block.begin;
  }
  /// Positions of the input between two units of one tap.
  int64_t stride() const { return unit * last().stride; }
  int64_t place_step() const { return merged ? 1 : compact ? last().taps : stride(); }
  int64_t place_of_tap(int64_t tap) const { return compact ? tap : tap * last().dilation; }
  /// Where the input is read for a place, from the row's start; it may be padding.
  int64_t position(int64_t place) const {
    if (merged) return place * stride() - last().low;
    if (!compact) return place - last().low;
    return place / last().taps * stride() + place % last().taps * last().dilation - last().low;
  }
  /// Of a bunch, whose group `group` is.
  float* sums_of(float* sums, int64_t tap, int64_t group, int64_t filter) const {
    return sums + ((tap * bunch + group) * form.group_filters() + filter) * padded(columns);
  }

  void fold_positions();
  void describe(const NodeSignature& node);
  void make_blocks();
  void choose_bunch();
  int64_t input_row(int64_t row, int64_t tap) const;
  Share share(int64_t groups, int rank) const;
  void copy_output(const RowBlock& block, int64_t group, const Share& share, const char* output, uint32_t* a) const;
  void copy_input(const RowBlock& block, int64_t group, int64_t panel, const char* input, uint32_t* b) const;
  void products(const RowBlock& block, int64_t group, int64_t panel, const Share& share, const uint32_t* a,
                const uint32_t* b, float* sums) const;
  void transpose_output(const RowBlock& block, int64_t group, const Share& share, const char* output,
                        uint32_t* a) const;
  const uint32_t* read_units(const RowBlock& block, int64_t panel, int64_t tap, int64_t x, const uint32_t* b,
                             uint32_t* read) const;
  void tile_products(const RowBlock& block, int64_t group, int64_t panel, const Share& share, const uint32_t* a,
                     const uint32_t* b, uint32_t* read, float* sums) const;
  void compute_block(const RowBlock& block, int64_t first_group, const Share& share, const char* input,
                     const char* output, float* sums, char* own) const;
  void compute_share(int64_t first_group, int64_t groups, const char* input, const char* output, float* sums, char* own,
                     int rank) const;
  void finish(const float* sums, int64_t first_group, const float* before, float* out, int64_t begin,
              int64_t end) const;
};

/// Where each output reads its own position alone, a sample's few positions count as one row.
void FilterGradient::Parts::fold_positions() {
  const bool pointwise = std::all_of(form.space.begin(), form.space.end(), [](const ConvolutionSpace& space) {
    return space.taps == 1 && space.stride == 1 && space.low == 0 && space.high == 0;
  });
  const int64_t positions = form.output_positions();
  if (!pointwise || positions > kFoldedPositions) return;
  form.space = {};
  form.space[2].input = form.space[2].output = positions;
}

void FilterGradient::Parts::describe(const NodeSignature& node) {
  form = convolution_form(node);
  fold_positions();
  compute = convolution_compute(node.inputs[0].dtype);
  tiles = compute == DType::kBF16 && cpu_level() >= CpuLevel::kAmxBf16;
  for (StagedActivations* staged : {&input, &output}) {
    staged->from = node.inputs[0].dtype;
    staged->compute = compute;
    staged->channels_last = form.channels_last;
    staged->samples = form.samples;
    staged->pairs = false;
  }
  input.block_channels = form.channels, output.block_channels = form.filters;
  for (size_t d = 0; d < 3; ++d) input.extents[d] = form.space[d].input, output.extents[d] = form.space[d].output;
  unit = compute == DType::kBF16 ? 2 : 1;
  units = (last().output + unit - 1) / unit;
  width = tile_columns(compute);
  merged = form.groups == 1 && last().taps > 1 && last().dilation == 1 && form.channels <= kMergedChannels;
  if (merged) input.low = last().low, input.high = last().high;
  columns = form.group_channels() * (merged ? last().taps : 1);
  compact = !merged && last().taps < stride();
  places = merged    ? units
           : compact ? units * last().taps
                     : (units - 1) * stride() + (last().taps - 1) * last().dilation + 1;
}

/// The row of the input that a row of the output reads through a tap of the first two dimensions, or -1: padding.
int64_t FilterGradient::Parts::input_row(int64_t row, int64_t tap) const {
  const auto& [depth, height, unused] = form.space;
  const int64_t y = row % height.output, z = row / height.output % depth.output,
                sample = row / height.output / depth.output;
  const int64_t in_y = y * height.stride + tap % height.taps * height.dilation - height.low,
                in_z = z * depth.stride + tap / height.taps * depth.dilation - depth.low;
  if (in_y < 0 || in_y >= height.input || in_z < 0 || in_z >= depth.input) return -1;
  return (sample * depth.input + in_z) * height.input + in_y;
}

void FilterGradient::Parts::make_blocks() {
  const int64_t rows = form.samples * form.space[0].output * form.space[1].output;
  const int64_t filters = tiles ? std::min(kTileFilters, padded(form.group_filters())) : padded(form.group_filters());
  const int64_t row_bytes = 4 * (units * filters + places * std::min(width, padded(columns)));
  const int64_t most = block_rows(std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, row_bytes)));
  int64_t most_inputs = 0;
  for (int64_t begin = 0; begin < rows; begin += most) {
    RowBlock block{.begin = begin, .end = std::min(rows, begin + most), .inputs = {}, .a_rows = {}, .b_rows = {}};
    block.a_rows.resize(static_cast<size_t>(taps())), block.b_rows.resize(static_cast<size_t>(taps()));
    std::map<int64_t, int64_t> known;
    for (int64_t row = begin; row < block.end; ++row)
      for (int64_t tap = 0; tap < taps(); ++tap) {
        const int64_t from = input_row(row, tap);
        if (from < 0) continue;
        const auto [slot, fresh] = known.emplace(from, std::ssize(block.inputs));
        if (fresh) block.inputs.push_back(from);
        block.a_rows[static_cast<size_t>(tap)].push_back(row - begin);
        block.b_rows[static_cast<size_t>(tap)].push_back(slot->second);
      }
    most_inputs = std::max<int64_t>(most_inputs, std::ssize(block.inputs));
    blocks.push_back(std::move(block));
  }
  choose_bunch();
  if (input.needed()) input_bytes = aligned(input.bytes());
  if (output.needed()) output_bytes = aligned(output.bytes());
  sums_bytes = aligned(taps() * last_taps() * bunch * form.group_filters() * padded(columns) * 4);
  a_bytes = aligned(std::min(most, rows) * units * padded(form.group_filters()) * 4 + 64);
  if (tiles) {
    const int64_t depth = blocks.empty() ? 0 : filter_stride(blocks.front());
    a_bytes = aligned(filters * depth * 4);
    read_bytes = aligned(depth * std::min(width, padded(columns)) * 4);
  }
  b_bytes = aligned(most_inputs * places * std::min(width, padded(columns)) * 4);
}

/// The fewest groups whose sums are worth a round of all threads, and that all threads have the same work of.
void FilterGradient::Parts::choose_bunch() {
  const int64_t of_group = taps() * last_taps() * form.group_filters() * padded(columns) * 4;
  const int64_t step = threads / std::gcd<int64_t>(panels(), threads);
  const int64_t least = (kBunchBytes + of_group - 1) / std::max<int64_t>(1, of_group);
  bunch = std::clamp<int64_t>((std::max<int64_t>(1, least) + step - 1) / step * step, 1, form.groups);
  by_filters = threads > 1 && bunch * panels() % threads != 0 && form.group_filters() >= 2 * kFilterBlock;
}

Share FilterGradient::Parts::share(int64_t groups, int rank) const {
  const int64_t items = groups * panels(), filters = form.group_filters();
  if (!by_filters) return {items * rank / threads, items * (rank + 1) / threads, 0, filters};
  const int64_t blocks_of_16 = (filters + 15) / 16;
  return {0, items, std::min(filters, blocks_of_16 * rank / threads * 16),
          std::min(filters, blocks_of_16 * (rank + 1) / threads * 16)};
}

/// a [block of filters][row][unit][filters of the block].
void FilterGradient::Parts::copy_output(const RowBlock& block, int64_t group, const Share& share, const char* output,
                                        uint32_t* a) const {
  const int64_t element = this->output.element(), pixel = form.filters * element;
  for (int64_t first = share.first_filter; first < share.last_filter; first += kFilterBlock) {
    const int64_t count = std::min(kFilterBlock, share.last_filter - first);
    const int64_t whole = last().output / unit, wide = padded(count);
    for (int64_t row = block.begin; row < block.end; ++row, a += units * wide) {
      const char* from = output + row * last().output * pixel + (group * form.group_filters() + first) * element;
      interleave_rows(compute, from, pixel, unit * pixel, whole, count, a, wide);
      if (whole < units) interleave_rows(compute, from + whole * unit * pixel, 0, 0, 1, count, a + whole * wide, wide);
    }
  }
}

/// b [row of the input][place][columns of the panel].
void FilterGradient::Parts::copy_input(const RowBlock& block, int64_t group, int64_t panel, const char* input,
                                       uint32_t* b) const {
  const int64_t element = this->input.element(), pixel = form.channels * element, wide = panel_width(panel);
  const int64_t first = group * form.group_channels() + panel * width, count = std::min(width, columns - panel * width);
  // Merged taps read whole runs of pixels, whose padding is written out.
  const int64_t pixels = this->input.row_pixels(), run = merged ? last().taps : 1;
  // Distance of the pixels of neighbouring places, or 0 where it varies.
  const int64_t steps = merged || (compact && last().taps == 1) ? stride() : compact ? 0 : 1;
  for (int64_t row : block.inputs) {
    const char* from = input + row * pixels * pixel;
    const auto inside = [&](int64_t at) { return at >= 0 && at + run <= pixels; };
    for (int64_t place = 0; place < places; ++place, b += wide) {
      const int64_t at = position(place) + this->input.low, next = at + last().stride;
      // Places at equal distances whose pixels are all there are copied together.
      if (steps > 0 && inside(at) && inside(next)) {
        const int64_t some = std::min(places - place, (pixels - run - next) / steps + 1);
        interleave_rows(compute, from + at * pixel + first * element, last().stride * pixel, steps * pixel, some, count,
                        b, wide);
        place += some - 1, b += (some - 1) * wide;
        continue;
      }
      // The second half alone may be there: it stands for the first, shifted.
      const char* pixel_at = inside(at) ? from + at * pixel + first * element : nullptr;
      interleave_rows(compute, pixel_at, inside(at) && inside(next) ? last().stride * pixel : 0, 0, 1, count, b, wide);
      if (unit == 2 && !inside(at) && inside(next)) {
        interleave_rows(compute, from + next * pixel + first * element, 0, 0, 1, count, b, wide);
        for (int64_t i = 0; i < wide; ++i) b[i] <<= 16;
      }
    }
  }
}

void FilterGradient::Parts::products(const RowBlock& block, int64_t group, int64_t panel, const Share& share,
                                     const uint32_t* a, const uint32_t* b, float* sums) const {
  const int64_t wide = panel_width(panel), rows = block.end - block.begin;
  const int64_t most = std::min<int64_t>(12, tile_positions(compute, wide));
  StripTile tile{.rows = 0,
                 .width = wide,
                 .strips = 0,
                 .units = units,
                 .a = nullptr,
                 .b = nullptr,
                 .a_rows = nullptr,
                 .b_rows = nullptr,
                 .a_row = 0,
                 .b_row = places * wide,
                 .a_step = 0,
                 .b_step = place_step() * wide,
                 .c = nullptr,
                 .c_stride = padded(columns)};
  for (int64_t first = share.first_filter; first < share.last_filter; first += kFilterBlock) {
    const int64_t count = std::min(kFilterBlock, share.last_filter - first);
    tile.a_step = padded(count), tile.a_row = units * tile.a_step;
    for (int64_t tap = 0; tap < taps(); ++tap) {
      tile.a_rows = block.a_rows[static_cast<size_t>(tap)].data();
      tile.b_rows = block.b_rows[static_cast<size_t>(tap)].data();
      tile.strips = std::ssize(block.a_rows[static_cast<size_t>(tap)]);
      if (tile.strips == 0) continue;
      for (int64_t x = 0; x < last_taps(); ++x) {
        tile.b = b + place_of_tap(x) * wide;
        for (int64_t i = 0; i < count; i += most) {
          tile.rows = std::min(most, count - i);
          tile.a = a + i;
          tile.c = sums_of(sums, tap * last_taps() + x, group, first + i) + panel * width;
          strip_tile(compute, tile);
        }
      }
    }
    a += rows * tile.a_row;
  }
}

/// a [filter][unit], units of all rows of the block one after another: the filters of the share, at most kTileFilters.
void FilterGradient::Parts::transpose_output(const RowBlock& block, int64_t group, const Share& share,
                                             const char* output, uint32_t* a) const {
  const int64_t element = this->output.element(), pixel = form.filters * element, positions = last().output;
  const int64_t depth = (block.end - block.begin) * units, stride = filter_stride(block);
  uint32_t some[16 * 16];
  for (int64_t first = share.first_filter; first < share.last_filter; first += 16, a += 16 * stride) {
    const int64_t count = std::min<int64_t>(16, share.last_filter - first);
    const char* from = output + block.begin * positions * pixel + (group * form.group_filters() + first) * element;
    for (int64_t at = 0; at < depth; at += 16) {
      const int64_t there = std::min<int64_t>(16, depth - at);
      for (int64_t i = 0; i < there;) {  // units of one row of positions at a time
        const int64_t row = (at + i) / units, in_row = (at + i) % units;
        const int64_t run = std::min(there - i, units - in_row), pairs = std::min(run, positions / 2 - in_row);
        const char* pair = from + (row * positions + 2 * in_row) * pixel;
        interleave_rows(compute, pair, pixel, 2 * pixel, pairs, count, some + 16 * i, 16);
        if (pairs < run)  // the last position of an odd number
          interleave_rows(compute, pair + pairs * 2 * pixel, 0, 0, 1, count, some + 16 * (i + pairs), 16);
        i += run;
      }
      transpose_units(some, 16, there, a + at, stride);
    }
  }
}

/// The second operand of a tap: for each unit of the block's rows what the tap reads, zeros where it reads padding.
const uint32_t* FilterGradient::Parts::read_units(const RowBlock& block, int64_t panel, int64_t tap, int64_t x,
                                                  const uint32_t* b, uint32_t* read) const {
  if (reads_in_place(block)) return b;
  const int64_t wide = panel_width(panel), step = place_step() * wide;
  const auto& rows = block.a_rows[static_cast<size_t>(tap)];
  const auto& inputs = block.b_rows[static_cast<size_t>(tap)];
  uint32_t* to = read;
  size_t next = 0;
  for (int64_t row = 0; row < block.end - block.begin; ++row, to += units * wide) {
    if (next == rows.size() || rows[next] != row) {
      std::memset(to, 0, static_cast<size_t>(units * wide) * 4);
      continue;
    }
    const uint32_t* from = b + (inputs[next++] * places + place_of_tap(x)) * wide;
    for (int64_t unit = 0; unit < units; ++unit)
      std::memcpy(to + unit * wide, from + unit * step, static_cast<size_t>(wide) * 4);
  }
  return read;
}

void FilterGradient::Parts::tile_products(const RowBlock& block, int64_t group, int64_t panel, const Share& share,
                                          const uint32_t* a, const uint32_t* b, uint32_t* read, float* sums) const {
  const int64_t wide = panel_width(panel);
  for (int64_t tap = 0; tap < taps(); ++tap) {
    if (block.a_rows[static_cast<size_t>(tap)].empty()) continue;
    for (int64_t x = 0; x < last_taps(); ++x)
      amx_product({.m = share.last_filter - share.first_filter,
                   .n = wide,
                   .k = (block.end - block.begin) * units,
                   .a = a,
                   .a_stride = 4 * filter_stride(block),
                   .b = read_units(block, panel, tap, x, b, read),
                   .b_stride = wide,
                   .panel_stride = 0,
                   .c = sums_of(sums, tap * last_taps() + x, group, share.first_filter) + panel * width,
                   .c_stride = padded(columns),
                   .add = true});
  }
}

void FilterGradient::Parts::compute_block(const RowBlock& block, int64_t first_group, const Share& share,
                                          const char* input, const char* output, float* sums, char* own) const {
  auto* a = reinterpret_cast<uint32_t*>(own);
  auto* b = reinterpret_cast<uint32_t*>(own + a_bytes);
  auto* read = reinterpret_cast<uint32_t*>(own + a_bytes + b_bytes);
  int64_t copied = -1;
  for (int64_t item = share.first_item; item < share.last_item; ++item) {
    const int64_t group = item / panels(), panel = item % panels(), of_all = first_group + group;
    if (std::exchange(copied, group) != group)
      tiles ? transpose_output(block, of_all, share, output, a) : copy_output(block, of_all, share, output, a);
    copy_input(block, of_all, panel, input, b);
    tiles ? tile_products(block, group, panel, share, a, b, read, sums)
          : products(block, group, panel, share, a, b, sums);
  }
}

void FilterGradient::Parts::compute_share(int64_t first_group, int64_t groups, const char* input, const char* output,
                                          float* sums, char* own, int rank) const {
  const Share share = this->share(groups, rank);
  for (int64_t tap = 0; tap < taps() * last_taps(); ++tap)
    for (int64_t item = share.first_item; item < share.last_item; ++item)
      for (int64_t filter = share.first_filter; filter < share.last_filter; ++filter)
        std::memset(sums_of(sums, tap, item / panels(), filter) + item % panels() * width, 0,
                    static_cast<size_t>(panel_width(item % panels())) * 4);
  const int64_t step = tiles ? kTileFilters : form.group_filters();
  for (const RowBlock& block : blocks)
    for (int64_t first = share.first_filter; first < share.last_filter; first += step) {
      const Share some{share.first_item, share.last_item, first, std::min(share.last_filter, first + step)};
      compute_block(block, first_group, some, input, output, sums, own);
    }
}

/// Filters [begin, end) of a bunch: [filter][channel][tap], with what was there before.
void FilterGradient::Parts::finish(const float* sums, int64_t first_group, const float* before, float* out,
                                   int64_t begin, int64_t end) const {
  const int64_t channels = form.group_channels(), all = form.taps();
  const int64_t of_tap = bunch * form.group_filters() * padded(columns), first = first_group * form.group_filters();
  for (int64_t filter = begin; filter < end; ++filter) {
    const float* from = sums + filter * padded(columns);
    for (int64_t tap = 0; tap < all; ++tap) {
      const float* row =
          merged ? from + tap / last().taps * of_tap + tap % last().taps * channels : from + tap * of_tap;
      const int64_t to = (first + filter) * channels * all + tap;
      if (before)
        for (int64_t c = 0; c < channels; ++c) out[to + c * all] = before[to + c * all] + row[c];
      else
        for (int64_t c = 0; c < channels; ++c) out[to + c * all] = row[c];
    }
  }
}

FilterGradient::FilterGradient(const NodeSignature& node, int threads) : parts_(std::make_unique<Parts>()) {
  parts_->threads = threads;
  parts_->describe(node);
  parts_->make_blocks();
}
FilterGradient::~FilterGradient() = default;

int64_t FilterGradient::scratch_bytes() const {
  return parts_->input_bytes + parts_->output_bytes + parts_->sums_bytes + parts_->threads * parts_->rank_bytes();
}

void FilterGradient::run(const KernelContext& context) const {
  const Parts& p = *parts_;
  if (context.team.size() != p.threads)
    internal_error("FilterGradient::run", "prepared for another team than " + std::to_string(context.team.size()));
  char* at = static_cast<char*>(context.scratch);
  const auto staged = [&](const StagedActivations& operand, int input, int64_t bytes) {
    if (!operand.needed()) return static_cast<const char*>(context.inputs[static_cast<size_t>(input)]);
    char* to = at;
    context.team.split(operand.rows(), 1, [&](int64_t begin, int64_t end, int) {
      stage_rows(operand, context.inputs[static_cast<size_t>(input)], begin, end, to);
    });
    at += bytes;
    return static_cast<const char*>(to);
  };
  const char* input = staged(p.input, 0, p.input_bytes);
  const char* output = staged(p.output, 1, p.output_bytes);
  auto* sums = reinterpret_cast<float*>(at);
  const auto* before = p.form.accumulate ? static_cast<const float*>(context.inputs[2]) : nullptr;
  for (int64_t first = 0; first < p.form.groups; first += p.bunch) {
    const int64_t groups = std::min(p.bunch, p.form.groups - first);
    context.team.run([&](int rank) {
      p.compute_share(first, groups, input, output, sums, at + p.sums_bytes + rank * p.rank_bytes(), rank);
    });
    context.team.split(groups * p.form.group_filters(), 1, [&](int64_t begin, int64_t end, int) {
      p.finish(sums, first, before, static_cast<float*>(context.outputs[0]), begin, end);
    });
  }
}

}  // namespace ramet::kernel
