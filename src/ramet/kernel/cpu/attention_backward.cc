#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/attention_backward.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/attention-inl.h"
#include "ramet/kernel/cpu/attention_pass.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

/// One thread's work: T is the operands' type, C that of products. Tiles of scores have keys as rows and queries as
/// columns, so that what belongs to a query is a vector and the rows are operands of the products as they stand.
template <typename T, typename C>
class Backward {
 public:
  Backward(const AttentionForm& form, const AttentionOperands& operands, char* scratch)
      : form_(form),
        operands_(operands),
        layout_{form.sequence, form.head_size, sizeof(C) == 2 ? 2 : 1},
        scratch_(scratch),
        at_(layout_, scratch_),
        draw_(DrawOf(form, operands.counter)) {}

  void head(int64_t head) {
    if (!form_.segments) return head_run(head, {0, form_.sequence});
    ForEachRun(
        form_, operands_.mask, head / form_.heads, [&](SequenceRun run) { head_run(head, run); },
        [&](SequenceRun padding) { no_gradient(head, padding); });
  }

 private:
  void head_run(int64_t head, SequenceRun run) {
    begin_head(head, run);
    const int64_t length = run.length, queries = (length + kPanel - 1) / kPanel * kPanel;
    for (key_ = 0; key_ < length; key_ += kBackwardKeys) {
      keys_ = std::min(kBackwardKeys, length - key_);
      begin_keys();
      const int64_t first = form_.causal ? key_ : 0;
      for (query_ = first; query_ < queries; query_ += kBackwardQueries) {
        width_ = std::min(kBackwardQueries, queries - query_);
        tile(query_ == first);
      }
      const float scale = static_cast<float>(form_.scale);
      store_rows(at_.dkey, scale, static_cast<T*>(operands_.dkey));
      store_rows(at_.dvalue, 1, static_cast<T*>(operands_.dvalue));
    }
    store_dquery();
  }

  /// Padding is seen by nothing.
  void no_gradient(int64_t head, SequenceRun padding) {
    sample_ = head / form_.heads, in_sample_ = head % form_.heads, begin_ = padding.begin;
    for (void* gradient : {operands_.dquery, operands_.dkey, operands_.dvalue})
      for (int64_t i = 0; i < padding.length; ++i)
        std::memset(static_cast<T*>(gradient) + offset() + i * stride(), 0,
                    static_cast<size_t>(form_.head_size) * sizeof(T));
  }

  int64_t stride() const { return form_.position_stride(); }
  int64_t out_stride() const { return form_.heads * form_.head_size; }
  int64_t position() const { return sample_ * form_.sequence + begin_; }  ///< first of the run
  int64_t offset() const { return position() * stride() + in_sample_ * form_.head_size; }
  int64_t out_offset() const { return position() * out_stride() + in_sample_ * form_.head_size; }
  const T* at(const void* operand) const { return static_cast<const T*>(operand) + offset(); }
  int64_t key_units() const { return kBackwardKeys / layout_.ratio; }

  void begin_head(int64_t head, SequenceRun run) {
    head_ = head;
    begin_ = run.begin;
    layout_.sequence = run.length;
    sample_ = head / form_.heads;
    in_sample_ = head % form_.heads;
    const T* dout = static_cast<const T*>(operands_.dout) + out_offset();
    HeadByDepth<T, C>(layout_, at(operands_.query), stride(), at_.query_by_depth);
    HeadByPosition<T, C>(layout_, at(operands_.query), stride(), at_.query_by_position);
    HeadByDepth<T, C>(layout_, dout, out_stride(), at_.dout_by_depth);
    HeadByPosition<T, C>(layout_, dout, out_stride(), at_.dout_by_position);
    KeyBias(form_, operands_.mask, sample_, run.length, layout_.positions(), at_.bias);
    const T* out = static_cast<const T*>(operands_.out) + out_offset();
    for (int64_t q = 0; q < layout_.positions(); ++q) {
      const float lse = q < run.length ? operands_.lse[head * form_.sequence + begin_ + q] : -kInfinity;
      // Queries that saw nothing, and those behind the last, subtract infinity: their probabilities are 0.
      at_.lse[q] = lse == -kInfinity ? kInfinity : lse;
      at_.delta[q] = q < run.length ? dot(dout + q * out_stride(), out + q * out_stride()) : 0;
    }
  }

