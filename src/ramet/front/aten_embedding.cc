#include <limits>

#include "ramet/front/aten_network.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_resize.h"
#include "ramet/ops/build_shapes.h"

// Embeddings, and rearrangements of channels.

namespace ramet::front {
namespace {

/// bool: whether an index is the one of padding.
Tensor is_padding(const Translation& at, Tensor indices, int64_t padding) {
  return equal(indices, full(at.build(), indices.dtype(), {}, static_cast<double>(padding)));
}

/// Rows of the table; the row of padding gets no gradient.
Tensor rows_of(const Translation& at, Tensor table, Tensor indices, int64_t padding) {
  const Tensor rows = gather(table, indices);
  if (padding < 0 || !at.trains()) return rows;
  std::vector<int64_t> dims = indices.shape().dims();
  dims.push_back(1);
  return select(reshape(is_padding(at, indices, padding), Shape(dims)), without_gradient(rows), rows);
}

Tensor table_of(const Translation& at) {
  if (at.flag("scale_grad_by_freq", false))
    at.refuse("gradients scaled by how often an index occurs", "Set scale_grad_by_freq=False");
  return at.tensor("weight");
}

std::vector<Tensor> embeddings(const Translation& at) {
  const Tensor table = table_of(at);
  return {rows_of(at, table, at.tensor("indices"), at.integer("padding_idx", -1))};
}

/// The bag of each index.
Tensor bags_of(const Translation& at, Tensor indices, Tensor offsets) {
  const Tensor positions = iota(at.build(), offsets.dtype(), {indices.dim(0)}, 0);
  const Tensor begun = search_sorted(offsets, positions, true);  // bags that begin here or before
  return subtract(begun, full(at.build(), begun.dtype(), {}, 1));
}

/// The greatest of each bag; 0 of a bag without indices.
Tensor greatest_of_bags(Tensor rows, Tensor bags, int64_t count) {
  const Tensor lowest = full(*rows.builder, rows.dtype(), {}, -std::numeric_limits<double>::infinity());
  const Shape whole{count, rows.dim(1)};
  const Tensor each = broadcast_to(reshape(bags, {rows.dim(0), 1}), rows.shape());
  const Tensor greatest = scatter_elements(broadcast_to(lowest, whole), each, rows, 0, {.by = "max"});
  return select(equal(greatest, lowest), full(*rows.builder, rows.dtype(), {}, 0), greatest);
}

/// Sums, means and maxima of bags: the weighted rows are added up in the order of the indices.
std::vector<Tensor> embedding_bags(const Translation& at) {
  const Tensor table = table_of(at), indices = at.tensor("indices");
  const int64_t mode = at.integer("mode", 0), padding = at.integer("padding_idx", -1);
  for (size_t i = 1; i < at.call().outputs.size(); ++i)
    if (at.reads(i)) at.refuse("the numbers of bags and offsets as results");
  const int64_t count = at.result().shape[0];
  Tensor offsets = at.tensor("offsets");
  if (at.flag("include_last_offset", false)) offsets = slice(offsets, {0}, {count});
  const Tensor bags = bags_of(at, indices, offsets);
  if (mode == 2) {
    Tensor rows = gather(table, indices);
    if (padding >= 0)
      rows = select(reshape(is_padding(at, indices, padding), {indices.dim(0), 1}),
                    full(at.build(), rows.dtype(), {}, -std::numeric_limits<double>::infinity()), rows);
    std::vector<Tensor> outputs{greatest_of_bags(rows, bags, count)};
    outputs.resize(at.call().outputs.size());
    return outputs;
  }
  Tensor share = full(at.build(), table.dtype(), {indices.dim(0)}, 1);
  if (padding >= 0) share = select(is_padding(at, indices, padding), full(at.build(), table.dtype(), {}, 0), share);
  Tensor factor = share;
  if (at.has("per_sample_weights")) factor = multiply(at.tensor("per_sample_weights"), share);
  const Tensor rows = multiply(gather(table, indices), reshape(factor, {indices.dim(0), 1}));
  Tensor sums = scatter_add(bags, rows, count);
  if (mode == 1) {
    const Tensor counts = scatter_add(bags, reshape(share, {indices.dim(0), 1}), count);
    sums = divide(sums, maximum(counts, full(at.build(), counts.dtype(), {}, 1)));
  }
  std::vector<Tensor> outputs{sums};
  outputs.resize(at.call().outputs.size());
  return outputs;
}

std::vector<Tensor> shuffles(const Translation& at) {
  return {pixel_shuffle(at.tensor("self"), at.integer("upscale_factor"))};
}
std::vector<Tensor> unshuffles(const Translation& at) {
  return {pixel_unshuffle(at.tensor("self"), at.integer("downscale_factor"))};
}
std::vector<Tensor> channel_shuffles(const Translation& at) {
  return {channel_shuffle(at.tensor("self"), at.integer("groups"))};
}

constexpr OperatorEntry kOperators[] = {
    {"aten.embedding", embeddings},
    {"aten.embedding_bag", embedding_bags},
    {"aten._embedding_bag", embedding_bags},
    {"aten._embedding_bag_forward_only", embedding_bags},
    {"aten.pixel_shuffle", shuffles},
    {"aten.pixel_unshuffle", unshuffles},
    {"aten.channel_shuffle", channel_shuffles},
    {"aten.native_channel_shuffle", channel_shuffles},
};

}  // namespace

std::span<const OperatorEntry> embedding_operators() { return kOperators; }

}  // namespace ramet::front
