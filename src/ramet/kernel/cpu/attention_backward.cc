#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/attention_backward.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/attention-inl.h"
#include "ramet/kernel/cpu/attention_pass.h"
#include "ramet/ops/reduce_order.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

/// One thread's work: T is the operands' type, C that of products. Tiles of scores have keys as rows and queries as
/// columns, so that what belongs to a query is a vector and the rows are operands of the products as they stand.
template <typename T, typename C>
class Backward {
 public:
  Backward(const AttentionForm& form, TileProductFunction bf16_product, const AttentionOperands& operands, float* dbias,
           char* scratch)
      : form_(form),
        bf16_product_(bf16_product),
        operands_(operands),
        dbias_(dbias),
        layout_{form.sequence, form.head_size, sizeof(C) == 2 ? 2 : 1, whole_columns(bf16_product)},
        outputs_{form.sequence, form.value_size, layout_.ratio, layout_.whole},
        scratch_(scratch),
        at_(form, layout_, outputs_, scratch_),
        draw_(DrawOf(form, operands.counter)),
        terms_(form, operands),
        units_(form),
        adjusts_(form.adjusts_scores()),
        // Whether some query may meet no key of the first block.
        gaps_(form.left >= 0 || form.right >= 0 || form.ahead < 0 || form.keys == 0) {}

  void unit(int64_t index) {
    const int64_t block = index / units_.head_sets, set = index % units_.head_sets;
    const int64_t heads = form_.key_heads / units_.head_sets;
    if (units_.planes > 0)
      std::memset(at_.planes, 0, static_cast<size_t>(units_.planes * at_.plane_elements) * sizeof(float));
    const int64_t begin = block * form_.batch / units_.blocks, end = (block + 1) * form_.batch / units_.blocks;
    for (int64_t sample = begin; sample < end; ++sample)
      for (int64_t head = set * heads; head < (set + 1) * heads; ++head) key_head(sample, head);
    for (int64_t plane = 0; plane < units_.planes; ++plane)
      store_plane(at_.plane(plane),
                  dbias_ + (index * units_.planes + plane) * form_.bias_shape[2] * form_.bias_shape[3]);
  }

 private:
  /// All query heads that share a head of keys.
  void key_head(int64_t sample, int64_t head) {
    sample_ = sample, key_head_ = head;
    if (!form_.segments) return group({0, form_.sequence}, form_.keys);
    ForEachRun(
        form_, operands_.mask, sample, [&](SequenceRun run) { group(run, run.length); },
        [&](SequenceRun padding) { no_gradient(padding); });
  }

  void group(SequenceRun run, int64_t keys) {
    for (member_ = 0; member_ < form_.group(); ++member_) {
      in_sample_ = key_head_ * form_.group() + member_;
      head_run(run, keys);
    }
  }

  void head_run(SequenceRun run, int64_t keys) {
    begin_head(run, keys);
    const int64_t queries = layout_.taken(run.length);
    for (key_ = 0; key_ < length_; key_ += kBackwardKeys) {
      keys_ = std::min(kBackwardKeys, length_ - key_);
      begin_keys();
      const int64_t first = first_query(), end = std::min(queries, end_query());
      if (first >= end && member_ == 0) {
        std::memset(dkey(), 0, static_cast<size_t>(keys_ * layout_.sums_stride()) * sizeof(float));
        std::memset(dvalue(), 0, static_cast<size_t>(keys_ * outputs_.sums_stride()) * sizeof(float));
      }
      for (query_ = first; query_ < end; query_ += kBackwardQueries) {
        width_ = std::min(kBackwardQueries, end - query_);
        tile(query_ == first && member_ == 0);
      }
      if (member_ + 1 < form_.group()) continue;
      store_rows(dkey(), 1, static_cast<float>(form_.scale), key_at(operands_.dkey, 1));
      store_rows(dvalue(), 2, 1, key_at(operands_.dvalue, 2));
    }
    store_dquery();
  }

  /// Queries [first_query, end_query) may see keys of the block, by their positions; multiples of a panel.
  int64_t first_query() const {
    const int64_t ahead = form_.causal ? 0 : form_.right;
    if (!form_.causal && form_.right < 0) return 0;
    return std::max<int64_t>(0, key_ - ahead - form_.ahead) / kPanel * kPanel;
  }
  int64_t end_query() const {
    if (form_.left < 0) return std::numeric_limits<int64_t>::max();
    const int64_t end = key_ + keys_ + form_.left - form_.ahead;
    return std::max<int64_t>(0, end + kPanel - 1) / kPanel * kPanel;
  }

