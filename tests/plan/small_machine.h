#pragma once

#include <string>
#include <vector>

#include "ramet/machine/machine_toml.h"
#include "ramet/recipe/plan_recipe.h"
#include "support/small_machine.h"

namespace ramet::tests {

/// A BERT of four layers that compiles in a moment; `more` are further settings.
inline Recipe tiny_recipe(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.kind=bert",        "model.preset=tiny",       "model.layers=4",
                                       "model.hidden=32",        "model.heads=4",           "model.vocabulary_size=96",
                                       "model.max_positions=32", "data.sequence_length=32", "train.micro_batch=4",
                                       "train.accumulation=8",   "train.lanes=2",           "train.chunks=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_recipe("name = \"tiny\"\n[data]\nkind = \"synthetic\"\n", "test", ".", settings);
}

/// Four devices (small_machine_text) that can stream.
inline Machine small_machine(const std::string& memory, int devices = 4) {
  return parse_machine(small_machine_text("four", devices, memory, true), "four.toml");
}

}  // namespace ramet::tests
