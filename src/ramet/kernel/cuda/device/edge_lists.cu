// Whether the lists of a graph's edges hold what they must (ops/neighbors.h, check_neighbors): pointers ascend from 0
// within the edges, and numbers of real places are in range.

#include "edges.cuh"

namespace ramet_device {

__device__ __forceinline__ void wrong(const EdgeListArguments& a, int list, long long least, long long place,
                                      long long found) {
  report_fault(static_cast<Fault*>(a.faults), a.kernel, static_cast<unsigned>(list) + 8u * static_cast<unsigned>(least),
               found, place);
}

__device__ __forceinline__ void check_pointers(const EdgeListArguments& a, int list) {
  const PointerList& pointers = a.pointers[list];
  if (pointers.at == nullptr) return;
  for (Index index = first_index(); index < a.batch * (pointers.rows + 1); index += index_step()) {
    const bool first = index % (pointers.rows + 1) == 0;
    const int least = first ? 0 : pointers.at[index - 1], found = pointers.at[index];
    if (found < least || found > (first ? 0 : a.edges)) wrong(a, list, least > 0 ? least : 0, index, found);
  }
}

__device__ __forceinline__ void check_numbers(const EdgeListArguments& a, int list) {
  const NumberList& numbers = a.numbers[list];
  if (numbers.at == nullptr) return;
  const PointerList& pointers = a.pointers[numbers.pointers];
  for (Index index = first_index(); index < a.batch * a.edges; index += index_step()) {
    const Index sample = index / a.edges, place = index % a.edges;
    const int found = numbers.at[index];
    if (place < pointers.at[sample * (pointers.rows + 1) + pointers.rows] && (found < 0 || found >= numbers.bound))
      wrong(a, kPointerLists + list, 0, index, found);
  }
}

}  // namespace ramet_device

RAMET_KERNEL(256, edge_lists, ramet_device::EdgeListArguments, a) {
  for (int list = 0; list < ramet_device::kPointerLists; ++list) ramet_device::check_pointers(a, list);
  for (int list = 0; list < ramet_device::kNumberLists; ++list) ramet_device::check_numbers(a, list);
}
