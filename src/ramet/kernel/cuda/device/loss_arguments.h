#pragma once

// Arguments of loss.cu, loss_wide.cu and cross_entropy.cu. Statistics are f32 [rows, chunks, 4]
// (ops/softmax_statistics.h).

namespace ramet_device {

constexpr int kMostClassRuns = 32;

/// Threads of a block that has a wide chunk (loss_wide.cu).
constexpr int kWideThreads = 544;

/// Local classes [local, local + length) are [logical, logical + length) of the whole model.
struct ClassRun {
  int local, logical, length;
};

struct StatisticsArguments {
  const void* logits;  ///< [rows, chunks, width]
  const int* labels;   ///< [rows], of the whole model's classes; below 0: ignored
  float* statistics;
  const float* statistics_in;  ///< of the gradient
  const float* slopes;         ///< likewise
  void* gradient;              ///< may be the logits
  void* faults;
  long long rows;
  unsigned kernel;
  int chunks, width;
  int classes;  ///< of the whole model
  int runs;
  ClassRun run[kMostClassRuns];
};

struct JoinArguments {
  const float* statistics;
  float* lse;             ///< [rows], or none
  float* losses;          ///< [rows]
  unsigned char* states;  ///< [rows], or none: 0 ignored, 1 wrong, 2 right
  float* counted;         ///< [rows], or none
  const float* count;     ///< of the gradient of the mean
  const float* dloss;     ///< likewise
  const float* dlse;      ///< [rows], of the gradient of rows
  const float* dlosses;   ///< [rows], likewise
  float* slopes;          ///< may be the statistics
  long long rows;
  int chunks;
};

struct MeanArguments {
  float* losses;  ///< lost
  const unsigned char* states;
  float* loss;
  float* count;
  float* correct;
  long long rows;
  int in_order;
};

}  // namespace ramet_device
