#pragma once

#include <cstdint>
#include <string>

#include "ramet/machine/machine.h"
#include "ramet/plan/search.h"

namespace ramet::report {

/// Figures of a search beside its result.
struct SearchReport {
  std::string name;  ///< of the recipe
  const Machine* machine = nullptr;
  const SearchSpace* space = nullptr;
  const SearchResult* result = nullptr;
  int64_t samples = 0, tokens = 0;  ///< of a step
  std::string units = "tokens";     ///< what `tokens` counts
  int64_t parameters = 0;
  int64_t device_memory = 0;  ///< bytes that a device has; 0: as the system has
  int64_t to_samples = 0;     ///< how long until so many samples are done; 0: not asked
  bool explain = false;       ///< all neighbours of the best; otherwise those that are refused
  std::string command;        ///< options that choose the best layout
};

/// A page: the layouts that fit, fastest first, with step time, speed, memory of the fullest device and what limits
/// each; "+" marks those that no other beats in both time and memory; then why not the layouts beside the best.
std::string text_of(const SearchReport& report);
/// As one JSON object: name, machine, considered, too_large, evaluated, proven (by bounds of time that are multiplied
/// by bound_margin: below 1 it is no proof), bound_margin, stopped, layouts [{layout, micro_batch, devices,
/// step_seconds, samples_per_second, UNITS_per_second, memory_bytes, streaming_bytes, bubble, limit, fullest,
/// stage_bytes [], front, estimated_seconds, estimated_bytes, bound_seconds, bound_bytes}], refused [{layout, why}],
/// neighbours [{change, layout, refused, why}].
std::string json_of(const SearchReport& report);

/// The Error of a search in which no layout fits; it says how much memory would be needed.
[[noreturn]] void refuse_machine(const SearchReport& report);

}  // namespace ramet::report
