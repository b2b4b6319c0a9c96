// Parts of products along k, summed along the balanced tree of ops/reduce_order.h.

#include "product.cuh"

namespace ramet_device {

RAMET_KERNEL(256, product_parts, ProductPartsArguments, p) {
  for (Index i = first_index(); i < p.count; i += index_step()) {
    float* const parts = p.parts + i;
    // Neighbours, then neighbours of those: the tree whose left sides are powers of two.
    for (Index step = 1; step < p.chunks; step *= 2)
      for (Index part = 0; part + step < p.chunks; part += 2 * step)
        parts[part * p.part] += parts[(part + step) * p.part];
    store_result(p.result.out_type, p.result.out, i, finished(p.result, parts[0], i, static_cast<int>(i % p.n)));
  }
}

}  // namespace ramet_device
