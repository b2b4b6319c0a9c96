#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/attention_forward.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/attention-inl.h"
#include "ramet/kernel/cpu/attention_pass.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

/// One thread's work: T is the operands' type, C that of products.
template <typename T, typename C>
class Forward {
 public:
  Forward(const AttentionForm& form, TileProductFunction bf16_product, const AttentionOperands& operands, char* scratch)
      : form_(form),
        bf16_product_(bf16_product),
        operands_(operands),
        layout_{form.keys, form.head_size, sizeof(C) == 2 ? 2 : 1, whole_columns(bf16_product)},
        values_{form.keys, form.value_size, layout_.ratio, layout_.whole},
        scratch_(scratch),
        at_(form, layout_, values_, scratch_),
        draw_(DrawOf(form, operands.counter)),
        terms_(form, operands),
        adjusts_(form.adjusts_scores()),
        scale_(adjusts_ ? 1.0f : static_cast<float>(form.scale)) {}

  void block(int64_t index) {
    const int64_t blocks = (form_.sequence + kForwardQueries - 1) / kForwardQueries;
    if (index / blocks != head_) begin_head(index / blocks, {0, visible_keys(index / blocks)});
    queries(index % blocks * kForwardQueries);
  }

  /// All runs of a head, with segments.
  void head(int64_t head) {
    ForEachRun(
        form_, operands_.mask, head / form_.heads,
        [&](SequenceRun run) {
          begin_head(head, run);
          for (int64_t query = 0; query < run.length; query += kForwardQueries) queries(query);
        },
        [&](SequenceRun padding) {
          begin_ = padding.begin;
          for (int64_t i = 0; i < padding.length; ++i) {
            std::memset(out_of(head, i), 0, static_cast<size_t>(form_.value_size) * sizeof(T));
            operands_.lse[head * form_.sequence + padding.begin + i] = -kInfinity;
          }
        });
  }

 private:
  /// Keys of a head's sample that some query sees: all, or those written so far.
  int64_t visible_keys(int64_t head) const {
    if (!operands_.first) return form_.keys;
    return std::clamp<int64_t>(operands_.first[head / form_.heads] + form_.sequence, 0, form_.keys);
  }

  /// The block of queries from `first` of the run on.
  void queries(int64_t first) {
    first_query_ = first;
    queries_ = std::min(kForwardQueries, run_queries_ - first_query_);
    const int64_t stride = form_.position_stride(0), head = in_sample_ * form_.head_size;
    HeadRows<T, C>(layout_, at(operands_.query, form_.sequence, stride) + head + first_query_ * stride, stride,
                   queries_, at_.query);
    for (int64_t i = 0; i < queries_; ++i) at_.most[i] = -kInfinity, at_.total[i] = 0;
    const int64_t own = ahead_ + first_query_;  // the first query's position
    const int64_t seen = form_.end_key(own + queries_ - 1, layout_.sequence);
    first_tile_ = form_.first_key(own) / kForwardKeys * kForwardKeys;
    if (first_tile_ >= seen)
      std::memset(at_.sums, 0, static_cast<size_t>(queries_ * values_.sums_stride()) * sizeof(float));
    for (int64_t key = first_tile_; key < seen; key += kForwardKeys) keys(key, std::min(kForwardKeys, seen - key));
    finish();
  }

  /// Where the output of position `query` of the run goes.
  T* out_of(int64_t head, int64_t query) const {
    const int64_t position = head / form_.heads * form_.sequence + begin_ + query;
    return static_cast<T*>(operands_.out) + (position * form_.heads + head % form_.heads) * form_.value_size;
  }

  /// First position of this run in q, k or v, which has so many `positions` of a sample.
  const T* at(const void* operand, int64_t positions, int64_t stride) const {
    return static_cast<const T*>(operand) + (sample_ * positions + begin_) * stride;
  }

  void begin_head(int64_t head, SequenceRun run) {
    head_ = head;
    begin_ = run.begin;
    layout_.sequence = values_.sequence = run.length;
    run_queries_ = form_.segments ? run.length : form_.sequence;
    sample_ = head / form_.heads;
    in_sample_ = head % form_.heads;
    ahead_ = operands_.first ? operands_.first[sample_] : form_.segments ? 0 : form_.ahead;
    const int64_t key_head = sample_ * form_.key_heads + in_sample_ / form_.group();
    if (key_head == packed_head_ && begin_ == packed_begin_) return;  // query heads that share keys follow each other
    packed_head_ = key_head, packed_begin_ = begin_;
    const int64_t keys = form_.position_stride(1), values = form_.position_stride(2),
                  in_row = key_head % form_.key_heads;
    HeadByDepth<T, C>(layout_, at(operands_.key, form_.keys, keys) + in_row * form_.head_size, keys, at_.key);
    HeadByPosition<T, C>(values_, at(operands_.value, form_.keys, values) + in_row * form_.value_size, values,
                         at_.value);
    KeyBias(form_, operands_.mask, sample_, layout_.sequence, layout_.positions(), at_.bias);
  }

