#include "ramet/kernel/cpu/depthwise.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/convolution_plan.h"
#include "ramet/kernel/cpu/convolution_stage.h"
#include "ramet/kernel/cpu/epilogue.h"
#include "ramet/ops/epilogue.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kAlign = 64;
int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// One class of positions, and where its part of the filter begins.
struct Box {
  PositionBox box;
  int64_t first_tap = 0;
  int64_t rows() const { return static_cast<int64_t>(box.dims[0].taps.size() * box.dims[1].taps.size()); }
  int64_t taps() const { return static_cast<int64_t>(box.dims[2].taps.size()); }
  int64_t gap() const {
    const auto& taps = box.dims[2].taps;
    return taps.size() < 2 ? 1 : taps[1].offset - taps[0].offset;
  }
  /// Places of a row that `count` positions read.
  int64_t places(int64_t count) const {
    return taps() == 0 ? 0 : (count - 1) * box.dims[2].read_step + (taps() - 1) * gap() + 1;
  }
};

/// Sets each of a row's places to where its pixel is, or to zeros.
void find_row(const char* row, int64_t first, int64_t count, int64_t width, int64_t pixel_bytes, const char* zeros,
              const char** out) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t x = first + i;
    out[i] = row && x >= 0 && x < width ? row + x * pixel_bytes : zeros;
  }
}

}  // namespace

struct DepthwiseConvolution::Parts {
  ConvolutionForm form;
  StagedActivations input, output;  // the second for the filter's gradient alone
  DType filter_type = DType::kF32, bias_type = DType::kF32;
  int threads = 1;
  std::vector<Box> boxes;
  std::optional<Epilogue> epilogue;
  bool stages_out = false;
  int64_t channels = 0, most_places = 0;
  int64_t input_bytes = 0, output_bytes = 0, filter_bytes = 0, rank_bytes = 0;

  bool is_gradient() const { return form.kind == ConvolutionForm::Kind::kFilterGradient; }
  bool transposed() const { return form.kind == ConvolutionForm::Kind::kTransposed; }
  std::array<int64_t, 3> extents(int64_t ConvolutionSpace::* side) const {
    return {form.space[0].*side, form.space[1].*side, form.space[2].*side};
  }
  int64_t out_size() const { return static_cast<int64_t>(size_of(form.result.dtype)); }
  int64_t epilogue_at() const { return input_bytes + output_bytes + filter_bytes + threads * rank_bytes; }
  /// Whether the rows of positions of a thread are rows of the result: the epilogue follows each row.
  bool follows_rows() const { return boxes.size() == 1 && !stages_out; }

  void describe(const NodeSignature& node);
  void size_scratch();
  void arrange_filter(const void* filter, const void* bias, float* taps, float* wide_bias) const;
  void rows(const KernelContext& context, const Box& box, const char* input, const float* filter, const float* bias,
            char* out, char* own, int rank) const;
  void gradients(const char* input, const char* output, float* totals, char* own, int rank) const;
  void finish(const float* totals, const float* before, float* out, int64_t begin, int64_t end) const;
};

void DepthwiseConvolution::Parts::describe(const NodeSignature& node) {
  form = convolution_form(node);
  channels = form.channels;
  const auto stage = [&](StagedActivations& staged, const std::array<int64_t, 3>& dims) {
    staged.from = node.inputs[0].dtype;
    // Staging writes f32 or bf16; tiles read f16 as well where it is in place.
    staged.compute = form.channels_last || staged.from == DType::kBF16 ? staged.from : DType::kF32;
    staged.channels_last = form.channels_last;
    staged.samples = form.samples;
    staged.block_channels = channels;
    staged.extents = dims;
    staged.pairs = false;
  };
  stage(input, extents(transposed() ? &ConvolutionSpace::output : &ConvolutionSpace::input));
  stage(output, extents(&ConvolutionSpace::output));
  filter_type = is_gradient() ? DType::kF32 : node.inputs[1].dtype;
  if (form.has_bias) bias_type = node.inputs[2].dtype;
  int64_t taps = 0;
  for (PositionBox& box : position_boxes(form)) {
    boxes.push_back({std::move(box), taps});
    taps += boxes.back().box.taps();
    most_places = std::max(most_places, is_gradient() ? boxes.back().places(form.space[2].output)
                                                      : boxes.back().rows() * boxes.back().places(kDepthwiseTile));
  }
}

void DepthwiseConvolution::Parts::size_scratch() {
  stages_out = !is_gradient() && !form.channels_last && channels > 1;
  if (input.needed()) input_bytes = aligned(input.bytes());
  if (is_gradient() ? output.needed() : stages_out)
    output_bytes = aligned(is_gradient() ? output.bytes() : form.result.bytes());
  filter_bytes = aligned(form.taps() * channels * 4) * 2 + aligned(channels * 4);
  rank_bytes = aligned(most_places * 8) + aligned(channels * 4) * 2;
}

