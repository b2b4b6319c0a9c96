#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "ramet/measure/call_clock.h"
#include "ramet/transport/transport.h"

namespace ramet::measure {

/// Times `body` again and again for about `seconds`: at least three times, at most 2000. The first run, which warms up,
/// is not counted.
Timing sample(double seconds, const std::function<void()>& body);

/// What moves between two devices, with the spread of each figure.
struct LinkTiming {
  double latency = 0, latency_spread = 0;      ///< seconds of the smallest message, one way
  double bandwidth = 0, bandwidth_spread = 0;  ///< bytes a second of large ones, one way
  double barrier = 0, barrier_spread = 0;      ///< seconds in which all devices of the world meet
};

/// Messages to and fro between devices `a` and `b`, and meetings of all. Every device of the world calls it together;
/// all get the same figures (those that `a` has measured).
LinkTiming time_pair(Transport& transport, int a, int b, double seconds);

/// The same between the first two of `devices` threads of this process.
LinkTiming time_threads(int devices, double seconds);

}  // namespace ramet::measure
