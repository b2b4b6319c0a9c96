// Units between strided views, bit for bit. Compiled with Unit, an unsigned type or uint4, and as strides.cuh asks.

#include "strides.cuh"

namespace ramet_device {

using Moved = Unit;

RAMET_KERNEL(256, move, MoveArguments, a) {
  const auto* const from = static_cast<const Moved*>(a.from);
  auto* const to = static_cast<Moved*>(a.to);
  for (Index i = first_index(); i < a.units; i += index_step()) {
    const Offsets offsets = offsets_of(a, i);
    to[offsets.to] = from[offsets.from];
  }
}

}  // namespace ramet_device