  /// Padding is seen by nothing.
  void no_gradient(SequenceRun padding) {
    begin_ = padding.begin;
    const auto zero = [&](T* first, int64_t stride, int64_t size) {
      for (int64_t i = 0; i < padding.length; ++i)
        std::memset(first + i * stride, 0, static_cast<size_t>(size) * sizeof(T));
    };
    in_sample_ = key_head_ * form_.group();
    zero(query_at(operands_.dquery), form_.position_stride(0), form_.group() * form_.head_size);
    zero(key_at(operands_.dkey, 1), form_.position_stride(1), form_.head_size);
    zero(key_at(operands_.dvalue, 2), form_.position_stride(2), form_.value_size);
  }

  int64_t out_stride() const { return form_.heads * form_.value_size; }
  /// First position of the run, of this head, in q, k (part 1) or v (part 2), and in the output.
  template <typename P>
  auto* query_at(P* operand) const {
    using Element = std::conditional_t<std::is_const_v<P>, const T, T>;
    return static_cast<Element*>(operand) + (sample_ * form_.sequence + begin_) * form_.position_stride(0) +
           in_sample_ * form_.head_size;
  }
  template <typename P>
  auto* key_at(P* operand, int part) const {
    using Element = std::conditional_t<std::is_const_v<P>, const T, T>;
    return static_cast<Element*>(operand) + (sample_ * form_.keys + begin_) * form_.position_stride(part) +
           key_head_ * (part == 1 ? form_.head_size : form_.value_size);
  }
  int64_t out_offset() const {
    return (sample_ * form_.sequence + begin_) * out_stride() + in_sample_ * form_.value_size;
  }
  int64_t key_units() const { return kBackwardKeys / layout_.ratio; }
  /// Sums of the block of keys.
  float* dkey() const { return at_.dkey + (form_.group() > 1 ? key_ * layout_.sums_stride() : 0); }
  float* dvalue() const { return at_.dvalue + (form_.group() > 1 ? key_ * outputs_.sums_stride() : 0); }

  void begin_head(SequenceRun run, int64_t keys) {
    head_ = sample_ * form_.heads + in_sample_;
    begin_ = run.begin;
    length_ = keys;
    layout_.sequence = outputs_.sequence = run.length;
    plane_ = units_.planes == 0 ? nullptr : at_.plane(units_.planes > 1 ? member_ : 0);
    const int64_t stride = form_.position_stride(0);
    const T *query = query_at(operands_.query), *dout = static_cast<const T*>(operands_.dout) + out_offset();
    HeadByDepth<T, C>(layout_, query, stride, at_.query_by_depth);
    HeadByPosition<T, C>(layout_, query, stride, at_.query_by_position);
    HeadByDepth<T, C>(outputs_, dout, out_stride(), at_.dout_by_depth);
    HeadByPosition<T, C>(outputs_, dout, out_stride(), at_.dout_by_position);
    KeyBias(form_, operands_.mask, sample_, length_, (length_ + kPanel - 1) / kPanel * kPanel, at_.bias);
    if (gaps_)
      std::memset(at_.dquery, 0, static_cast<size_t>(layout_.sums_stride() * at_.dquery_stride) * sizeof(float));
    const T* out = static_cast<const T*>(operands_.out) + out_offset();
    for (int64_t q = 0; q < layout_.taken(run.length); ++q) {
      const float lse = q < run.length ? operands_.lse[head_ * form_.sequence + begin_ + q] : -kInfinity;
      // Queries that saw nothing, and those behind the last, subtract infinity: their probabilities are 0.
      at_.lse[q] = lse == -kInfinity ? kInfinity : lse;
      at_.delta[q] = q < run.length ? dot(dout + q * out_stride(), out + q * out_stride()) : 0;
    }
  }

  float dot(const T* a, const T* b) const {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    auto sum = hn::Zero(df);
    for (int64_t d = 0; d < form_.value_size; d += lanes)
      sum = hn::MulAdd(LoadSome(a + d, form_.value_size - d), LoadSome(b + d, form_.value_size - d), sum);
    return hn::GetLane(hn::SumOfLanes(df, sum));
  }

