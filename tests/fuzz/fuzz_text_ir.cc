#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/ir/text.h"

using namespace ramet;

RAMET_FUZZ_TARGET(text_ir, std::string_view input) {
  const std::string printed = print(parse_graph(input));
  if (print(parse_graph(printed)) != printed)
    internal_error("text form", "a graph does not survive printing and parsing");
}

RAMET_FUZZ_SEEDS(text_ir) {
  return {.inputs = {R"(graph "tiny" {
  input %0 "ids" : i32[2,4] data ["batch","positions"]
  input %1 "table" : f32[10,8] state
  %2 "hidden" = gather(%1, %0) {axis=0} : f32[2,4,8] @ "embeddings" part "encoder" 3 serial 1 from "a.cc:1"
  %3 "sum" = add(%2, %2) : f32[2,4,8] pass backward of 1 gradient "table"
  output "sum" = %3 result
}
)",
                     R"(graph "empty" {
})"},
          .words = {"graph",  "input",  "output", "data",  "state",  "result", "axis=0",
                    "f32[2]", "bf16[]", "%0",     "add",   "matmul", "split",  "reshape",
                    "{",      "}",      "true",   "false", "nan",    "-inf",   "\"a\\\"b\"",
                    "part",   "pass",   "serial", "of",    "gradient", "from", "recompute", "@"}};
}
