#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet::program {

/// Times the passes of a compilation, prints their results where RAMET_PRINT_PASSES asks for it, and in builds with
/// RAMET_VERIFY verifies the step after each pass.
class PassLog {
 public:
  PassLog();

  /// Runs a pass from step to step.
  StepGraph step(const std::string& name, const std::function<StepGraph()>& pass);
  /// Runs any other pass; its product has no text.
  template <typename Pass>
  auto run(const std::string& name, const Pass& pass) {
    const auto start = std::chrono::steady_clock::now();
    auto result = pass();
    note(name, start);
    return result;
  }
  std::vector<std::pair<std::string, double>> take_seconds() { return std::move(seconds_); }

  /// Prints the result of a pass that is no step, where RAMET_PRINT_PASSES asks for it.
  void show(const std::string& name, const std::function<std::string()>& text) const;

 private:
  void note(const std::string& name, std::chrono::steady_clock::time_point start);
  bool prints(const std::string& name) const;

  std::vector<std::pair<std::string, double>> seconds_;
  std::vector<std::string> wanted_;
};

}  // namespace ramet::program