  void begin_keys() {
    const int64_t stride = form_.position_stride(1), values = form_.position_stride(2);
    const T* key = key_at(operands_.key, 1) + key_ * stride;
    HeadRows<T, C>(layout_, key, stride, keys_, at_.key_rows);
    HeadRows<T, C>(outputs_, key_at(operands_.value, 2) + key_ * values, values, keys_, at_.value_rows);
    HWY_ALIGN uint32_t units[kWidth * kUnits];
    for (int64_t panel = 0; panel < layout_.panels(); ++panel)
      for (int64_t unit = 0; unit * layout_.ratio < keys_; unit += kUnits) {
        const int64_t position = unit * layout_.ratio;
        UnitsFromRows<T, sizeof(C) == 2>(key + position * stride + panel * kPanel, stride, keys_ - position,
                                         form_.head_size - panel * kPanel, kPanel, units);
        Transpose32(units, kPanel, at_.key_columns + panel * kPanel * key_units() + unit, key_units(), kUnits, kPanel);
      }
  }

  /// All five products of the tile of `keys_` keys and `width_` queries.
  void tile(bool first) {
    const int64_t panel = kPanel * layout_.depth_stride(), out_panel = kPanel * outputs_.depth_stride();
    const int64_t from = query_ / kPanel;
    Product<C>(bf16_product_, {keys_, width_, layout_.depth(), at_.key_rows, layout_.depth_stride(),
                               at_.query_by_depth + from * panel, panel, at_.scores, kBackwardQueries, false});
    Product<C>(bf16_product_, {keys_, width_, outputs_.depth(), at_.value_rows, outputs_.depth_stride(),
                               at_.dout_by_depth + from * out_panel, out_panel, at_.dscores, kBackwardQueries, false});
    if (draw_) draw_tile();
    if (adjusts_) adjust_tile();
    if (adjusts_ || plane_)
      for (int64_t j = 0; j < keys_; j += 2) two_keys<true>(j);
    else
      for (int64_t j = 0; j < keys_; j += 2) two_keys<false>(j);
    const int64_t row = kBackwardQueries / layout_.ratio, count = width_ / layout_.ratio;
    const int64_t position = query_ / layout_.ratio * kPanel, position_panel = layout_.position_units() * kPanel;
    Product<C>(bf16_product_,
               {keys_, outputs_.columns(), count, at_.probability_rows, row, at_.dout_by_position + position,
                position_panel, dvalue(), outputs_.sums_stride(), !first});
    Product<C>(bf16_product_, {keys_, layout_.columns(), count, at_.dscore_rows, row, at_.query_by_position + position,
                               position_panel, dkey(), layout_.sums_stride(), !first});
    Product<C>(bf16_product_,
               {form_.head_size, width_, (keys_ + layout_.ratio - 1) / layout_.ratio, at_.key_columns, key_units(),
                at_.dscore_pairs, key_units() * kPanel, at_.dquery + query_, at_.dquery_stride, key_ != 0 || gaps_});
  }

