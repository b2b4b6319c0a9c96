// Code that the two directions of attention share. Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_ATTENTION_INL_H_
#undef RAMET_ATTENTION_INL_H_
#else
#define RAMET_ATTENTION_INL_H_
#endif

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "ramet/kernel/cpu/attention_layout.h"
#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/philox-inl.h"
#include "ramet/kernel/cpu/tiled_attention.h"
#include "ramet/ops/random_bits.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

/// Sixteen columns of f32 at a time, in as many vectors as they need, so that sums over columns are the same sixteen
/// chains on every processor.
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename C>
HWY_INLINE void Product(TileProductFunction bf16_product, const TileProduct& product) {
  if constexpr (sizeof(C) == 2)
    bf16_product(product);
  else
    tile_product_f32(product);
}

/// Values as storage of the compute type: bf16 in the upper half of its lane, rounded to nearest even. A quiet NaN,
/// which is all that arithmetic makes, stays one; rounding would carry the 7fffffff of a tensor core into its sign.
template <typename C>
HWY_INLINE hn::Vec<U32> Rounded(hn::Vec<F32> value) {
  const U32 du;
  const auto bits = hn::BitCast(du, value);
  if constexpr (sizeof(C) == 4) return bits;
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), bits, rounded);
}

/// Stores what `Rounded` made as elements.
template <typename C>
HWY_INLINE void StoreRounded(hn::Vec<U32> rounded, C* to) {
  const U32 du;
  if constexpr (sizeof(C) == 4) {
    hn::StoreU(rounded, du, reinterpret_cast<uint32_t*>(to));
  } else {
    const hn::Rebind<uint16_t, U32> dh;
    const hn::RebindToSigned<U32> di;
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, hn::ShiftRight<16>(rounded))), dh, &to->bits);
  }
}

/// Rows of a head as operand a: [rows][depth_stride] units, zero behind the head size.
template <typename T, typename C>
void HeadRows(const AttentionLayout& layout, const T* source, int64_t stride, int64_t rows, uint32_t* out) {
  for (int64_t i = 0; i < rows; ++i, out += layout.depth_stride()) {
    if (layout.depth_stride() * layout.ratio != layout.head_size)
      std::memset(out, 0, static_cast<size_t>(layout.depth_stride()) * 4);
    ConvertRow(source + i * stride, layout.head_size, reinterpret_cast<C*>(out));
  }
}

/// A head as operand b contracted over head size: panels of 64 positions [depth_stride][64].
template <typename T, typename C>
void HeadByDepth(const AttentionLayout& layout, const T* source, int64_t stride, uint32_t* out) {
  HWY_ALIGN uint32_t tile[kWidth * kUnits];
  const int64_t group = kUnits * layout.ratio, taken = layout.taken(layout.sequence);
  for (int64_t position = 0; position < taken; position += kPanel)
    for (int64_t unit = 0; unit < layout.depth_stride(); unit += kUnits, out += kUnits * kPanel) {
      const int64_t d = unit / kUnits * group, columns = std::min(kPanel, taken - position);
      UnitsFromColumns<T, C>(source + position * stride + d, stride, layout.head_size - d,
                             std::max<int64_t>(0, layout.sequence - position), columns, tile);
      Transpose32(tile, kUnits, out, kPanel, columns, kUnits);
    }
}

/// A head as operand b contracted over positions: panels of 64 of head size [position units][64].
template <typename T, typename C>
void HeadByPosition(const AttentionLayout& layout, const T* source, int64_t stride, uint32_t* out) {
  const int64_t units = layout.taken(layout.sequence) / layout.ratio;
  for (int64_t panel = 0; panel < layout.panels(); ++panel, out += layout.position_units() * kPanel)
    for (int64_t unit = 0; unit < units; unit += kUnits) {
      const int64_t position = unit * layout.ratio;
      UnitsFromRows<T, sizeof(C) == 2>(source + position * stride + panel * kPanel, stride, layout.sequence - position,
                                       layout.head_size - panel * kPanel, kPanel, out + unit * kPanel);
    }
}

/// Positions [begin, begin + length) that see each other: all, or a run of one number.
struct SequenceRun {
  int64_t begin, length;
};

/// Calls `run` for each run of a sample and `nothing` for each stretch of padding between.
template <typename Run, typename Nothing>
void ForEachRun(const AttentionForm& form, const void* mask, int64_t sample, const Run& run, const Nothing& nothing) {
  const auto* numbers = static_cast<const int32_t*>(mask) + sample * form.sequence;
  for (int64_t begin = 0; begin < form.sequence;) {
    int64_t end = begin + 1;
    while (end < form.sequence && numbers[end] == numbers[begin]) ++end;
    if (numbers[begin] != 0)
      run(SequenceRun{begin, end - begin});
    else
      nothing(SequenceRun{begin, end - begin});
    begin = end;
  }
}

