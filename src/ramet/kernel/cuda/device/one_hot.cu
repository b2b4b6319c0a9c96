// Compiled with Number, the type of indices, and Unit, an unsigned type of an element's size.

#include "gather_arguments.h"
#include "kernel.cuh"

namespace ramet_device {

using Element = Unit;

RAMET_KERNEL(256, one_hot, OneHotArguments, a) {
  const auto* const index = static_cast<const Number*>(a.index);
  auto* const out = static_cast<Element*>(a.out);
  for (Index i = first_index(); i < a.elements; i += index_step())
    out[i] = static_cast<Index>(index[i / a.depth]) == i % a.depth ? static_cast<Element>(a.one) : Element(0);
}

}  // namespace ramet_device
