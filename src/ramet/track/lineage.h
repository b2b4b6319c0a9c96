#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ramet/base/house.h"

namespace ramet::track {

/// What a run began with.
struct RunOrigin {
  std::string kind;          ///< "resumed", "forked" (from a checkpoint of another run), "fine_tuned" (from weights)
  std::string run;           ///< the id of the run that it comes from
  std::string checkpoint;    ///< the name of that run's checkpoint, as "step-00000040"; or ""
  std::string weights_hash;  ///< as the checkpoint's manifest says, or ""
};

/// The run in whose folder a checkpoint or a file of weights lies; none where it lies in no run.
std::optional<RunOrigin> origin_of(const std::filesystem::path& weights, const std::string& kind);
/// The "lineage" event as JSON text.
std::string lineage_event(const RunOrigin& origin);

}  // namespace ramet::track
