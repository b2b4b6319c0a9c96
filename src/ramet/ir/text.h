#pragma once

#include <string>
#include <string_view>

#include "ramet/ir/graph.h"

namespace ramet::ir {

/// The text form of a graph. It parses back to an equal graph (same ids, names, types, attributes).
///
///     graph "bert" {
///       input %0 "input_ids" : i32[16,128] data ["batch","positions"]
///       input %1 "word.weight" : f32[30522,768] state
///       %2 "hidden" = gather(%1, %0) {axis=0} : f32[16,128,768] @ "embeddings/word"
///       %3, %4 = split(%2) {...} : f32[...], f32[...] @ "x" part "encoder" 3 serial 7 from "model/bert.cc:46"
///       %5 = exp(%3) : f32[...] @ "x/backward" part "encoder" 3 pass backward of 7
///       output "loss" = %9 result
///     }
///
/// Behind a node's types stand, where they are known, what NodeInfo holds: "@" its name, "part", "pass", "serial", "of"
/// (the forward node's serial), "gradient" (of which weight), "from" (the origin).
enum class PrintedText : uint8_t {
  kAll,      ///< reads back to the same graph
  kListing,  ///< without the contents of large tensors (short_text_of)
  kKey,      ///< a listing without where the model says so
  kMeaning   ///< and without the names of nodes and of the values that they make
};
std::string print(const Graph& graph, PrintedText text = PrintedText::kAll);

/// Parses the text form and verifies the graph. Throws Error with "LINE:COLUMN" in `where`, and with the text that was
/// found and the one expected. Hostile text is refused and never crashes: sizes are bounded (rank 16, 2^40 elements a
/// dimension, no overflow). `source` names the text in messages.
Graph parse_graph(std::string_view text, const std::string& source = "graph");

/// Graphviz form, for people.
std::string print_dot(const Graph& graph);

}  // namespace ramet::ir
