// Copies of operands whose rows do not begin at multiples of 16 bytes, and of 8-bit floats as bf16. Definition: Type,
// of convert.cuh, in which they are stored.

#include "product.cuh"
#include "tensor_core.cuh"

namespace ramet_device {

__device__ __forceinline__ unsigned bits_of(Type::Stored stored) {
  if constexpr (sizeof(Type::Stored) == 2) return stored;
  return __float_as_uint(Type::widen(stored)) >> 16;  // without loss
}

RAMET_KERNEL(256, product_copy, ProductCopyArguments, p) {
  const int vectors = p.stride / 8;
  for (Index i = first_index(); i < p.rows * vectors; i += index_step()) {
    const Index row = i / vectors;
    const int column = static_cast<int>(i % vectors) * 8;
    const auto* const from = static_cast<const Type::Stored*>(p.from) + row * p.columns;
    Bytes16 to;
    RAMET_UNROLL
    for (int j = 0; j < 8; j += 2) {
      const unsigned low = column + j < p.columns ? bits_of(from[column + j]) : 0u;
      const unsigned high = column + j + 1 < p.columns ? bits_of(from[column + j + 1]) : 0u;
      to.words[j / 2] = low | high << 16;
    }
    static_cast<Bytes16*>(p.to)[i] = to;
  }
}

}  // namespace ramet_device
