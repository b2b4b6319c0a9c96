#pragma once

// Arguments of neighbors.cu and edge_lists.cu.

namespace ramet_device {

/// Lists that edge_lists.cu checks, in order: pointers, and numbers of the places that the first or the second of them
/// count. What a fault calls them.
constexpr int kPointerLists = 2, kNumberLists = 3;

struct PointerList {
  const int* at;  ///< [batch, rows + 1], or none
  long long rows;
};
struct NumberList {
  const int* at;  ///< [batch, edges], or none
  long long bound;
  int pointers;  ///< the list that says how many are real
};

/// A fault's kind is the list (pointers first) + 8 times the least number that fits, its `limit` the place.
struct EdgeListArguments {
  void* faults;
  long long batch, edges;
  PointerList pointers[kPointerLists];
  NumberList numbers[kNumberLists];
  unsigned kernel;
};

/// Of row i of the sums the places [ptr[i], ptr[i + 1]).
struct EdgeArguments {
  const float* x;       ///< [batch, from_rows, width]
  const float* b;       ///< of products: the rows of sources
  const int* from;      ///< row of x of a place; none: place k has row k
  const int* edge;      ///< edge of a place, whose weights count; none: place k has edge k
  const float* weight;  ///< [batch, edges, heads], or none
  const int* ptr;       ///< [batch, rows + 1]
  void* out;
  int* places;  ///< of extremes: where each one is
  long long batch, rows, from_rows, edges, width, heads;
  int mean;
  float sign;  ///< of extremes: -1 for the least
};

struct ExpandArguments {
  const void* x;  ///< [batch, rows, width] units
  const int* ptr;
  void* out;  ///< [batch, edges, width]
  long long batch, rows, edges, width;
};

}  // namespace ramet_device
