#pragma once

#include <cstdint>
#include <string>

#include "ramet/base/house.h"

namespace ramet::train {

/// When a run raises alerts, and where they go. Decides no bit of any result. 0 or "" switches a rule off.
struct AlertOptions {
  bool on = true;
  std::string metric = "loss";       ///< that `spike` and `flat` watch; small is good
  double spike = 10;                 ///< robust standard deviations above the median of the window
  int64_t window = 100;              ///< steps
  int64_t flat = 0;                  ///< steps without improvement
  double flat_change = 0.001;        ///< of the median, that counts as improvement
  double slow = 0.5;                 ///< share of the run's own speed
  double starved = 0.3;              ///< share of the time of steps that is waited for data
  std::string disk = "2GiB";         ///< least free space
  std::string memory = "512MiB";     ///< least free memory of the host
  int64_t repeat = 1000;             ///< steps after which an alert that holds on is raised again
  std::string command{}, webhook{};  ///< what gets every alert
  double time_limit = 30;            ///< seconds for either of them
};

}  // namespace ramet::train
