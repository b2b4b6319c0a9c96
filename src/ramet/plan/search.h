#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ramet/plan/cost_model.h"
#include "ramet/plan/search_space.h"

namespace ramet::plan {

/// The result of compiling a layout and simulating a step of it.
struct Outcome {
  bool fits = false;
  std::string refused;  ///< why it does not fit, or cannot be cut so
  int64_t bytes = 0;    ///< of device memory, of the fullest device: planned, or, when refused, needed (0: not known)
  int refused_stage = -1;       ///< the first that does not fit, when `bytes` are its
  int64_t streaming_bytes = 0;  ///< of the device that streams the most
  double seconds = 0;           ///< of a step
  double bubble = 0;            ///< share of it in which stages wait for each other
  std::string limit;            ///< the largest share of its time: "compute", "exchange", "streaming", "bubble"
  std::string fullest;          ///< the largest share of its memory: "weights 1.2 GiB of stage 0"
  std::vector<int64_t> stage_bytes;
};

/// A layout that was compiled and simulated.
struct Evaluated {
  Candidate candidate;
  CostEstimate estimate;
  LowerBound bound;
  Outcome outcome;
};

/// A layout beside the best one, and why it is not the best.
struct Neighbour {
  Candidate candidate;
  std::string change;  ///< "p=8 instead of 4"
  std::string why;
  bool refused = false;  ///< it cannot be, or does not fit; otherwise it is only slower
};

struct SearchOptions {
  int64_t device_memory = 0;  ///< bytes of each device; 0: no limit
  int evaluations = 24;       ///< layouts to compile and simulate at most; 0: until bounds rule out all others
  int front_share = 4;        ///< one in so many of them looks for layouts that are slower and smaller
  bool explain = false;       ///< compile those neighbours too of which only an estimate is known
};

/// How far a search is.
struct SearchProgress {
  int64_t considered = 0;          ///< layouts of which estimates were made
  int64_t too_large = 0;           ///< of them, ruled out by what their states take
  int evaluated = 0, of = 0;       ///< compiled and simulated
  const Candidate* now = nullptr;  ///< being compiled; null between
  const Evaluated* best = nullptr;
};

struct SearchResult {
  std::vector<Evaluated> fitting;     ///< fastest first; the shorter text first among equals
  std::vector<Evaluated> refused;     ///< those of the evaluated that do not fit, in order of evaluation
  std::vector<size_t> front;          ///< of `fitting`: no other is both faster and smaller
  std::vector<Neighbour> neighbours;  ///< of the best
  int64_t considered = 0, too_large = 0;
  bool proven = false;   ///< bounds rule out that any layout not evaluated is faster; see bound_margin
  bool stopped = false;  ///< by `stop`
  /// When nothing fits: the layout that needs the least, as far as is known, and bytes that it needs at least.
  Candidate smallest;
  int64_t smallest_bytes = 0;
  bool smallest_is_exact = false;  ///< compiled, not a bound
};

/// Finds the layout with the fastest step among all of a space that fit into device memory. Bounds rule layouts out;
/// the others are evaluated one by one in the order of their estimates. Evaluations of layouts with the same shards
/// correct the estimates, and a mesh unfolds its layouts only when it is next. The search ends when bounds rule out all
/// remaining layouts, when `evaluations` are spent, or when `stop` asks for it, with the best layout so far. The same
/// arguments give the same result.
SearchResult search_layouts(const SearchSpace& space, CostModel& model,
                            const std::function<Outcome(const Candidate&)>& evaluate, const SearchOptions& options = {},
                            const std::function<void(const SearchProgress&)>& progress = {},
                            const std::function<bool()>& stop = {});

}  // namespace ramet::plan
