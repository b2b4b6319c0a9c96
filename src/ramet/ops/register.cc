#include "ramet/ir/all_ops.h"

namespace ramet::ops {

// One function a family; each adds the entries of its file.
void register_elementwise_ops(OpRegistry& registry);
void register_map_ops(OpRegistry& registry);
void register_shape_ops(OpRegistry& registry);
void register_state_ops(OpRegistry& registry);
void register_part_ops(OpRegistry& registry);
void register_indexing_ops(OpRegistry& registry);
void register_take_ops(OpRegistry& registry);
void register_order_ops(OpRegistry& registry);
void register_reduce_ops(OpRegistry& registry);
void register_matmul_ops(OpRegistry& registry);
void register_sparse_ops(OpRegistry& registry);
void register_sparse_evolve_ops(OpRegistry& registry);
void register_neighbor_ops(OpRegistry& registry);
void register_segment_head_ops(OpRegistry& registry);
void register_edge_map_op(OpRegistry& registry);
void register_halo_ops(OpRegistry& registry);
void register_radial_ops(OpRegistry& registry);
void register_pair_ops(OpRegistry& registry);
void register_path_ops(OpRegistry& registry);
void register_sparse_row_ops(OpRegistry& registry);
void register_rescale_op(OpRegistry& registry);
void register_normalize_ops(OpRegistry& registry);
void register_channel_norm_ops(OpRegistry& registry);
void register_pooling_ops(OpRegistry& registry);
void register_convolution_ops(OpRegistry& registry);
void register_attention_ops(OpRegistry& registry);
void register_cache_ops(OpRegistry& registry);
void register_rotary_op(OpRegistry& registry);
void register_recurrent_ops(OpRegistry& registry);
void register_loss_ops(OpRegistry& registry);
void register_loss_row_ops(OpRegistry& registry);
void register_ctc_ops(OpRegistry& registry);
void register_draw_ops(OpRegistry& registry);
void register_optimizer_ops(OpRegistry& registry);
void register_rounding_ops(OpRegistry& registry);
void register_large_batch_optimizer_ops(OpRegistry& registry);
void register_exponent_ops(OpRegistry& registry);
void register_resize_ops(OpRegistry& registry);
void register_collective_ops(OpRegistry& registry);

}  // namespace ramet::ops

void ramet::ir::register_all_ops(OpRegistry& registry) {
  ops::register_elementwise_ops(registry);
  ops::register_map_ops(registry);
  ops::register_shape_ops(registry);
  ops::register_state_ops(registry);
  ops::register_part_ops(registry);
  ops::register_indexing_ops(registry);
  ops::register_take_ops(registry);
  ops::register_order_ops(registry);
  ops::register_reduce_ops(registry);
  ops::register_matmul_ops(registry);
  ops::register_sparse_ops(registry);
  ops::register_sparse_evolve_ops(registry);
  ops::register_neighbor_ops(registry);
  ops::register_segment_head_ops(registry);
  ops::register_edge_map_op(registry);
  ops::register_halo_ops(registry);
  ops::register_radial_ops(registry);
  ops::register_pair_ops(registry);
  ops::register_path_ops(registry);
  ops::register_sparse_row_ops(registry);
  ops::register_rescale_op(registry);
  ops::register_normalize_ops(registry);
  ops::register_channel_norm_ops(registry);
  ops::register_pooling_ops(registry);
  ops::register_convolution_ops(registry);
  ops::register_attention_ops(registry);
  ops::register_cache_ops(registry);
  ops::register_rotary_op(registry);
  ops::register_recurrent_ops(registry);
  ops::register_loss_ops(registry);
  ops::register_loss_row_ops(registry);
  ops::register_ctc_ops(registry);
  ops::register_draw_ops(registry);
  ops::register_optimizer_ops(registry);
  ops::register_rounding_ops(registry);
  ops::register_large_batch_optimizer_ops(registry);
  ops::register_exponent_ops(registry);
  ops::register_resize_ops(registry);
  ops::register_collective_ops(registry);
}