  /// The tile of `count` keys from `key` on: scores, probabilities, their product with v.
  void keys(int64_t key, int64_t count) {
    const int64_t columns = layout_.taken(count), panel = kPanel * layout_.depth_stride();
    Product<C>(bf16_product_, {queries_, columns, layout_.depth(), at_.query, layout_.depth_stride(),
                               at_.key + key / kPanel * panel, panel, at_.scores, kForwardKeys, false});
    for (int64_t i = 0; i < queries_; ++i) {
      const int64_t own = ahead_ + first_query_ + i;  // the position of query i
      if (adjusts_) {
        adjust_row(i, own, key, columns);
        softmax_row(i, key, columns, false, columns);
        continue;
      }
      const bool hides = (operands_.mask != nullptr && !form_.segments) || key + columns > layout_.sequence;
      const int64_t last = form_.causal && own < key + columns ? own - key : columns;
      softmax_row(i, key, columns, hides, last);
    }
    Product<C>(bf16_product_, {queries_, values_.columns(), columns / layout_.ratio, at_.probabilities,
                               kForwardKeys / layout_.ratio, at_.value + key / layout_.ratio * kPanel,
                               layout_.position_units() * kPanel, at_.sums, values_.sums_stride(), key != first_tile_});
  }

  /// q k^T of row i, whose query is at position `own`, to scores.
  void adjust_row(int64_t i, int64_t own, int64_t key, int64_t columns) {
    terms_.row({sample_, in_sample_, begin_ + first_query_ + i, begin_, layout_.sequence, own}, at_.bias, key, columns,
               at_.terms);
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    const auto scale = hn::Set(df, static_cast<float>(form_.scale));
    const auto cap = static_cast<float>(form_.soft_cap);
    float* scores = at_.scores + i * kForwardKeys;
    for (int64_t j = 0; j < columns; j += lanes) {
      const auto product = hn::LoadU(df, scores + j), term = hn::LoadU(df, at_.terms + j);
      auto slope = product;
      hn::StoreU(
          cap > 0 ? hn::Add(SoftCapped(hn::Mul(product, scale), cap, &slope), term) : hn::MulAdd(product, scale, term),
          df, scores + j);
    }
  }

  /// Scores of row i to probabilities against the running maximum; keys beyond column `last` are hidden.
  HWY_INLINE void softmax_row(int64_t i, int64_t key, int64_t columns, bool hides, int64_t last) {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    float* scores = at_.scores + i * kForwardKeys;
    const auto scale = hn::Set(df, scale_);
    auto most = hn::Set(df, -kInfinity);
    for (int64_t j = 0; j < columns; j += lanes) {
      auto score = hn::Mul(hn::LoadU(df, scores + j), scale);
      if (hides) score = hn::Add(score, hn::LoadU(df, at_.bias + key + j));
      if (j + lanes > last)
        score = hn::IfThenElse(hn::Le(hn::Iota(df, static_cast<float>(j)), hn::Set(df, static_cast<float>(last))),
                               score, hn::Set(df, -kInfinity));
      hn::StoreU(score, df, scores + j);
      most = hn::Max(most, score);
    }
    const float before = at_.most[i], now = std::max(before, hn::GetLane(hn::MaxOfLanes(df, most)));
    // A row that sees nothing yet subtracts 0: its probabilities are then exp(-inf) = 0, not NaN.
    const float shift = now == -kInfinity ? 0 : now;
    const float sum = exponentials(i, key, columns, shift);
    if (now != before && before != -kInfinity) {
      const float ratio = hn::GetLane(ExpNegative(df, hn::Set(df, before - now)));
      at_.total[i] = std::fma(at_.total[i], ratio, sum);
      scale_sums(i, ratio);
    } else {
      at_.total[i] += sum;
    }
    at_.most[i] = now;
  }

