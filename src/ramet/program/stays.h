#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/program/stage.h"

namespace ramet::program {

/// One stay of a state in device memory. A state that is at home there has one that lasts as long as the timeline.
struct StateStay {
  int32_t state = 0;                    ///< index in Stage::states
  int32_t first_use = 0, last_use = 0;  ///< regions
  int32_t first = 0, last = 0;  ///< regions for which it has its buffer: it is loaded during the one before, stored
                                ///< during the one after
  bool loaded = false, stored = false;
  bool summed = false;  ///< an accumulator where it is summed: a buffer for each slot of lanes
  std::vector<BufferId> buffers;
};

/// One stay of a boundary in device memory, as a ring of micro-batches: where it is written or received, or where it is
/// brought back from streaming memory.
struct BoundaryStay {
  int32_t boundary = 0;  ///< index in Stage::boundaries
  bool received = false, loaded = false, stored = false;
  std::vector<int> sent;  ///< to stages
  /// Numbers of runs (Timeline::runs). A slot is taken from before run `begin` to after run `last`.
  struct Instance {
    int32_t micro = -1;
    int32_t begin = 0, written = -1, first_read = -1, last = 0;
  };
  std::vector<Instance> instances;  ///< in order of micro-batches
  int32_t slots = 1;
  int32_t first = 0, last = 0;  ///< regions
  BufferId buffer = kNoBuffer;
};

/// When states and boundaries are in device memory.
struct Stays {
  std::vector<StateStay> states;
  std::vector<BoundaryStay> boundaries;
  std::vector<int32_t> streaming_slots;  ///< of each boundary that streams: micro-batches in streaming memory at once

  /// Stays by the name of the state, and by the name of the boundary and the segment that uses it.
  std::map<std::string, std::vector<int32_t>> of_state;
  std::map<std::pair<std::string, int32_t>, int32_t> of_boundary;  ///< by name and segment
  const StateStay& state(const std::string& name, int32_t region) const;
  const BoundaryStay& boundary(const std::string& name, int32_t segment) const;
};

/// Decides the stays, from which double buffers follow:
///  - A streamed state is loaded during the region before the one that uses it, and stored during the region after the
///    one that changes it. Uses that are at most one region apart share a stay.
///  - With phases, a derived state stays in the regions that read it.
///  - A boundary has as many slots as there can be micro-batches between its writer and its last reader in this
///    stage's order. A value from streaming memory arrives one run before it is read; a value that goes there has one
///    run's time to leave. Messages between stages have room from the moment they are made (StageBoundary).
Stays find_stays(const Stage& stage, const Timeline& timeline);

}  // namespace ramet::program
