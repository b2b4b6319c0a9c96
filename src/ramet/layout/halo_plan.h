#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/ir/graph.h"

namespace ramet::layout {

/// The messages of one `halo_rows` (ops/halo.h) among devices that hold the clusters of a graph.
struct HaloPlan {
  /// i32 [devices, devices, S]: of each device the rows, as they lie on it, that it sends to each device; -1: padding.
  /// A row goes to a device once, however many of the device's clusters read it. S is the most that any device sends
  /// to another, so that all devices run one program.
  HostTensor send;
  /// i32 [devices, clusters of a device, H]: where the rows of each cluster are, as halo_unpack reads them.
  HostTensor place;
};

/// `rows` [K, H] as halo_rows has it, of clusters with `own` rows each; device d has the clusters deal[d K / devices]
/// and so on.
HaloPlan plan_halo(const HostTensor& rows, int64_t own, const std::vector<int64_t>& deal, int64_t devices);

/// Proves of each exchange of rows in a device's graph that every place of every device gets the row that the table of
/// the whole graph names, and that no device sends what it does not have. Throws Error (kFailure) naming the node, the
/// device and the place.
void verify_halos(const Graph& graph, const std::string& after);

}  // namespace ramet::layout