  HWY_INLINE float exponentials(int64_t i, int64_t key, int64_t columns, float shift) {
    const F32 df;
    const U32 du;
    const hn::Rebind<uint16_t, F32> dh;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    const float* scores = at_.scores + i * kForwardKeys;
    C* out = reinterpret_cast<C*>(at_.probabilities) + i * kForwardKeys;
    const auto most = hn::Set(df, shift);
    const uint16_t* bits = nullptr;
    if (draw_) {
      const int64_t query = begin_ + first_query_ + i;
      const int64_t element = (form_.draws_as(head_) * form_.sequence + query) * form_.keys + key;
      bits = PhiloxBits16(draw_->stream, draw_->first + static_cast<uint64_t>(element), columns, at_.bits);
    }
    const auto threshold = hn::Set(du, draw_ ? draw_->threshold : 0u);
    const auto factor = hn::Set(df, draw_ ? draw_->scale : 1.0f);
    auto sum = hn::Zero(df);
    for (int64_t j = 0; j < columns; j += lanes) {
      auto p = ExpNegative(df, hn::Sub(hn::LoadU(df, scores + j), most));
      sum = hn::Add(sum, p);
      if (bits) {
        const auto drawn = hn::PromoteTo(du, hn::LoadU(dh, bits + j));
        p = hn::IfThenZeroElse(hn::RebindMask(df, hn::Lt(drawn, threshold)), hn::Mul(p, factor));
      }
      StoreRounded(Rounded<C>(p), out + j);
    }
    return hn::GetLane(hn::SumOfLanes(df, sum));
  }

  HWY_INLINE void scale_sums(int64_t i, float ratio) {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    float* sums = at_.sums + i * values_.sums_stride();
    for (int64_t d = 0; d < values_.columns(); d += lanes)
      hn::StoreU(hn::Mul(hn::LoadU(df, sums + d), hn::Set(df, ratio)), df, sums + d);
  }

  void finish() {
    const F32 df;
    const auto lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t i = 0; i < queries_; ++i) {
      const int64_t query = first_query_ + i;
      const float total = at_.total[i], inverse = total == 0 ? 0 : 1 / total;
      const float* sums = at_.sums + i * values_.sums_stride();
      T* out = out_of(head_, query);
      for (int64_t d = 0; d < form_.value_size; d += lanes) {
        const auto value = hn::Mul(hn::LoadU(df, sums + d), hn::Set(df, inverse));
        const int64_t left = form_.value_size - d;
        if (left >= lanes)
          StoreF32(df, value, out + d);
        else
          StoreF32N(df, value, out + d, static_cast<size_t>(left));
      }
      if (operands_.lse)
        operands_.lse[head_ * form_.sequence + begin_ + query] =
            total == 0 ? -kInfinity : at_.most[i] + hn::GetLane(Log(df, hn::Set(df, total)));
    }
  }

  const AttentionForm& form_;
  TileProductFunction bf16_product_;
  const AttentionOperands& operands_;
  AttentionLayout layout_, values_;
  Scratch scratch_;
  ForwardBuffers at_;
  std::optional<DropoutDraw> draw_;
  ScoreTerms terms_;
  bool adjusts_;
  float scale_;  ///< of scores that are not adjusted
  int64_t head_ = -1, sample_ = 0, in_sample_ = 0, begin_ = 0, first_query_ = 0, queries_ = 0;
  int64_t run_queries_ = 0;                      ///< of the run
  int64_t ahead_ = 0;                            ///< keys before the position of the run's first query
  int64_t first_tile_ = 0;                       ///< first key of the first tile of a block of queries
  int64_t packed_head_ = -1, packed_begin_ = 0;  ///< of which keys and values are in the buffers
};

template <typename T, typename C>
void ForwardOf(const AttentionForm& form, TileProductFunction bf16_product, const AttentionOperands& operands,
               char* scratch, int64_t begin, int64_t end) {
  Forward<T, C> forward(form, bf16_product, operands, scratch);
  for (int64_t index = begin; index < end; ++index)
    if (form.segments)
      forward.head(index);
    else
      forward.block(index);
}

void ForwardBlocks(const AttentionForm& form, TileProductFunction bf16_product, const AttentionOperands& operands,
                   char* scratch, int64_t begin, int64_t end) {
  if (bf16_product) return ForwardOf<Bf16, Bf16>(form, bf16_product, operands, scratch, begin, end);
  WithStorage(form.dtype, operands.query, [&](auto* typed) {
    ForwardOf<std::remove_cvref_t<decltype(*typed)>, float>(form, nullptr, operands, scratch, begin, end);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(ForwardBlocks);

void attention_forward_blocks(const AttentionForm& form, TileProductFunction bf16_product,
                              const AttentionOperands& operands, char* scratch, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ForwardBlocks)(form, bf16_product, operands, scratch, begin, end);
}

}  // namespace ramet::kernel
#endif
