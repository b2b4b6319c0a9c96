#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ramet/ir/op.h"

namespace ramet {

/// A device to train on, as far as time is concerned; those of a layout are all alike (sim/cluster_time.h). Rates are
/// those that this project's kernels reach, not what a data sheet says.
struct Machine {
  std::string name;          ///< "AMD EPYC 9R45", or that of a preset
  std::string kernel_class;  ///< as in Executable
  int threads = 1;
  double f32_flops = 0;   ///< of a large matrix product, operations a second
  double bf16_flops = 0;  ///< the same in bf16
  double bandwidth = 0;   ///< bytes a second, read and written, of copies larger than caches
  double overhead = 0;    ///< seconds from one instruction to the next
  /// Seconds of tasks that were measured, by task_key.
  std::map<std::string, double> tasks;
};

/// What tasks must share to take the same time: kernel, op, types, attributes. Digits of text attributes are left out,
/// because names that differ by a layer's number cost the same.
std::string task_key(const NodeSignature& node, const std::string& kernel);

/// Seconds that a task takes: as measured, or else the longer of its operations and its traffic at the machine's rates,
/// plus the overhead.
double task_seconds(const Machine& machine, const NodeSignature& node, const std::string& kernel, const Cost& cost);

/// As JSON and back; Error with `source` when it is malformed.
std::string json_of(const Machine& machine);
Machine machine_from_json(const std::string& text, const std::string& source);

}  // namespace ramet
