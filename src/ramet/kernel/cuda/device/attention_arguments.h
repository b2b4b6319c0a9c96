#pragma once

namespace ramet_device {

/// What the kernels of one attention get. Addresses of operands that a form lacks are null. Strides are in elements.
struct AttentionArguments {
  // Position 0 of head 0, also in a joint tensor.
  const void *query, *key, *value;
  void *dquery, *dkey, *dvalue;
  const void *dout, *bias, *mask;
  void* out;
  float* lse;    ///< may be null in the forward pass
  float* dbias;  ///< [sample blocks, head sets, queries, keys]: the gradient itself, or in scratch
  const float* slopes;
  const long long* counter;  ///< {step, micro-batch}
  const int* first;          ///< of cached attention: the position of each sample's first query
  // In scratch.
  int* tiles;  ///< with segments: [samples][tile_ints]: how many tiles the runs have, then each tile
  /// With dropout: [samples, heads, queries][keep_words]: a bit a key, 1 where it is kept. Of 32 keys the even ones
  /// come first, then the odd ones.
  unsigned* keep;
  float* delta;  ///< [samples, heads, queries]: sums of dout out

  int batch, sequence, keys, heads, key_heads, head_size, value_size;
  int query_stride, key_stride, value_stride;  ///< from position to position
  int ahead, left, right;                      ///< as AttentionForm has them
  int mask_bytes, tile_ints, keep_words;
  long long mask_strides[4], bias_strides[4];  ///< along samples, heads, queries, keys
  float scale, cap, one_by_cap;

  // Dropout: the stream's key and tensor, and which logical head the heads are: head_first + sample head_sample + head.
  unsigned draw_key[2], draw_tensor, draw_below;
  float draw_factor;
  long long draws, head_first, head_sample;

  // The gradient of the bias: sums over blocks of samples and sets of neighbouring heads.
  int sample_blocks, head_sets;
};

/// The gradient of a bias as the sum of those of blocks of samples, in their order.
struct AttentionBlocksArguments {
  const float* sums;  ///< [blocks, elements]
  float* dbias;
  long long elements;
  int blocks;
};

}  // namespace ramet_device