/// The filter as [taps in the order of the boxes][channels] of f32, and the bias.
void DepthwiseConvolution::Parts::arrange_filter(const void* filter, const void* bias, float* taps,
                                                 float* wide_bias) const {
  float* natural = taps + aligned(form.taps() * channels * 4) / 4;
  copy_block(filter, filter_type, form.taps(), true, form.taps(), channels, DType::kF32, channels, natural);
  if (bias) copy_block(bias, bias_type, channels, false, 1, channels, DType::kF32, channels, wide_bias);
  for (const Box& box : boxes)
    for (const TapRead& z : box.box.dims[0].taps)
      for (const TapRead& y : box.box.dims[1].taps)
        for (const TapRead& x : box.box.dims[2].taps) {
          const int64_t tap = (z.tap * form.space[1].taps + y.tap) * form.space[2].taps + x.tap;
          std::memcpy(taps, natural + tap * channels, static_cast<size_t>(channels) * 4);
          taps += channels;
        }
}

/// A thread's rows of positions of a box.
void DepthwiseConvolution::Parts::rows(const KernelContext& context, const Box& box, const char* input,
                                       const float* filter, const float* bias, char* out, char* own, int rank) const {
  auto* table = reinterpret_cast<const char**>(own);
  char* zeros = own + aligned(most_places * 8);
  char* unread = zeros + aligned(channels * 4);
  std::memset(zeros, 0, static_cast<size_t>(channels) * 4);
  const auto& [dz, dy, dx] = box.box.dims;
  const auto to = extents(transposed() ? &ConvolutionSpace::input : &ConvolutionSpace::output);
  const auto& from = this->input.extents;
  const int64_t all = form.samples * dz.count * dy.count, pixel = this->input.pixel_bytes();
  const int64_t places = box.places(kDepthwiseTile);
  char* outs[kDepthwiseTile];
  DepthwiseTile tile{.count = kDepthwiseTile,
                     .rows = box.rows(),
                     .taps = box.taps(),
                     .step = dx.read_step,
                     .gap = box.gap(),
                     .channels = channels,
                     .reads_stride = places,
                     .reads = table,
                     .filter = filter + box.first_tap * channels,
                     .bias = bias,
                     .out = outs,
                     .in_type = this->input.compute,
                     .out_type = form.result.dtype};
  for (int64_t row = all * rank / threads; row < all * (rank + 1) / threads; ++row) {
    const int64_t y = row % dy.count, z = row / dy.count % dz.count, sample = row / dy.count / dz.count;
    const int64_t to_row = ((sample * to[0] + dz.first + z * dz.step) * to[1] + dy.first + y * dy.step) * to[2];
    for (int64_t x = 0; x < dx.count; x += kDepthwiseTile) {
      const char** next = table;
      for (const TapRead& tap_z : dz.taps)
        for (const TapRead& tap_y : dy.taps) {
          const int64_t at_z = z * dz.read_step + tap_z.offset, at_y = y * dy.read_step + tap_y.offset;
          const bool inside = at_z >= 0 && at_z < from[0] && at_y >= 0 && at_y < from[1];
          const char* line = inside ? input + ((sample * from[0] + at_z) * from[1] + at_y) * from[2] * pixel : nullptr;
          if (places > 0) find_row(line, x * dx.read_step + dx.taps[0].offset, places, from[2], pixel, zeros, next);
          next += places;
        }
      for (int64_t i = 0; i < kDepthwiseTile; ++i)
        outs[i] = x + i < dx.count ? out + (to_row + dx.first + (x + i) * dx.step) * channels * out_size() : unread;
      depthwise_tile(tile);
    }
    if (follows_rows())
      epilogue->apply(context, static_cast<char*>(context.scratch) + epilogue_at(), rank, to_row * channels,
                      (to_row + dx.count) * channels);
  }
}

