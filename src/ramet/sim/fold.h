#pragma once

#include <cstdint>
#include <vector>

#include "ramet/sim/moves.h"

namespace ramet::sim {

/// Devices that do the same at the same time, taken together. They are of one stage; what each of them moves goes over
/// links that carry as much of the same, with partners that are alike in their turn. This is the coarsest such division
/// (colour refinement, as of Cardon and Crochemore 1982), so that a simulation of one device of each class gives the
/// times of all.
struct DeviceClasses {
  std::vector<int32_t> class_of;  ///< device to class
  std::vector<int32_t> kind_of;   ///< move to kind of move
  /// One class.
  struct Class {
    int32_t device = 0;  ///< the first of its devices
    int32_t devices = 0;
    int32_t stage = 0;
  };
  /// One kind of move; all its moves go at the same time.
  struct Kind {
    int32_t move = 0;  ///< the first
    int32_t moves = 0;
    std::vector<int32_t> classes{};  ///< that take part, each once
    std::vector<LinkBytes> loads{};  ///< of all its moves, on links of each sort (SharedLinks::add_kind)
    double own_bytes = 0;
    std::vector<double> channel_bytes{};  ///< of all its moves, by channel
  };
  std::vector<Class> classes;
  std::vector<Kind> kinds;
};

/// With `together` false every device is a class of its own.
DeviceClasses fold(const Moves& moves, bool together = true);

}  // namespace ramet::sim
