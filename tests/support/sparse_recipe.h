#pragma once

#include <string>
#include <vector>

namespace ramet::tests {

/// The recipe of a model of two layers of 32, for patterns of 4 cells along what tensor shards cut. `rest` begins with
/// more keys of the table [train].
inline std::string sparse_recipe(const std::string& kind, const std::string& rest) {
  return "[model]\nkind = \"" + kind + R"("
preset = "mini"
layers = 2
hidden = 32
heads = 4
vocabulary_size = 96
max_positions = 16
[data]
sequence_length = 16
[train]
seed = 3
micro_batch = 2
accumulation = 4
lanes = 4
chunks = 4
precision = "f32"
)" + rest;
}

/// Layouts on which recipes with changing sparse weights must give the bits of one device.
inline const std::vector<std::string> kSparseLayouts{"p=2",
                                                     "t=2",
                                                     "t=4",
                                                     "t=2 sequence=true",
                                                     "p=2 t=2",
                                                     "r=2",
                                                     "r=2 rts=weights,grads,optimizer",
                                                     "phases=2 offload=weights,optimizer",
                                                     "recompute=layer",
                                                     "p=2 t=2 r=2 rts=optimizer recompute=layer"};

}  // namespace ramet::tests
