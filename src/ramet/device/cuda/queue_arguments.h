#pragma once

// Work of a queue that the driver has no function for (device/cuda/cuda_queue.cc).

namespace ramet_device {

/// From [rows][columns] to [columns][rows] of runs of `words` words.
struct TransposeArguments {
  const void* from;
  void* to;
  long long rows, columns, words;
};

/// to[i] = to[i] + from[i].
struct AddArguments {
  const void* from;
  void* to;
  long long count;
};

struct StampArguments {
  unsigned long long* nanoseconds;
};

}  // namespace ramet_device
