#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"

namespace ramet::sim {

class Moves;

/// Texts by number, each once.
class Labels {
 public:
  int32_t number(std::string_view text);
  std::vector<std::string> take() { return std::move(texts_); }
  const std::string& text(int32_t number) const { return texts_[static_cast<size_t>(number)]; }

 private:
  std::vector<std::string> texts_;
  std::map<std::string, int32_t, std::less<>> numbers_;
};

/// The layer of an instruction: "layer3/attention" of "layer3/attention/scores".
std::string_view layer_of(std::string_view instruction);

/// The segments of one stage's program as a simulator needs them: seconds of work between one exchange and the next.
struct StageCode {
  /// Instructions of one layer, one after another.
  struct Part {
    int32_t label = 0;
    double seconds = 0;
  };
  /// Work, or a collective with other devices.
  struct Item {
    int what = -1;       ///< in Moves, of a collective
    double seconds = 0;  ///< of work
    int32_t label = 0;   ///< of a collective
    int32_t first_part = 0, parts = 0;
  };
  struct Segment {
    std::vector<Item> items;
    std::vector<Part> parts;
    double known = 0;    ///< seconds that rest on measured calls
    double at_peak = 0;  ///< seconds of the matrix products at the device's peak
  };
  std::vector<Segment> segments;
  std::vector<double> lanes;  ///< by step of the program: seconds of zeroing and combining accumulators
  std::vector<int32_t> transfer_labels;

  StageCode(const Executable& executable, const Machine& machine, const Moves& moves, size_t stage, Labels& labels);
};

}  // namespace ramet::sim
