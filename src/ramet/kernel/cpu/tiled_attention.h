#pragma once

#include <cstdint>
#include <string>

#include "ramet/base/thread_team.h"
#include "ramet/kernel/cpu/attention_tile.h"
#include "ramet/ops/attention.h"

namespace ramet::kernel {

/// Addresses of the operands of an attention; those that a form lacks, or a direction does not use, are null.
/// query, key and value (and their gradients) are the addresses of position 0 of each, also in one joint tensor.
struct AttentionOperands {
  const void *query = nullptr, *key = nullptr, *value = nullptr, *mask = nullptr, *bias = nullptr;
  const float* slopes = nullptr;
  const int64_t* counter = nullptr;
  const int32_t* first = nullptr;  ///< of cached attention: the position of each sample's first query
  void* out = nullptr;
  float* lse = nullptr;  ///< may be null in the forward pass
  const void* dout = nullptr;
  void *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
  float* dbias = nullptr;
};

/// Attention after FlashAttention-2 (Dao, arXiv 2307.08691): tiles of scores are made, used and forgotten; the backward
/// pass makes them again from the log-sum-exp. Sums over keys and over queries go by fixed tiles in order, so that
/// results depend neither on the team nor on how samples and heads are split.
/// bf16 operands are multiplied as they are where the processor does, with tiles of probabilities rounded to bf16;
/// all others in f32.
class TiledAttention {
 public:
  /// `bf16_product`: the products of bf16; null: the processor's.
  TiledAttention(const AttentionForm& form, bool gradient, int threads, TileProductFunction bf16_product = nullptr);
  /// Why this kernel does not take the form; "" when it does.
  static std::string refuse(const AttentionForm& form);

  int64_t scratch_bytes() const { return threads_ * rank_bytes_ + shared_bytes_; }
  void run(const AttentionOperands& operands, void* scratch, ThreadTeam& team) const;

 private:
  void forward(const AttentionOperands& operands, char* scratch, ThreadTeam& team) const;
  void backward(const AttentionOperands& operands, char* scratch, ThreadTeam& team) const;
  void no_queries(const AttentionOperands& operands) const;
  void combine(const float* sums, float* dbias, ThreadTeam& team) const;

  AttentionForm form_;
  bool gradient_;
  TileProductFunction bf16_product_;  // null: all products are in f32
  int threads_;
  int64_t rank_bytes_;
  int64_t shared_bytes_ = 0;  // sums of the bias's gradient over blocks of samples and chunks of heads
};

}  // namespace ramet::kernel
