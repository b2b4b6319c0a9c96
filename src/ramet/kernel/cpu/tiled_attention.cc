#include "ramet/kernel/cpu/tiled_attention.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/attention_layout.h"
#include "ramet/kernel/cpu/attention_pass.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/ops/reduce_order.h"

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

TiledAttention::TiledAttention(const AttentionForm& form, bool gradient, int threads, TileProductFunction bf16_product)
    : form_(form), gradient_(gradient), bf16_product_(bf16_product), threads_(threads) {
  if (!bf16_product_ && cpu_level() >= CpuLevel::kAvx512Bf16)
    bf16_product_ = cpu_level() < CpuLevel::kAmxBf16 ? tile_product_avx512bf16 : tile_product_bf16;
  if (form.dtype != DType::kBF16) bf16_product_ = nullptr;
  const int64_t ratio = bf16_product_ ? 2 : 1, positions = gradient ? form.sequence : form.keys;
  const int64_t whole = whole_columns(bf16_product_);
  const AttentionLayout layout{positions, form.head_size, ratio, whole},
      values{positions, form.value_size, ratio, whole};
  Scratch scratch(nullptr);
  if (gradient)
    BackwardBuffers(form, layout, values, scratch);
  else
    ForwardBuffers(form, layout, values, scratch);
  rank_bytes_ = scratch.used();
  const BackwardUnits units(form);
  if (units.combines(form))
    shared_bytes_ =
        units.count() * units.planes * form.bias_shape[2] * form.bias_shape[3] * static_cast<int64_t>(sizeof(float));
}

std::string TiledAttention::refuse(const AttentionForm& form) {
  if (size_of(form.dtype) < 2 || size_of(form.bias_dtype) < 2) return "8-bit floating types are not for this kernel";
  return "";
}

void TiledAttention::run(const AttentionOperands& operands, void* scratch, ThreadTeam& team) const {
  if (team.size() != threads_)
    internal_error("TiledAttention::run", "prepared for " + std::to_string(threads_) + " threads got a team of " +
                                              std::to_string(team.size()));
  if (form_.batch * form_.heads * form_.sequence == 0) return gradient_ ? no_queries(operands) : void();
  if (gradient_)
    backward(operands, static_cast<char*>(scratch), team);
  else
    forward(operands, static_cast<char*>(scratch), team);
}

void TiledAttention::forward(const AttentionOperands& operands, char* scratch, ThreadTeam& team) const {
  const int64_t heads = form_.batch * form_.heads;
  if (form_.segments) {
    team.split(heads, 1, [&](int64_t begin, int64_t end, int rank) {
      attention_forward_blocks(form_, bf16_product_, operands, scratch + rank * rank_bytes_, begin, end);
    });
    return;
  }
  const int64_t blocks = (form_.sequence + kForwardQueries - 1) / kForwardQueries;
  const bool triangle = form_.causal && form_.left < 0 && form_.ahead == 0;
  team.run([&](int rank) {
    const int64_t begin = share_begin(heads, blocks, triangle, rank, threads_);
    const int64_t end = share_begin(heads, blocks, triangle, rank + 1, threads_);
    if (begin < end) attention_forward_blocks(form_, bf16_product_, operands, scratch + rank * rank_bytes_, begin, end);
  });
}

void TiledAttention::backward(const AttentionOperands& operands, char* scratch, ThreadTeam& team) const {
  const BackwardUnits units(form_);
  const bool combines = units.combines(form_);
  float* const sums = combines ? reinterpret_cast<float*>(scratch + threads_ * rank_bytes_) : operands.dbias;
  team.split(units.count(), 1, [&](int64_t begin, int64_t end, int rank) {
    attention_backward_units(form_, bf16_product_, operands, sums, scratch + rank * rank_bytes_, begin, end);
  });
  if (combines) combine(sums, operands.dbias, team);
}

/// The order of AttentionForm: blocks of samples in order, then chunks of heads by a tree.
void TiledAttention::combine(const float* sums, float* dbias, ThreadTeam& team) const {
  const BackwardUnits units(form_);
  const int64_t plane = form_.bias_shape[2] * form_.bias_shape[3];
  const int64_t heads = units.head_sets * units.planes, chunks = form_.bias_sums_heads() ? units.head_sets : 1;
  const int64_t blocks = form_.bias_sums_samples() ? units.blocks : 1;
  const int64_t row = form_.bias_shape[1] * plane;
  team.split(form_.bias_shape[0] * row, 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* first = sums + i / row * heads * plane + i % row;
      const auto chunk = [&](int64_t c) {
        float sum = first[c * plane];
        for (int64_t block = 1; block < blocks; ++block) sum += first[(block * heads + c) * plane];
        return sum;
      };
      dbias[i] = tree_combine<float>(0, chunks, chunk, [](float a, float b) { return a + b; });
    }
  });
}

/// Keys that no query sees.
void TiledAttention::no_queries(const AttentionOperands& operands) const {
  const auto zero = [&](void* to, int64_t elements, size_t size) {
    if (to && elements > 0) std::memset(to, 0, static_cast<size_t>(elements) * size);
  };
  const int64_t positions = form_.batch * form_.keys;
  if (!form_.joint) {
    zero(operands.dkey, positions * form_.position_stride(1), size_of(form_.dtype));
    zero(operands.dvalue, positions * form_.position_stride(2), size_of(form_.dtype));
  }
  if (form_.bias_gradient) zero(operands.dbias, form_.bias_shape.elements(), sizeof(float));
}

}  // namespace ramet::kernel