  /// Products of queries and keys to scores, as in the forward pass.
  void adjust_tile() {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t q = 0; q < width_; ++q) {
      const int64_t query = query_ + q;
      float* row = at_.terms + q * kBackwardKeys;
      if (query < layout_.sequence)
        terms_.row({sample_, in_sample_, begin_ + query, begin_, length_, query + form_.ahead}, at_.bias, key_,
                   kBackwardKeys, row);
      else
        std::memset(row, 0, kBackwardKeys * sizeof(float));
    }
    Transpose32(reinterpret_cast<const uint32_t*>(at_.terms), kBackwardKeys,
                reinterpret_cast<uint32_t*>(at_.terms_by_key), kBackwardQueries, width_, kBackwardKeys);
    const auto scale = hn::Set(df, static_cast<float>(form_.scale));
    const auto cap = static_cast<float>(form_.soft_cap);
    for (int64_t j = 0; j < keys_; ++j)
      for (int64_t q = 0; q < width_; q += lanes) {
        const int64_t at = j * kBackwardQueries + q;
        const auto product = hn::LoadU(df, at_.scores + at), term = hn::LoadU(df, at_.terms_by_key + at);
        auto score = hn::MulAdd(product, scale, term);
        if (cap > 0) {
          auto slope = product;
          score = hn::Add(SoftCapped(hn::Mul(product, scale), cap, &slope), term);
          hn::StoreU(slope, df, at_.cap_slopes + at);
        }
        hn::StoreU(score, df, at_.scores + at);
      }
  }

  /// Random bits of the tile, rows by key.
  void draw_tile() {
    const U32 du;
    const hn::RebindToSigned<U32> di;
    const hn::Rebind<uint16_t, U32> dh;
    const auto lanes = static_cast<int64_t>(hn::Lanes(du));
    const auto s = static_cast<uint64_t>(form_.keys);  // from query to query
    const auto query = static_cast<uint64_t>(form_.draws_as(head_) * form_.sequence + begin_ + query_);
    const uint64_t origin = draw_->first + query * s + static_cast<uint64_t>(key_);
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
      const uint64_t first = origin + static_cast<uint64_t>(q) * static_cast<uint64_t>(form_.keys);
      const uint16_t* bits = PhiloxBits16(draw_->stream, first, keys_, at_.bits);
      for (int64_t k = 0; k < keys_; ++k) at_.keep[k * kBackwardQueries + q] = bits[k];
    }
  }

  /// Probabilities (dropped ones, for dv) and gradients of scores of one vector of queries for key j.
  template <bool kMore>
  HWY_INLINE void one_vector(int64_t j, int64_t q, hn::Vec<F32>* dropped, hn::Vec<F32>* dscore) const {
    const F32 df;
    const U32 du;
    const hn::Rebind<uint16_t, F32> dh;
    const int64_t at = j * kBackwardQueries + q;
    const auto score = hn::LoadU(df, at_.scores + at), lse = hn::LoadU(df, at_.lse + query_ + q);
    auto p = ExpNegative(df, kMore && adjusts_ ? hn::Sub(score, lse)
                                               : hn::MulSub(score, hn::Set(df, static_cast<float>(form_.scale)), lse));
    const int64_t own = query_ + q + form_.ahead;  // position of the first query
    if (form_.causal && own < key_ + j)
      p = hn::IfThenElseZero(hn::Ge(hn::Iota(df, static_cast<float>(own - key_)), hn::Set(df, static_cast<float>(j))),
                             p);
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

  /// Adds gradients of scores to those of the bias, and takes them through the soft cap.
  HWY_INLINE void bias_vector(int64_t j, int64_t q, hn::Vec<F32>* dscore) const {
    const F32 df;
    if (plane_) {
      float* sums = plane_ + (begin_ + key_ + j) * at_.plane_stride + begin_ + query_ + q;
      hn::StoreU(hn::Add(hn::LoadU(df, sums), *dscore), df, sums);
    }
    if (form_.soft_cap > 0) *dscore = hn::Mul(*dscore, hn::LoadU(df, at_.cap_slopes + j * kBackwardQueries + q));
  }

  /// Rows j and j+1 of the tile, in the forms in which the products read them.
  template <bool kMore>
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
        if (!hidden[row]) {
          one_vector<kMore>(j + row, q, &p, &d);
          if constexpr (kMore) bias_vector(j + row, q, &d);
        }
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

  HWY_INLINE void store_row(const float* from, int64_t size, float scale, T* to) const {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t d = 0; d < size; d += lanes) {
      const auto value = hn::Mul(hn::LoadU(df, from + d), hn::Set(df, scale));
      const int64_t left = size - d;
      if (left >= lanes)
        StoreF32(df, value, to + d);
      else
        StoreF32N(df, value, to + d, static_cast<size_t>(left));
    }
  }

  /// Sums of the block of keys (part 1) or values (2); `out` is where the run's first position goes.
  void store_rows(const float* sums, int part, float scale, T* out) const {
    const AttentionLayout& layout = part == 1 ? layout_ : outputs_;
    const int64_t stride = form_.position_stride(part);
    for (int64_t k = 0; k < keys_; ++k)
      store_row(sums + k * layout.sums_stride(), layout.head_size, scale, out + (key_ + k) * stride);
  }

  /// dq from [head size][positions] to rows.
  void store_dquery() {
    T* out = query_at(operands_.dquery);
    float* rows = at_.scores;  // free by now; holds 64 positions of 64 numbers
    const auto fours = [](int64_t count) { return std::min(kPanel, (count + 3) / 4 * 4); };
    for (int64_t q = 0; q < layout_.sequence; q += kPanel)
      for (int64_t d = 0; d < form_.head_size; d += kPanel) {
        Transpose32(reinterpret_cast<const uint32_t*>(at_.dquery + d * at_.dquery_stride + q), at_.dquery_stride,
                    reinterpret_cast<uint32_t*>(rows), kPanel, fours(form_.head_size - d), fours(layout_.sequence - q));
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
        T* to = out + (q + i) * form_.position_stride(0) + d;
        if (count - d >= lanes)
          StoreF32(df, value, to);
        else
          StoreF32N(df, value, to, static_cast<size_t>(count - d));
      }
  }

  /// A plane [keys][queries] as [queries or 1][keys or 1].
  void store_plane(const float* plane, float* out) const {
    const bool all_queries = form_.bias_shape[2] != 1, all_keys = form_.bias_shape[3] != 1;
    const int64_t queries = form_.sequence, keys = form_.keys, stride = at_.plane_stride;
    if (all_queries && all_keys) {
      float* rows = at_.scores;  // free by now; holds 64 queries of 64 keys
      for (int64_t q = 0; q < queries; q += kPanel)
        for (int64_t k = 0; k < keys; k += kPanel) {
          Transpose32(reinterpret_cast<const uint32_t*>(plane + k * stride + q), stride,
                      reinterpret_cast<uint32_t*>(rows), kPanel, kPanel, kPanel);
          for (int64_t i = 0; i < std::min(kPanel, queries - q); ++i)
            std::memcpy(out + (q + i) * keys + k, rows + i * kPanel,
                        static_cast<size_t>(std::min(kPanel, keys - k)) * sizeof(float));
        }
      return;
    }
    if (all_queries) {
      for (int64_t q = 0; q < queries; ++q) out[q] = canonical_sum_rows(plane + q, keys, stride);
      return;
    }
    float total = 0;
    for (int64_t k = 0; k < keys; ++k) {
      const float sum = canonical_sum(plane + k * stride, queries);
      if (all_keys)
        out[k] = sum;
      else
        total += sum;
    }
    if (!all_keys) out[0] = total;
  }

  const AttentionForm& form_;
  TileProductFunction bf16_product_;
  const AttentionOperands& operands_;
  float* dbias_;
  AttentionLayout layout_, outputs_;
  Scratch scratch_;
  BackwardBuffers at_;
  std::optional<DropoutDraw> draw_;
  ScoreTerms terms_;
  BackwardUnits units_;
  bool adjusts_, gaps_;
  float* plane_ = nullptr;  ///< of this head
  int64_t sample_ = 0, key_head_ = 0, member_ = 0, in_sample_ = 0, head_ = 0;
  int64_t begin_ = 0, length_ = 0;  ///< of the run, in keys
  int64_t key_ = 0, keys_ = 0, query_ = 0, width_ = 0;
};

