#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/ir/text.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(text_ir, std::string_view input) {
  const std::string printed = print(parse_graph(input));
  if (print(parse_graph(printed)) != printed)
    internal_error("text form", "a graph does not survive printing and parsing");
}

RAMET_FUZZ_SEEDS(text_ir) {
  return {.inputs = {R"(graph "tiny" {
  input %0 "ids" : i32[2,4] data
  input %1 "table" : f32[10,8] state
  %2 "hidden" = gather(%1, %0) {axis=0} : f32[2,4,8] @ "embeddings"
  %3 "sum" = add(%2, %2) : f32[2,4,8]
  output "sum" = %3 result
}
)",
                     R"(graph "empty" {
})"},
          .words = {"graph",  "input",  "output", "data",  "state",  "result", "axis=0",
                    "f32[2]", "bf16[]", "%0",     "add",   "matmul", "split",  "reshape",
                    "{",      "}",      "true",   "false", "nan",    "-inf",   "\"a\\\"b\""}};
}
