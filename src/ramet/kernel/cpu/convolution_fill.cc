#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/convolution_fill.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <sstream>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/convolution_plan.h"
#include "ramet/kernel/cpu/cpu_features.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kTileColumns = 64, kTemporary = 16384;  // floats

/// One item, a panel of a chunk of a group: copies some of the summed channels to f32, then gathers columns.
template <typename T>
class PanelFill {
 public:
  PanelFill(const BlockedFilter& blocked, const T* source, int64_t item, uint32_t* out)
      : b_(blocked),
        panel_(item % blocked.panels()),
        columns_(std::min(blocked.width, blocked.columns() - panel_ * blocked.width)) {
    const int64_t chunk = item / b_.panels() % b_.chunks, group = item / b_.panels() / b_.chunks;
    out_ = out + (group * b_.chunks + chunk) * b_.chunk_units() + b_.panel_units(panel_);
    const int64_t filter = group * b_.filters + (b_.transposed ? chunk * b_.summed() : panel_ * b_.width);
    const int64_t channel = b_.transposed ? panel_ * b_.width : chunk * b_.summed();
    source_ = source + (filter * b_.channels + channel) * b_.taps;
  }

  void run() {
    int64_t depth = std::max<int64_t>(2, kTemporary / (kTileColumns * b_.taps) / 2 * 2);
    // A column's taps alone may fill the copy: then tap by tap.
    const bool whole = 2 * kTileColumns * b_.taps <= kTemporary;
    if (!whole) depth = 2;
    for (int64_t k = 0; k < b_.run(); k += depth)
      for (int64_t tap = 0; tap < b_.taps; tap += whole ? b_.taps : 1) fill(k, depth, tap, whole ? b_.taps : 1);
  }

 private:
  /// Summed channels [k, k + depth), taps [tap, tap + taps).
  void fill(int64_t k, int64_t depth, int64_t tap, int64_t taps) {
    const int64_t count = std::clamp<int64_t>(b_.summed() - k, 0, depth);
    // copy [rows][row_channels][taps], where rows are columns, or summed channels of a transposed filter.
    const int64_t rows = b_.transposed ? count : columns_, in_row = b_.transposed ? columns_ : count;
    const T* from = source_ + (b_.transposed ? k * b_.channels : k) * b_.taps + tap;
    for (int64_t row = 0; row < rows; ++row, from += b_.channels * b_.taps) {
      if (taps == b_.taps) {
        ConvertRow(from, in_row * taps, copy_ + row * in_row * taps);
        continue;
      }
      for (int64_t i = 0; i < in_row; ++i) ConvertRow(from + i * b_.taps, 1, copy_ + row * in_row + i);
    }
    const int64_t column_step = b_.transposed ? taps : in_row * taps, k_step = b_.transposed ? in_row * taps : taps;
    for (int64_t t = 0; t < taps; ++t)
      for (int64_t i = 0; i < depth && k + i < b_.run(); i += pairs() ? 2 : 1) {
        const int64_t all = tap + t, unit = (all % b_.merged * b_.run() + k + i) / (pairs() ? 2 : 1);
        const int64_t width = b_.panel_width(panel_);
        gather(copy_ + t + i * k_step, column_step, k_step, count - i, width,
               out_ + (all / b_.merged * b_.units() + unit) * width);
      }
  }

  bool pairs() const { return b_.compute == DType::kBF16; }

  /// One row of units: element j * column_step (and its neighbour k_step behind, if `left` > 1) of `from`.
  void gather(const float* from, int64_t column_step, int64_t k_step, int64_t left, int64_t width, uint32_t* to) {
    const F32 df;
    const U32 du;
    const hn::RebindToSigned<F32> di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t j = 0; j < width; j += lanes) {
      if (j + lanes > columns_ || left < 1) {
        for (int64_t i = j; i < j + lanes; ++i) {
          const auto value = [&](int64_t at) {
            return at < left && i < columns_ ? from[i * column_step + at * k_step] : 0.0f;
          };
          if (pairs())
            to[i] = f32_to_bf16(value(0)) | static_cast<uint32_t>(f32_to_bf16(value(1))) << 16;
          else
            to[i] = std::bit_cast<uint32_t>(value(0));
        }
        continue;
      }
      const auto index = hn::Mul(hn::Iota(di, static_cast<int32_t>(j)), hn::Set(di, static_cast<int32_t>(column_step)));
      auto value = hn::BitCast(du, hn::GatherIndex(df, from, index));
      if (pairs()) {
        value = hn::ShiftRight<16>(RoundToBf16(du, hn::BitCast(df, value)));
        if (left > 1) value = hn::Or(value, UpperBf16<float>(hn::GatherIndex(df, from + k_step, index)));
      }
      hn::StoreU(value, du, to + j);
    }
  }

  const BlockedFilter& b_;
  const int64_t panel_, columns_;
  const T* source_;
  uint32_t* out_;
  HWY_ALIGN float copy_[kTemporary];
};

void FillFilter(const BlockedFilter& blocked, const void* source, DType type, DType logical, int64_t begin, int64_t end,
                void* out) {
  const auto fill = [&](auto* typed) {
    for (int64_t item = begin; item < end; ++item)
      PanelFill(blocked, typed, item, static_cast<uint32_t*>(out)).run();
  };
  if (type == DType::kF32 && logical == DType::kBF16) return fill(static_cast<const F32AsBf16*>(source));
  if (type == DType::kF32 && logical == DType::kF16) return fill(static_cast<const F32AsF16*>(source));
  WithStorage(type, source, fill);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(FillFilter);

void fill_filter(const BlockedFilter& blocked, const void* source, DType type, DType logical, int64_t begin,
                 int64_t end, void* out) {
  HWY_DYNAMIC_DISPATCH(FillFilter)(blocked, source, type, logical, begin, end, out);
}

std::string BlockedFilter::format() const {
  std::string text = "filter " + std::string(ramet::name_of(compute));
  for (int64_t number : {groups, filters, channels, taps, chunks, width, merged}) text += " " + std::to_string(number);
  return text + (transposed ? " transposed" : " plain");
}

std::optional<BlockedFilter> BlockedFilter::parse(const std::string& format) {
  std::istringstream text(format);
  std::string kind, dtype, order;
  BlockedFilter f;
  text >> kind >> dtype;
  for (int64_t* number : {&f.groups, &f.filters, &f.channels, &f.taps, &f.chunks, &f.width, &f.merged}) {
    text >> *number;
    if (!text || *number < 1) return std::nullopt;
  }
  text >> order;
  f.compute = dtype == "bf16" ? DType::kBF16 : DType::kF32;
  f.transposed = order == "transposed";
  const int64_t summed = f.transposed ? f.filters : f.channels;
  const bool sane = f.width % 16 == 0 && f.width <= 64 && f.taps % f.merged == 0 && summed % f.chunks == 0;
  if (!text || !sane || f.format() != format) return std::nullopt;
  return f;
}

}  // namespace ramet::kernel
#endif