/// The term added to the scores of each key: 0, or -infinity for a hidden key and for places behind the last key. All
/// keys of a run are visible.
inline void KeyBias(const AttentionForm& form, const void* mask, int64_t sample, int64_t length, int64_t positions,
                    float* bias) {
  if (form.segments || !form.key_mask) mask = nullptr;
  for (int64_t k = 0; k < positions; ++k) {
    bool visible = k < length;
    if (visible && mask) {
      const int64_t at = sample * form.keys + k;
      visible = form.mask_dtype == DType::kBool ? static_cast<const uint8_t*>(mask)[at] != 0
                                                : static_cast<const int32_t*>(mask)[at] != 0;
    }
    bias[k] = visible ? 0.0f : -kInfinity;
  }
}

/// Where a row of scores stands: a query of a head, and the run that it lies in.
struct ScoreRow {
  int64_t sample, head;   ///< head of the sample
  int64_t query;          ///< in the row of the batch
  int64_t begin, length;  ///< of the run's keys
  int64_t own;            ///< position of the query among them
};

/// What is added to the scores of a row, and which are hidden.
class ScoreTerms {
 public:
  ScoreTerms(const AttentionForm& form, const AttentionOperands& operands) : form_(form), operands_(operands) {}

  /// The terms of keys [key, key + columns) of the run; `bias` are those of each key.
  void row(const ScoreRow& at, const float* bias, int64_t key, int64_t columns, float* terms) const {
    std::memcpy(terms, bias + key, static_cast<size_t>(columns) * sizeof(float));
    const int64_t count = std::min(columns, at.length - key);
    if (operands_.bias) {
      const int64_t first = form_.bias_strides.at(at.sample, at.head, at.query, at.begin + key);
      // Rows are far apart, often on pages of their own, where the processor does not look ahead by itself.
      const auto size = static_cast<int64_t>(size_of(form_.bias_dtype));
      const auto* ahead =
          static_cast<const char*>(operands_.bias) + (first + kRowsAhead * form_.bias_strides.query) * size;
      for (int64_t byte = 0; byte < count * size; byte += 64) __builtin_prefetch(ahead + byte);
      WithStorage(form_.bias_dtype, operands_.bias,
                  [&](auto* typed) { add_bias(typed + first, form_.bias_strides.key != 0, count, terms); });
    }
    if (operands_.slopes) add_distances(operands_.slopes[at.head], at.own - key, columns, terms);
    if (operands_.mask && !form_.key_mask) hide_masked(at, key, count, terms);
    hide(terms, 0, std::min(columns, form_.first_key(at.own) - key));
    hide(terms, std::max<int64_t>(0, form_.end_key(at.own, at.length) - key), columns);
  }

 private:
  static constexpr int64_t kRowsAhead = 4;

  static void hide(float* terms, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) terms[j] = -kInfinity;
  }

  template <typename T>
  static void add_bias(const T* from, bool each, int64_t count, float* terms) {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    const auto one = hn::Set(df, hn::GetLane(LoadF32N(df, from, 1)));
    // Terms behind the last key are -infinity and stay so.
    for (int64_t j = 0; j < count; j += lanes) {
      const auto added = each ? LoadSome(from + j, count - j) : one;
      hn::StoreU(hn::Add(hn::LoadU(df, terms + j), added), df, terms + j);
    }
  }

  /// Key j stands `ahead` - j before the query.
  static void add_distances(float slope, int64_t ahead, int64_t columns, float* terms) {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t j = 0; j < columns; j += lanes) {
      const auto distance =
          hn::Abs(hn::Sub(hn::Set(df, static_cast<float>(ahead)), hn::Iota(df, static_cast<float>(j))));
      hn::StoreU(hn::NegMulAdd(hn::Set(df, slope), distance, hn::LoadU(df, terms + j)), df, terms + j);
    }
  }

  void hide_masked(const ScoreRow& at, int64_t key, int64_t count, float* terms) const {
    const int64_t first = form_.mask_strides.at(at.sample, at.head, at.query, at.begin + key);
    const int64_t step = form_.mask_strides.key;
    const auto visit = [&](const auto* flags) {
      for (int64_t j = 0; j < count; ++j) terms[j] = flags[j * step] != 0 ? terms[j] : -kInfinity;
    };
    if (form_.mask_dtype == DType::kBool)
      visit(static_cast<const uint8_t*>(operands_.mask) + first);
    else
      visit(static_cast<const int32_t*>(operands_.mask) + first);
  }

  const AttentionForm& form_;
  const AttentionOperands& operands_;
};

/// scale q k^T under a soft cap; `slope` gets its derivative by scale q k^T.
HWY_INLINE hn::Vec<F32> SoftCapped(hn::Vec<F32> score, float cap, hn::Vec<F32>* slope) {
  const F32 df;
  const auto turned = Tanh(df, hn::Mul(score, hn::Set(df, 1 / cap)));
  *slope = hn::NegMulAdd(turned, turned, hn::Set(df, 1.0f));
  return hn::Mul(turned, hn::Set(df, cap));
}

/// The dropout of the node in this micro-batch, if any.
inline std::optional<DropoutDraw> DrawOf(const AttentionForm& form, const int64_t* counter) {
  if (form.counter < 0 || form.dropout == 0) return std::nullopt;
  return DropoutDraw(form.dropout, form.seed, form.tensor, counter, form.draws());
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_ATTENTION_INL_H_
