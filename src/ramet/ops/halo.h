#pragma once

#include <cstdint>

#include "ramet/ir/op.h"

namespace ramet::ops {

// One graph in K clusters. A cluster has R places for rows and E for edges; row r of cluster k has the number k R + r
// in the whole graph, and edge e the number k E + e. A cluster owns the edges that end in its rows. A row's sum is one
// chain over its edges, computed whole where the row is; rows of other clusters (*far* rows) are fetched before it.
//
// The tables that say which rows are fetched never change. They are tensors that nodes carry, so a layout that deals
// clusters to devices turns a fetch into messages of fixed contents (layout/halo_plan.h).

/// Whether output 0 is rows of all clusters by the node's table `rows`: where a layout deals clusters to devices, it
/// turns the node into messages.
bool fetches_rows(const OpDef& op);
/// A node `halo_rows`: x [K, R, ...] -> [K, H, ...].
struct HaloRowsForm {
  int64_t clusters = 0, rows = 0, places = 0;  ///< K, R, H
  int64_t width = 0;                           ///< elements of a row
  const int32_t* table = nullptr;              ///< [K, H]: numbers of rows; -1: none
};
HaloRowsForm halo_rows_form(const NodeSignature& node);

/// A node `halo_sum` or `halo_dot`. `index` i32 [K, E] says from which row an edge comes: below N an own row, from N on
/// a far one.
struct HaloForm {
  int64_t clusters = 0, rows = 0, far = 0, edges = 0;  ///< K, N, H, E
  int64_t width = 0;                                   ///< features of a row
  int64_t heads = 0;  ///< weights of an edge, each for width / heads features; 0: one, without a dimension
  bool weighted = false;
};
/// Of x [K, N, F], far [K, H, F], index, ptr i32 [K, N + 1], back_index i32 [K, E'], back_ptr i32 [K, N + 1] and
/// perhaps weights [K, E] or [K, E, heads].
HaloForm halo_sum_form(const NodeSignature& node);
/// Of a [K, N, F], x [K, N, F], far [K, H, F], index and ptr; attribute `heads`.
HaloForm halo_dot_form(const NodeSignature& node);
/// Throws Error (kFailure) naming the node and the place unless the pointers ascend and every index is in range.
void check_halo(const NodeSignature& node, const HaloForm& form, const int32_t* index, const int32_t* ptr);

/// A node `halo_pack`: x [k, R, ...] -> [devices, S, ...], the rows that go to each device.
struct HaloPackForm {
  int64_t devices = 0, places = 0, width = 0;  ///< places S for rows to each device
  const int32_t* send = nullptr;               ///< of this device, [devices, S]: rows of x as [k R]; -1: none
  int64_t rows = 0;                            ///< k R
};
HaloPackForm halo_pack_form(const NodeSignature& node);
/// A node `halo_unpack`: x [k, R, ...] and what came, [devices, S, ...] -> [k, H, ...].
struct HaloUnpackForm {
  int64_t clusters = 0, places = 0, width = 0;  ///< k, H
  const int32_t* place =
      nullptr;                 ///< of this device, [k, H]: i + 1 for row i of what came, -(i + 1) for row i of x, or 0
  int64_t rows = 0, came = 0;  ///< of x and of what came
};
HaloUnpackForm halo_unpack_form(const NodeSignature& node);

}  // namespace ramet::ops
