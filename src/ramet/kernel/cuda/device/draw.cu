#include "draw_arguments.h"
#include "packs.cuh"
#include "place.cuh"
#include "random.cuh"

// Random numbers by logical element. Definitions: Type, kKind (0: uniform, 1: normal, 2: integers, 3: normal, drawn
// again beyond two deviations).

namespace ramet_device {

/// A draw of a normal distribution; the attempt takes the place of the step.
__device__ inline double truncated_normal(RandomStream stream, unsigned long long element) {
  double draw = normal_of(stream, element);
  for (unsigned attempt = 1; draw > 2 || draw < -2; ++attempt) {
    stream.step = attempt;
    draw = attempt < 64 ? normal_of(stream, element) : 0;
  }
  return draw;
}

__device__ __forceinline__ Type::Register drawn(const DrawArguments& a, const RandomStream& stream,
                                                unsigned long long element) {
  if (kKind == 2) {
    const auto bound = static_cast<unsigned>(a.b - a.a);
    return static_cast<Type::Register>(static_cast<long long>(a.a) +
                                       static_cast<long long>(__umulhi(stream.bits(element), bound)));
  }
  if (kKind == 0) {
    const double unit = static_cast<double>(stream.bits(element) >> 8) * 0x1p-24;
    return static_cast<Type::Register>(static_cast<float>(a.a + (a.b - a.a) * unit));
  }
  const double draw = kKind == 1 ? normal_of(stream, element) : truncated_normal(stream, element);
  return static_cast<Type::Register>(static_cast<float>(a.a + a.b * draw));
}

RAMET_KERNEL(256, draw, DrawArguments, a) {
  RandomStream stream{a.key0, a.key1, 0, a.tensor};
  unsigned long long first = 0;
  if (a.counter) {
    stream.step = static_cast<unsigned>(a.counter[0]);
    first = static_cast<unsigned long long>(a.counter[1]) * static_cast<unsigned long long>(a.logical_elements);
  }
  for (Index at = first_index(); at < a.elements; at += index_step()) {
    const Index logical = a.placed ? place_of<false>(a.place, at) : at;
    // What is padding has no number.
    const bool padding = a.placed && at + a.place.first >= a.place.elements;
    store_one<Type>(a.output, at, padding ? 0 : drawn(a, stream, first + static_cast<unsigned long long>(logical)));
  }
}

}  // namespace ramet_device
