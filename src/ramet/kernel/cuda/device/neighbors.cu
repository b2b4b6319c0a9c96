// Sums, products, extremes and softmax over the edges of graphs, as kernel/cpu/neighbors.cc: edges of a row follow one
// another, in a thread. Definition: kFeatures, how many features of a row a thread sums.

#include "edges.cuh"
#include "math.cuh"

namespace ramet_device {

struct alignas(4 * kFeatures) Features {
  float at[kFeatures];
};

/// Features of one row that a thread has.
struct RowPart {
  Index sample, row, first;
};
__device__ __forceinline__ RowPart part_of(Index index, Index parts, Index rows, int features) {
  const Index row = index / parts;
  return {row / rows, row % rows, index % parts * features};
}

/// A chain over the places of a row.
__device__ __forceinline__ void sum_part(const EdgeArguments& a, const RowPart& part) {
  constexpr int kAtOnce = 4;
  Places places = places_of(a.ptr, part.sample, part.row, a.rows, a.edges);
  if (a.from_rows == 0) places.end = places.begin;
  const Index head = part.first / (a.width / a.heads), sample = part.sample * a.edges;
  const float* x = a.x + part.sample * a.from_rows * a.width + part.first;
  Features sums{};
  for (Index k = places.begin; k < places.end; k += kAtOnce) {
    Features values[kAtOnce];
    float weights[kAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const Index place = k + i < places.end ? k + i : places.end - 1;
      const Index row = a.from != nullptr ? held(a.from[sample + place], 0, a.from_rows - 1) : place;
      const Index edge = a.edge != nullptr ? held(a.edge[sample + place], 0, a.edges - 1) : place;
      values[i] = *reinterpret_cast<const Features*>(x + row * a.width);
      weights[i] = a.weight != nullptr ? a.weight[(sample + edge) * a.heads + head] : 1.0f;
    }
    RAMET_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      if (k + i >= places.end) continue;
      for (int f = 0; f < kFeatures; ++f)
        sums.at[f] =
            a.weight != nullptr ? __fmaf_rn(weights[i], values[i].at[f], sums.at[f]) : sums.at[f] + values[i].at[f];
    }
  }
  const Index count = places.end - places.begin;
  for (int f = 0; f < kFeatures && a.mean != 0; ++f)
    sums.at[f] = __fdiv_rn(sums.at[f], static_cast<float>(count > 1 ? count : 1));
  auto* out = static_cast<float*>(a.out) + (part.sample * a.rows + part.row) * a.width + part.first;
  *reinterpret_cast<Features*>(out) = sums;
}

/// Sixteen threads have a product: strided lanes, which meet as sums over rows do.
__device__ __forceinline__ void multiply_edge(const EdgeArguments& a, Index index, bool stores) {
  constexpr int kLanes = 16;
  const Index head = index % a.heads, edge = index / a.heads % a.edges, sample = index / a.heads / a.edges;
  const Index size = a.width / a.heads;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const bool real = a.from_rows > 0 && edge < real_places(a.ptr, sample, a.rows, a.edges);
  float sum = 0.0f;
  if (real) {
    const Index row = row_of_place(a.ptr, sample, a.rows, edge);
    const Index from = held(a.from[sample * a.edges + edge], 0, a.from_rows - 1);
    const float* left = a.x + (sample * a.rows + row) * a.width + head * size;
    const float* right = a.b + (sample * a.from_rows + from) * a.width + head * size;
    for (Index at = 0; at < size; at += kLanes) {
      const bool here = at + lane < size;
      sum = __fmaf_rn(here ? left[at + lane] : 0.0f, here ? right[at + lane] : 0.0f, sum);
    }
  }
  for (int by = kLanes / 2; by > 0; by /= 2) sum += __shfl_down_sync(~0u, sum, static_cast<unsigned>(by));
  if (lane == 0 && stores) static_cast<float*>(a.out)[index] = real ? sum : 0.0f;
}

