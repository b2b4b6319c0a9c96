// The gradient of a bias that samples share: the sum of what blocks of them gave, block after block.

#include "attention_arguments.h"
#include "kernel.cuh"

namespace ramet_device {

RAMET_KERNEL(256, attention_blocks, AttentionBlocksArguments, a) {
  for (Index i = first_index(); i < a.elements; i += index_step()) {
    float sum = a.sums[i];
    for (int block = 1; block < a.blocks; ++block) sum += a.sums[block * a.elements + i];
    a.dbias[i] = sum;
  }
}

}  // namespace ramet_device
