#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/model_file.h"
#include "support/small_model.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(model_file, std::string_view input) {
  const auto [model, units] = parse_model(input, "fuzz.ramet");
  const auto path = fuzz::empty_folder("models") / "again.ramet";
  save_model(path, model, units);
  const auto [again, again_units] = load_model(path);
  if (again.identity() != model.identity() || again_units.name != units.name)
    internal_error("model file", "a model does not survive saving and loading");
}

RAMET_FUZZ_SEEDS(model_file) {
  const auto path = fuzz::empty_folder("models") / "seed.ramet";
  save_model(path, small_model(), {.name = "rows"});
  std::string whole = ramet::read_file(path);
  // Without the checksum, so that changes are read and not refused.
  const size_t checksum = whole.find("\nchecksum") + 1;
  std::string open = whole;
  open.erase(checksum, whole.find('\n', checksum) + 1 - checksum);
  return {.inputs = {R"(ramet model 1
model "m" {flops_per_token=1.5}
units "rows" {per_sample=2}
axis "embed" {shard=2}
axis_units "heads" {count=4}
pass "p"
input "x" : f32[2,3] ["batch",""] {low=0.0}
weight "w" : f32[3] ["embed"] {first="normal", b=0.5, padding=[1]}
state "s" : i32[2] {kind="constant", first="data", data=tensor(i32[2], [1,2])}
deviation "w" {value=0.5}
metric "loss" {how="mean", numerator="loss"}
guard "loss"
forward
graph "forward" {
  input %0 "x" : f32[2,3] data ["batch",""]
  input %1 "w" : f32[3] state
  %2 = multiply(%0, %1) : f32[2,3] @ "a" from "a.cc:1"
  %3 = reduce_mean(%2) {axes=[0,1], keep_dims=false} : f32[]
  output "loss" = %3 result
}
program "p" {when="steps", every=2}
graph "p" {
}
)",
                     open, whole},
          .words = {"ramet model 1\n",
                    "weight ",
                    "state ",
                    "metric ",
                    "input ",
                    "program ",
                    "forward\n",
                    "evaluate\n",
                    "graph ",
                    "checksum \"",
                    "\ntensors ",
                    "{",
                    "}",
                    "first=\"data\"",
                    "data=tensor(",
                    "kind=\"",
                    "\"deferred\"",
                    "\"constant\"",
                    "padding=[",
                    "blocks=[",
                    "every=",
                    "micro=",
                    "f32[2]",
                    "axis \"",
                    "9223372036854775807",
                    "-1",
                    "nan",
                    "\"x\""}};
}