/// A thread's channels of the filter's gradient, as [taps][channels].
void DepthwiseConvolution::Parts::gradients(const char* input, const char* output, float* totals, char* own,
                                            int rank) const {
  auto* table = reinterpret_cast<const char**>(own);
  char* zeros = own + aligned(most_places * 8);
  std::memset(zeros, 0, static_cast<size_t>(channels) * 4);
  const Box& box = boxes[0];
  const auto& [dz, dy, dx] = box.box.dims;
  const auto &from = this->input.extents, &to = this->output.extents;
  const int64_t pixel = this->input.pixel_bytes(), lanes = (channels + 15) / 16;
  DepthwiseRow row{.positions = to[2],
                   .taps = box.taps(),
                   .step = dx.read_step,
                   .gap = box.gap(),
                   .channels = channels,
                   .begin = std::min(channels, lanes * rank / threads * 16),
                   .end = std::min(channels, lanes * (rank + 1) / threads * 16),
                   .reads = table,
                   .gradient = nullptr,
                   .total = nullptr,
                   .type = this->input.compute};
  if (row.begin == row.end) return;
  for (int64_t tap = 0; tap < form.taps(); ++tap)
    std::memset(totals + tap * channels + row.begin, 0, static_cast<size_t>(row.end - row.begin) * 4);
  for (int64_t line = 0; line < form.samples * to[0] * to[1]; ++line) {
    const int64_t y = line % to[1], z = line / to[1] % to[0], sample = line / to[1] / to[0];
    row.gradient = output + line * to[2] * this->output.pixel_bytes();
    row.total = totals;
    for (const TapRead& tap_z : dz.taps)
      for (const TapRead& tap_y : dy.taps) {
        const int64_t at_z = z * dz.read_step + tap_z.offset, at_y = y * dy.read_step + tap_y.offset;
        if (at_z >= 0 && at_z < from[0] && at_y >= 0 && at_y < from[1]) {
          find_row(input + ((sample * from[0] + at_z) * from[1] + at_y) * from[2] * pixel, dx.taps[0].offset,
                   box.places(to[2]), from[2], pixel, zeros, table);
          depthwise_row(row);
        }
        row.total += box.taps() * channels;
      }
  }
}

void DepthwiseConvolution::Parts::finish(const float* totals, const float* before, float* out, int64_t begin,
                                         int64_t end) const {
  const int64_t taps = form.taps();
  for (int64_t channel = begin; channel < end; ++channel)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const float sum = totals[tap * channels + channel];
      out[channel * taps + tap] = before ? before[channel * taps + tap] + sum : sum;
    }
}

DepthwiseConvolution::DepthwiseConvolution(const NodeSignature& node, int threads) : parts_(std::make_unique<Parts>()) {
  parts_->threads = threads;
  parts_->describe(without_epilogue(node));
  parts_->epilogue.emplace(node, threads);
  parts_->size_scratch();
}
DepthwiseConvolution::~DepthwiseConvolution() = default;

int64_t DepthwiseConvolution::scratch_bytes() const {
  return parts_->epilogue_at() + parts_->epilogue->scratch_bytes();
}

void DepthwiseConvolution::run(const KernelContext& context) const {
  const Parts& p = *parts_;
  if (context.team.size() != p.threads)
    internal_error("DepthwiseConvolution::run",
                   "prepared for another team than " + std::to_string(context.team.size()));
  if (p.form.result.elements() == 0) return;
  char* at = static_cast<char*>(context.scratch);
  auto* filter = reinterpret_cast<float*>(at);
  float* bias = filter + 2 * aligned(p.form.taps() * p.channels * 4) / 4;
  char* ranks = at + p.filter_bytes;
  at = ranks + p.threads * p.rank_bytes;
  const auto staged = [&](const StagedActivations& operand, size_t input, int64_t bytes) {
    if (!operand.needed()) return static_cast<const char*>(context.inputs[input]);
    char* to = std::exchange(at, at + bytes);
    context.team.split(operand.rows(), 1, [&](int64_t begin, int64_t end, int) {
      stage_rows(operand, context.inputs[input], begin, end, to);
    });
    return static_cast<const char*>(to);
  };
  const char* input = staged(p.input, 0, p.input_bytes);
  if (p.is_gradient()) {
    const char* output = staged(p.output, 1, p.output_bytes);
    context.team.run([&](int rank) { p.gradients(input, output, filter, ranks + rank * p.rank_bytes, rank); });
    const auto* before = p.form.accumulate ? static_cast<const float*>(context.inputs[2]) : nullptr;
    return context.team.split(p.channels, 16, [&](int64_t begin, int64_t end, int) {
      p.finish(filter, before, static_cast<float*>(context.outputs[0]), begin, end);
    });
  }
  p.arrange_filter(context.inputs[1], p.form.has_bias ? context.inputs[2] : nullptr, filter, bias);
  char* out = p.stages_out ? at : static_cast<char*>(context.outputs[0]);
  context.team.run([&](int rank) {
    for (const Box& box : p.boxes)
      p.rows(context, box, input, filter, p.form.has_bias ? bias : nullptr, out, ranks + rank * p.rank_bytes, rank);
  });
  if (p.stages_out) {
    const int64_t positions = p.form.result.elements() / (p.form.samples * p.channels);
    context.team.split(p.form.samples * p.channels, 1, [&](int64_t begin, int64_t end, int) {
      channels_to_front(p.channels, positions, p.out_size(), out, begin, end, context.outputs[0]);
    });
  }
  if (!p.follows_rows()) p.epilogue->apply_to_all(context, static_cast<char*>(context.scratch) + p.epilogue_at());
}

}  // namespace ramet::kernel