template <typename T, typename C>
void BackwardOf(const AttentionForm& form, TileProductFunction bf16_product, const AttentionOperands& operands,
                float* dbias, char* scratch, int64_t begin, int64_t end) {
  Backward<T, C> backward(form, bf16_product, operands, dbias, scratch);
  for (int64_t index = begin; index < end; ++index) backward.unit(index);
}

void BackwardUnitsOf(const AttentionForm& form, TileProductFunction bf16_product, const AttentionOperands& operands,
                     float* dbias, char* scratch, int64_t begin, int64_t end) {
  if (bf16_product) return BackwardOf<Bf16, Bf16>(form, bf16_product, operands, dbias, scratch, begin, end);
  WithStorage(form.dtype, operands.query, [&](auto* typed) {
    BackwardOf<std::remove_cvref_t<decltype(*typed)>, float>(form, nullptr, operands, dbias, scratch, begin, end);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(BackwardUnitsOf);

void attention_backward_units(const AttentionForm& form, TileProductFunction bf16_product,
                              const AttentionOperands& operands, float* dbias, char* scratch, int64_t begin,
                              int64_t end) {
  HWY_DYNAMIC_DISPATCH(BackwardUnitsOf)(form, bf16_product, operands, dbias, scratch, begin, end);
}

}  // namespace ramet::kernel
#endif
