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
  input %0 "ids" : i32[2,4] data ["batch","positions"]
  input %1 "table" : f32[10,8] state
  %2 "hidden" = gather(%1, %0) {axis=0} : f32[2,4,8] @ "embeddings" part "encoder" 3 serial 1 from "a.cc:1"
  %3 "sum" = add(%2, %2) : f32[2,4,8] pass backward of 1 gradient "table"
  output "sum" = %3 result
}
)",
                     R"(graph "empty" {
})",
                     R"(graph "constants" {
  %0 = constant() {data=tensor(i32[2,2], [1,-2,3,4])} : i32[2,2]
  %1 = constant() {data=tensor(bf16[3], [0.5,-0.0,inf])} : bf16[3]
  %2 = constant() {data=tensor(f32[1], "8f6e5e8629b5071b3be9d4a3a60f39c2", "AADA/w==")} : f32[1]
  output "c" = %0 result
}
)"},
          .words = {"graph",  "input",  "output", "data",  "state",  "result", "axis=0",
                    "f32[2]", "bf16[]", "%0",     "add",   "matmul", "split",  "reshape", "tensor(", "[1,2]", "AAAA", "constant()",
                    "{",      "}",      "true",   "false", "nan",    "-inf",   "\"a\\\"b\"",
                    "part",   "pass",   "serial", "of",    "gradient", "from", "recompute", "@"}};
}
