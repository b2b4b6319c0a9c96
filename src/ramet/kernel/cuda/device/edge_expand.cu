// Rows to the edges that they have (segment_expand). Definition: Unit, what a thread moves at once.

#include "edges.cuh"

RAMET_KERNEL(256, edge_expand, ramet_device::ExpandArguments, a) {
  using ramet_device::Index;
  for (Index index = ramet_device::first_index(); index < a.batch * a.edges * a.width;
       index += ramet_device::index_step()) {
    const Index place = index / a.width % a.edges, sample = index / a.width / a.edges;
    Unit unit{};
    if (place < ramet_device::real_places(a.ptr, sample, a.rows, a.edges)) {
      const Index row = ramet_device::row_of_place(a.ptr, sample, a.rows, place);
      unit = static_cast<const Unit*>(a.x)[(sample * a.rows + row) * a.width + index % a.width];
    }
    static_cast<Unit*>(a.out)[index] = unit;
  }
}