  float dot(const T* a, const T* b) const {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    auto sum = hn::Zero(df);
    for (int64_t d = 0; d < form_.head_size; d += lanes)
      sum = hn::MulAdd(LoadSome(a + d, form_.head_size - d), LoadSome(b + d, form_.head_size - d), sum);
    return hn::GetLane(hn::SumOfLanes(df, sum));
  }

  void begin_keys() {
    const T* key = at(operands_.key) + key_ * stride();
    HeadRows<T, C>(layout_, key, stride(), keys_, at_.key_rows);
    HeadRows<T, C>(layout_, at(operands_.value) + key_ * stride(), stride(), keys_, at_.value_rows);
    HWY_ALIGN uint32_t units[kWidth * kUnits];
    for (int64_t panel = 0; panel < layout_.panels(); ++panel)
      for (int64_t unit = 0; unit < key_units(); unit += kUnits) {
        const int64_t position = unit * layout_.ratio;
        UnitsFromRows<T, sizeof(C) == 2>(key + position * stride() + panel * kPanel, stride(), keys_ - position,
                                         form_.head_size - panel * kPanel, kPanel, units);
        Transpose32(units, kPanel, at_.key_columns + panel * kPanel * key_units() + unit, key_units(), kUnits, kPanel);
      }
  }

  /// All five products of the tile of `keys_` keys and `width_` queries.
  void tile(bool first) {
    const int64_t panel = kPanel * layout_.depth_stride(), from = query_ / kPanel * panel;
    const int64_t depth = layout_.depth(), depth_stride = layout_.depth_stride();
    Product<C>({keys_, width_, depth, at_.key_rows, depth_stride, at_.query_by_depth + from, panel, at_.scores,
                kBackwardQueries, false});
    Product<C>({keys_, width_, depth, at_.value_rows, depth_stride, at_.dout_by_depth + from, panel, at_.dscores,
                kBackwardQueries, false});
    if (draw_) draw_tile();
    for (int64_t j = 0; j < keys_; j += 2) two_keys(j);
    const int64_t row = kBackwardQueries / layout_.ratio, count = width_ / layout_.ratio;
    const int64_t position = query_ / layout_.ratio * kPanel, position_panel = layout_.position_units() * kPanel;
    Product<C>({keys_, layout_.columns(), count, at_.probability_rows, row, at_.dout_by_position + position,
                position_panel, at_.dvalue, layout_.sums_stride(), !first});
    Product<C>({keys_, layout_.columns(), count, at_.dscore_rows, row, at_.query_by_position + position, position_panel,
                at_.dkey, layout_.sums_stride(), !first});
    Product<C>({form_.head_size, width_, (keys_ + layout_.ratio - 1) / layout_.ratio, at_.key_columns, key_units(),
                at_.dscore_pairs, key_units() * kPanel, at_.dquery + query_, at_.dquery_stride, key_ != 0});
  }

