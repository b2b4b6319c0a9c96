#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "soak/drawn_model.h"

namespace ramet::tests::soak {

/// A model, a recipe and a layout, as one text "MODEL | RECIPE | LAYOUT" that can be run again:
/// "layers=mlp/mlp | train.chunks=4 | t=2". With a second layout, "... | t=2 | p=2", the run goes on on that one from a
/// checkpoint of the first.
struct DrawnCase {
  DrawnModel model;
  std::map<std::string, std::string> recipe;  ///< settings that differ from those of `recipe_settings`
  std::map<std::string, std::string> layout;  ///< keys of a layout
  std::map<std::string, std::string> second;  ///< of the layout that goes on; none: nothing is saved

  /// Case `number` of a seed. Nearly all of them fit together; what does not is to be refused.
  static DrawnCase draw(uint64_t seed, uint64_t number);
  static DrawnCase parse(const std::string& text);
  std::string text() const;
};

/// How a case ended.
struct Verdict {
  enum class Kind {
    kSame,     ///< all numbers, weights and moments have equal bits, arenas are as planned
    kRefused,  ///< an Error that says what is wrong and what would be right, before anything ran
    kVoid,     ///< nothing to compare: the model's numbers are not finite on one device
    kWrong
  } kind = Kind::kSame;
  std::string text{};  ///< of all but kSame
};

/// Trains the case on one device and on its layout and compares them step by step.
Verdict run(const DrawnCase& given);
/// The same in a process of its own, so that a crash or a hang is a verdict too.
Verdict run_apart(const DrawnCase& given);

/// The smallest case found that still goes wrong: without layers, blocks, settings and keys that do not matter.
DrawnCase shrink(DrawnCase wrong, const std::function<bool(const DrawnCase&)>& is_wrong);

}  // namespace ramet::tests::soak
