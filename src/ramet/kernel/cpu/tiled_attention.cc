#include "ramet/kernel/cpu/tiled_attention.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/attention_layout.h"
#include "ramet/kernel/cpu/attention_pass.h"
#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::kernel {
namespace {

/// First block of rank's share: blocks are shared by the work in them, which under a causal mask grows with the
/// position. `blocks` a head.
int64_t share_begin(int64_t heads, int64_t blocks, bool causal, int rank, int parts) {
  const int64_t head_work = causal ? blocks * (blocks + 1) / 2 : blocks;
  const int64_t wanted = heads * head_work * rank / parts;
  const int64_t head = wanted / head_work;
  int64_t block = 0, work = head * head_work;
  while (work < wanted) work += causal ? ++block : (++block, 1);
  return head * blocks + block;
}

}  // namespace

TiledAttention::TiledAttention(const AttentionForm& form, bool gradient, int threads)
    : form_(form),
      gradient_(gradient),
      bf16_(form.dtype == DType::kBF16 && cpu_level() == CpuLevel::kAvx512Bf16),
      threads_(threads) {
  const AttentionLayout layout{gradient ? form.sequence : form.keys, form.head_size, bf16_ ? 2 : 1};
  Scratch scratch(nullptr);
  if (gradient)
    BackwardBuffers(layout, scratch);
  else
    ForwardBuffers(layout, scratch);
  rank_bytes_ = scratch.used();
}

std::string TiledAttention::refuse(const AttentionForm& form) {
  if (size_of(form.dtype) < 2) return "8-bit floating types are not for this kernel";
  return "";
}

void TiledAttention::run(const AttentionOperands& operands, void* scratch, ThreadTeam& team) const {
  if (team.size() != threads_)
    internal_error("TiledAttention::run", "prepared for " + std::to_string(threads_) + " threads got a team of " +
                                              std::to_string(team.size()));
  if (form_.batch * form_.heads * form_.sequence == 0) return;
  if (gradient_)
    backward(operands, static_cast<char*>(scratch), team);
  else
    forward(operands, static_cast<char*>(scratch), team);
}

void TiledAttention::forward(const AttentionOperands& operands, char* scratch, ThreadTeam& team) const {
  const int64_t heads = form_.batch * form_.heads;
  if (form_.segments) {
    team.split(heads, 1, [&](int64_t begin, int64_t end, int rank) {
      attention_forward_blocks(form_, bf16_, operands, scratch + rank * rank_bytes_, begin, end);
    });
    return;
  }
  const int64_t blocks = (form_.sequence + kForwardQueries - 1) / kForwardQueries;
  team.run([&](int rank) {
    const int64_t begin = share_begin(heads, blocks, form_.causal, rank, threads_);
    const int64_t end = share_begin(heads, blocks, form_.causal, rank + 1, threads_);
    if (begin < end) attention_forward_blocks(form_, bf16_, operands, scratch + rank * rank_bytes_, begin, end);
  });
}

void TiledAttention::backward(const AttentionOperands& operands, char* scratch, ThreadTeam& team) const {
  team.split(form_.batch * form_.heads, 1, [&](int64_t begin, int64_t end, int rank) {
    attention_backward_heads(form_, bf16_, operands, scratch + rank * rank_bytes_, begin, end);
  });
}

}  // namespace ramet::kernel
