#pragma once

#include <exception>

#include "ramet/runtime/cluster.h"

namespace ramet::train {

/// Calls a function that may throw on this rank alone (a caller's source or evaluator), while the other ranks go on
/// until they wait for this one. An error then ends the run on all ranks.
template <typename Call>
auto or_end_all(Cluster& cluster, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    if (cluster.ranks() > 1) cluster.stop(error.what());
    throw;
  }
}

}  // namespace ramet::train
