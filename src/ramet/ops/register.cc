#include "ramet/ir/op.h"

namespace ramet::ops {

// One function a family; each adds the entries of its file.
void register_elementwise_ops(OpRegistry& registry);
void register_map_ops(OpRegistry& registry);
void register_shape_ops(OpRegistry& registry);
void register_state_ops(OpRegistry& registry);
void register_part_ops(OpRegistry& registry);
void register_indexing_ops(OpRegistry& registry);
void register_reduce_ops(OpRegistry& registry);
void register_matmul_ops(OpRegistry& registry);
void register_rescale_op(OpRegistry& registry);
void register_normalize_ops(OpRegistry& registry);
void register_attention_ops(OpRegistry& registry);
void register_loss_ops(OpRegistry& registry);
void register_optimizer_ops(OpRegistry& registry);
void register_rounding_ops(OpRegistry& registry);
void register_large_batch_optimizer_ops(OpRegistry& registry);
void register_exponent_ops(OpRegistry& registry);
void register_collective_ops(OpRegistry& registry);

void register_all_ops(OpRegistry& registry) {
  register_elementwise_ops(registry);
  register_map_ops(registry);
  register_shape_ops(registry);
  register_state_ops(registry);
  register_part_ops(registry);
  register_indexing_ops(registry);
  register_reduce_ops(registry);
  register_matmul_ops(registry);
  register_rescale_op(registry);
  register_normalize_ops(registry);
  register_attention_ops(registry);
  register_loss_ops(registry);
  register_optimizer_ops(registry);
  register_rounding_ops(registry);
  register_large_batch_optimizer_ops(registry);
  register_exponent_ops(registry);
  register_collective_ops(registry);
}

}  // namespace ramet::ops
