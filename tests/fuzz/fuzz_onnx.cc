#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/front/onnx_model.h"
#include "support/onnx_file.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(onnx, std::string_view input) {
  const ramet::front::OnnxModel file = ramet::front::parse_onnx(input, "fuzz.onnx");
  // Small dimensions, so that only the file decides how much there is to do.
  ramet::front::import_onnx_model(file, "fuzz", {}, {.bind = {{"batch", 2}}});
}

RAMET_FUZZ_SEEDS(onnx) {
  using namespace onnx;
  onnx::Graph plain{
      .nodes = {node("Gemm", {"x", "w", "b"}, {"h"}, {integer("transB", 1)}), node("Relu", {"h"}, {"r"}),
                node("Reshape", {"r", "shape"}, {"y"})},
      .initializers = {floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}), floats("b", {2}, {1, 2}), longs("shape", {2}, {1, 4})},
      .inputs = {value("x", 1, {-1, 3})},
      .outputs = {value("y", 1, {1, 4})}};
  onnx::Graph body{.nodes = {node("Add", {"s", "x"}, {"t"}), node("Identity", {"go"}, {"on"})},
                   .inputs = {value("i", 7, {}), value("go", 9, {}), value("s", 1, {2})},
                   .outputs = {value("on", 9, {}), value("t", 1, {2})}};
  onnx::Graph loop{.nodes = {node("Loop", {"n", "", "x"}, {"y"}, {graph_attribute("body", body.message())})},
                   .initializers = {longs("n", {}, {3})},
                   .inputs = {value("x", 1, {2})},
                   .outputs = {value("y", 1, {2})}};
  onnx::Graph outside{.nodes = {node("Add", {"x", "w"}, {"y"})},
                      .initializers = {external("w", {2}, {{"location", "w.bin"}, {"offset", "0"}, {"length", "8"}})},
                      .inputs = {value("x", 1, {2})},
                      .outputs = {value("y", 1, {2})}};
  const ProtoMessage scaled = function("F", {"a"}, {"c"}, {node("Mul", {"a", "a"}, {"c"})});
  onnx::Graph calls{
      .nodes = {node("F", {"x"}, {"y"}, {}, "local")}, .inputs = {value("x", 1, {2})}, .outputs = {value("y", 1, {2})}};
  onnx::Graph own{
      .nodes = {node("f", {"x", "w"}, {"h"}, {onnx::text("ramet", "neighbor_dot {heads=2}")}, "ai.ramet"),
                node("g", {"x"}, {"y"}, {onnx::text("ramet", "resample {method=\"cubic\", sizes=[4]}")}, "ai.ramet")},
      .initializers = {floats("w", {1, 2, 2}, {1, 2, 3, 4})},
      .inputs = {value("x", 1, {1, 2, 2})},
      .outputs = {value("y", 1, {1, 2, 4})}};
  return {.inputs = {onnx::model(own), onnx::model(plain), onnx::model(loop), onnx::model(outside),
                     onnx::model(calls, 20, {scaled})},
          .words = {"Gemm",
                    "Relu",
                    "Conv",
                    "Slice",
                    "Expand",
                    "Tile",
                    "ConstantOfShape",
                    "Range",
                    "Pad",
                    "Loop",
                    "If",
                    "Scan",
                    "axes",
                    "value",
                    "location",
                    "batch",
                    "ramet",
                    "ai.ramet",
                    "softmax_statistics {",
                    "lstm {",
                    "take {axes=[0], along=[1]",
                    "attention {packed=true",
                    "../",
                    "Resize",
                    "MaxPool",
                    "Gather",
                    "TopK"}};
}
