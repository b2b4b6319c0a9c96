#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ramet/layout/device_graphs.h"
#include "ramet/layout/pipeline_parts.h"

namespace ramet::layout {

/// Cuts a graph that is already spread over shards into the pieces of its parts, and adds them to their stages. Values
/// that cross are boundaries; nodes without inputs are copied to where they are read.
struct PieceCutter {
  const std::vector<int>& stage_of_part;
  const LayerOrder* layers = nullptr;  ///< needed where `stays` says something
  bool split_backward = false;         ///< weight gradients apart
  bool stream = false;                 ///< values for another pass or phase wait in streaming memory,
  std::vector<bool> stays{};           ///< except those that these layers' backward passes read first (backward_layers)
  int parts_per_phase = 0;             ///< 0: no phases
  std::optional<PieceKind> kind{};     ///< of all pieces; absent: forward and backward, as the map says
  std::string prefix{};                ///< of the boundaries' names
  int program = -1;                    ///< kProgram: of all pieces, whose parts are then places in its order
  std::map<std::string, Sharding> results{};  ///< of results that a device holds a part of
  std::map<std::string, Sharding> feeds{};    ///< of data inputs likewise
  /// Parts of states, for results that are a state as it is and that no node of the graph reads.
  std::map<std::string, int> homes{};

  void cut(const Graph& graph, const PartMap& map, DeviceGraphs& into) const;
};

}  // namespace ramet::layout