/// The greatest (or least) of a row's edges, and its place; of none 0 and -1. NaN is beyond all.
__device__ __forceinline__ void extreme_of(const EdgeArguments& a, const RowPart& part) {
  const Places places = places_of(a.ptr, part.sample, part.row, a.rows, a.edges);
  const float* x = a.x + part.sample * a.edges * a.width + part.first;
  const bool any = places.begin < places.end;
  float value = any ? x[places.begin * a.width] : 0.0f;
  Index place = any ? places.begin : -1;
  for (Index edge = places.begin + 1; edge < places.end; ++edge) {
    const float next = x[edge * a.width];
    const bool better = is_nan(next) ? !is_nan(value) : next * a.sign > value * a.sign;
    if (better) value = next, place = edge;
  }
  const Index at = (part.sample * a.rows + part.row) * a.width + part.first;
  static_cast<float*>(a.out)[at] = value;
  a.places[at] = static_cast<int>(place);
}

__device__ __forceinline__ void softmax_of(const EdgeArguments& a, const RowPart& part) {
  const Places places = places_of(a.ptr, part.sample, part.row, a.rows, a.edges);
  if (places.begin == places.end) return;
  const Index first = part.sample * a.edges * a.width + part.first;
  const float* x = a.x + first;
  float* out = static_cast<float*>(a.out) + first;
  float most = x[places.begin * a.width], sum = 0.0f;
  for (Index edge = places.begin + 1; edge < places.end; ++edge) {
    const float next = x[edge * a.width];
    most = most > next ? most : next;
  }
  for (Index edge = places.begin; edge < places.end; ++edge) {
    const float power = exp_of(x[edge * a.width] - most);
    sum += power;
    out[edge * a.width] = power;
  }
  for (Index edge = places.begin; edge < places.end; ++edge) out[edge * a.width] = __fdiv_rn(out[edge * a.width], sum);
}

/// Places that hold no edge get zeros.
__device__ __forceinline__ void clear_tails(const EdgeArguments& a) {
  for (Index index = first_index(); index < a.batch * a.edges * a.width; index += index_step()) {
    const Index edge = index / a.width;
    if (edge % a.edges >= real_places(a.ptr, edge / a.edges, a.rows, a.edges)) static_cast<float*>(a.out)[index] = 0.0f;
  }
}

}  // namespace ramet_device

RAMET_KERNEL(256, edge_sums, ramet_device::EdgeArguments, a) {
  const ramet_device::Index parts = a.width / kFeatures;
  for (ramet_device::Index i = ramet_device::first_index(); i < a.batch * a.rows * parts;
       i += ramet_device::index_step())
    ramet_device::sum_part(a, ramet_device::part_of(i, parts, a.rows, kFeatures));
}

RAMET_KERNEL(256, edge_products, ramet_device::EdgeArguments, a) {
  const ramet_device::Index count = a.batch * a.edges * a.heads, step = ramet_device::index_step() / 16;
  // The two products of a warp go on together, for their threads meet.
  for (ramet_device::Index i = ramet_device::first_index() / 16; i - i % 2 < count; i += step)
    ramet_device::multiply_edge(a, i < count ? i : count - 1, i < count);
}

RAMET_KERNEL(256, edge_extremes, ramet_device::EdgeArguments, a) {
  const ramet_device::Index count = a.batch * a.rows * a.width;
  for (ramet_device::Index i = ramet_device::first_index(); i < count; i += ramet_device::index_step())
    ramet_device::extreme_of(a, ramet_device::part_of(i, a.width, a.rows, 1));
}

RAMET_KERNEL(256, edge_softmax, ramet_device::EdgeArguments, a) {
  const ramet_device::Index count = a.batch * a.rows * a.width;
  for (ramet_device::Index i = ramet_device::first_index(); i < count; i += ramet_device::index_step())
    ramet_device::softmax_of(a, ramet_device::part_of(i, a.width, a.rows, 1));
  ramet_device::clear_tails(a);
}
