// Tensors from nothing. Compiled with Element, a type of convert.cuh.

#include "convert.cuh"
#include "move_arguments.h"

namespace ramet_device {

using Stored = typename Element::Stored;

/// 16 bytes at once; the last ones one by one.
RAMET_KERNEL(256, fill, FillArguments, a) {
  constexpr int kAtOnceHere = 16 / static_cast<int>(sizeof(Stored));
  const unsigned low = static_cast<unsigned>(a.pattern), high = static_cast<unsigned>(a.pattern >> 32);
  const Index whole = a.elements / kAtOnceHere;
  for (Index i = first_index(); i < whole; i += index_step()) static_cast<uint4*>(a.to)[i] = {low, high, low, high};
  const Index rest = whole * kAtOnceHere + first_index();
  if (rest < a.elements) static_cast<Stored*>(a.to)[rest] = *reinterpret_cast<const Stored*>(&a.pattern);
}

/// Coordinates along one axis.
RAMET_KERNEL(256, iota, IotaArguments, a) {
  for (Index i = first_index(); i < a.elements; i += index_step())
    static_cast<Stored*>(a.to)[i] = Element::narrow(static_cast<typename Element::Register>(i / a.inner % a.extent));
}

}  // namespace ramet_device
