#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/layout/layout.h"

using namespace ramet::tests;

namespace {

/// Equal after printing and parsing, and validated without a fault against a model that fits much.
void check(const Layout& layout) {
  const std::string printed = print_layout(layout);
  if (print_layout(parse_layout(printed)) != printed)
    internal_error("layout", "a layout does not survive printing and parsing");
  validate(layout, {.lanes = 16,
                    .chunks = 16,
                    .micro_batches = 64,
                    .tokens = 512,
                    .layers = 24,
                    .heads = 16,
                    .hidden = 1024,
                    .intermediate = 4096});
}

}  // namespace

// A text that begins with a form feed is TOML.
RAMET_FUZZ_TARGET(layout, std::string_view input) {
  if (input.starts_with('\f'))
    check(parse_layout_toml(input.substr(1), "fuzz.toml"));
  else
    check(parse_layout(input));
}

RAMET_FUZZ_SEEDS(layout) {
  return {
      .inputs =
          {"p=2 t=2x1 r=2 rts=weights,grads,optimizer phases=4 recompute=layer offload=optimizer,activations "
           "schedule=1f1b",
           "p=4 schedule=interleaved:3 layers=1+2+3+1+2+3+1+2+3+1+2+3 head=first threads=2 per_process=2",
           "r=4 rts=weights:2,optimizer:4 streaming=\"/a b\" device_memory=1.5GiB recompute=fit:2GiB sequence=true t=4",
           "p=3 schedule=zero-bubble recompute=layer:0,3,5", "auto",
           "\fp = 2\nt = [2, 4]\nrts = [\"weights:2\"]\nlayers = [3, 3]\nsequence = true\n",
           "\f[layout]\np = 3\nt = \"2x1\"\nrecompute = \"fit:2GiB\"\n"},
      .words = {"p=",         "t=",         "r=",           "rts=",
                "phases=",    "recompute=", "offload=",     "schedule=",
                "layers=",    "head=",      "sequence=",    "device_memory=",
                "streaming=", "threads=",   "per_process=", "weights",
                "grads",      "optimizer",  "activations",  ":2",
                "gpipe",      "1f1b",       "zero-bubble",  "interleaved:",
                "\"",         "auto",       "true",         "9223372036854775807",
                "-1",         "[layout]\n", "\f",           "0x10",
                "1e3"}};
}