  /// Random bits of the tile, rows by key.
  void draw_tile() {
    const U32 du;
    const hn::RebindToSigned<U32> di;
    const hn::Rebind<uint16_t, U32> dh;
    const auto lanes = static_cast<int64_t>(hn::Lanes(du));
    const auto s = static_cast<uint64_t>(form_.sequence);
    const uint64_t origin = draw_->first +
                            (static_cast<uint64_t>(form_.draws_as(head_)) * s + static_cast<uint64_t>(begin_ + query_)) * s +
                            static_cast<uint64_t>(key_);
    if (s % 8 != 0) return draw_tile_unaligned(origin);
    // A block serves 8 keys of one query: one query a lane.
    for (int64_t q = 0; q < width_; q += lanes)
      for (int64_t k = 0; k < keys_; k += 8) {
        const auto words = PhiloxBlocksFrom(
            du, draw_->stream, (origin + static_cast<uint64_t>(q) * s) / 8 + static_cast<uint64_t>(k) / 8, s / 8);
        for (int64_t i = 0; i < 4; ++i) {
          uint16_t* to = at_.keep + (k + 2 * i) * kBackwardQueries + q;
          const auto low = hn::And(words.word[i], hn::Set(du, 0xffffu)), high = hn::ShiftRight<16>(words.word[i]);
          hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, low)), dh, to);
          hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, high)), dh, to + kBackwardQueries);
        }
      }
  }

  void draw_tile_unaligned(uint64_t origin) {
    for (int64_t q = 0; q < width_; ++q) {
      const uint64_t first = origin + static_cast<uint64_t>(q) * static_cast<uint64_t>(form_.sequence);
      const uint16_t* bits = PhiloxBits16(draw_->stream, first, keys_, at_.bits);
      for (int64_t k = 0; k < keys_; ++k) at_.keep[k * kBackwardQueries + q] = bits[k];
    }
  }

  /// Probabilities (dropped ones, for dv) and gradients of scores of one vector of queries for key j.
  HWY_INLINE void one_vector(int64_t j, int64_t q, hn::Vec<F32>* dropped, hn::Vec<F32>* dscore) const {
    const F32 df;
    const U32 du;
    const hn::Rebind<uint16_t, F32> dh;
    const int64_t at = j * kBackwardQueries + q;
    auto p = ExpNegative(df, hn::MulSub(hn::LoadU(df, at_.scores + at), hn::Set(df, static_cast<float>(form_.scale)),
                                        hn::LoadU(df, at_.lse + query_ + q)));
    if (form_.causal && query_ + q < key_ + j)
      p = hn::IfThenElseZero(
          hn::Ge(hn::Iota(df, static_cast<float>(query_ + q - key_)), hn::Set(df, static_cast<float>(j))), p);
    auto dp = hn::LoadU(df, at_.dscores + at);
    *dropped = p;
    if (draw_) {
      const auto drawn = hn::PromoteTo(du, hn::LoadU(dh, at_.keep + at));
      const auto drops = hn::RebindMask(df, hn::Lt(drawn, hn::Set(du, draw_->threshold)));
      const auto factor = hn::IfThenZeroElse(drops, hn::Set(df, draw_->scale));
      *dropped = hn::Mul(p, factor);
      dp = hn::Mul(dp, factor);
    }
    *dscore = hn::Mul(p, hn::Sub(dp, hn::LoadU(df, at_.delta + query_ + q)));
  }

  /// Rows j and j+1 of the tile, in the forms in which the products read them.
  void two_keys(int64_t j) {
    const F32 df;
    const U32 du;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    C* p_rows = reinterpret_cast<C*>(at_.probability_rows) + j * kBackwardQueries;
    C* d_rows = reinterpret_cast<C*>(at_.dscore_rows) + j * kBackwardQueries;
    const bool hidden[2] = {at_.bias[key_ + j] != 0, at_.bias[key_ + j + 1] != 0};
    for (int64_t q = 0; q < width_; q += lanes) {
      hn::Vec<U32> d_units[2];
      for (int64_t row = 0; row < 2; ++row) {
        auto p = hn::Zero(df), d = hn::Zero(df);
        if (!hidden[row]) one_vector(j + row, q, &p, &d);
        d_units[row] = Rounded<C>(d);
        StoreRounded(Rounded<C>(p), p_rows + row * kBackwardQueries + q);
        StoreRounded(d_units[row], d_rows + row * kBackwardQueries + q);
      }
      uint32_t* pairs = at_.dscore_pairs + q / kPanel * key_units() * kPanel + q % kPanel;
      if constexpr (sizeof(C) == 2) {
        hn::StoreU(hn::Or(hn::ShiftRight<16>(d_units[0]), hn::And(d_units[1], hn::Set(du, 0xffff0000u))), du,
                   pairs + j / 2 * kPanel);
      } else {
        hn::StoreU(d_units[0], du, pairs + j * kPanel);
        hn::StoreU(d_units[1], du, pairs + (j + 1) * kPanel);
      }
    }
  }

  HWY_INLINE void store_row(const float* from, float scale, T* to) const {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t d = 0; d < form_.head_size; d += lanes) {
      const auto value = hn::Mul(hn::LoadU(df, from + d), hn::Set(df, scale));
      const int64_t left = form_.head_size - d;
      if (left >= lanes)
        StoreF32(df, value, to + d);
      else
        StoreF32N(df, value, to + d, static_cast<size_t>(left));
    }
  }

  void store_rows(const float* sums, float scale, T* out) const {
    for (int64_t k = 0; k < keys_; ++k)
      store_row(sums + k * layout_.sums_stride(), scale, out + offset() + (key_ + k) * stride());
  }

  /// dq from [head size][positions] to rows.
  void store_dquery() {
    T* out = static_cast<T*>(operands_.dquery) + offset();
    float* rows = at_.scores;  // free by now; holds 64 positions of 64 numbers
    for (int64_t q = 0; q < layout_.sequence; q += kPanel)
      for (int64_t d = 0; d < form_.head_size; d += kPanel) {
        Transpose32(reinterpret_cast<const uint32_t*>(at_.dquery + d * at_.dquery_stride + q), at_.dquery_stride,
                    reinterpret_cast<uint32_t*>(rows), kPanel, kPanel, kPanel);
        store_panel(rows, q, std::min(kPanel, form_.head_size - d), out + d);
      }
  }

  void store_panel(const float* rows, int64_t q, int64_t count, T* out) const {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    const auto scale = hn::Set(df, static_cast<float>(form_.scale));
    for (int64_t i = 0; i < kPanel && q + i < layout_.sequence; ++i)
      for (int64_t d = 0; d < count; d += lanes) {
        const auto value = hn::Mul(hn::LoadU(df, rows + i * kPanel + d), scale);
        T* to = out + (q + i) * stride() + d;
        if (count - d >= lanes)
          StoreF32(df, value, to);
        else
          StoreF32N(df, value, to, static_cast<size_t>(count - d));
      }
  }

  const AttentionForm& form_;
  const AttentionOperands& operands_;
  AttentionLayout layout_;
  Scratch scratch_;
  BackwardBuffers at_;
  std::optional<DropoutDraw> draw_;
  int64_t head_ = 0, sample_ = 0, in_sample_ = 0, begin_ = 0, key_ = 0, keys_ = 0, query_ = 0, width_ = 0;
};

template <typename T, typename C>
void BackwardOf(const AttentionForm& form, const AttentionOperands& operands, char* scratch, int64_t begin,
                int64_t end) {
  Backward<T, C> backward(form, operands, scratch);
  for (int64_t head = begin; head < end; ++head) backward.head(head);
}

void BackwardHeads(const AttentionForm& form, bool bf16, const AttentionOperands& operands, char* scratch,
                   int64_t begin, int64_t end) {
  if (bf16) return BackwardOf<Bf16, Bf16>(form, operands, scratch, begin, end);
  WithStorage(form.dtype, operands.query, [&](auto* typed) {
    BackwardOf<std::remove_cvref_t<decltype(*typed)>, float>(form, operands, scratch, begin, end);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(BackwardHeads);

void attention_backward_heads(const AttentionForm& form, bool bf16, const AttentionOperands& operands, char* scratch,
                              int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(BackwardHeads)(form, bf16, operands, scratch, begin, end);
}

}  // namespace ramet::kernel
#endif
