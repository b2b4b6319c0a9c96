#include "ramet/sim/model_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/layout/layout.h"
#include "ramet/machine/tile_model.h"
#include "ramet/machine/tile_sparse.h"
#include "ramet/program/compile.h"
#include "support/small_training.h"

namespace ramet::tests {
namespace {

const TileFigures kFigures{.clock = 1.85e9};

std::vector<Executable> compiled(const CompileOptions& options = {}, const TileFigures& figures = kFigures,
                                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"train.precision=f16"};
  settings.insert(settings.end(), more.begin(), more.end());
  const SmallTraining training("bert", settings);
  return compile(training.step, parse_layout("p=2 head=first"), TileLibrary(figures), options);
}

TEST(TileLibrary, EveryBufferHasWholeVectorsOnEveryTile) {
  for (const Executable& exe : compiled()) {
    EXPECT_EQ(exe.kernel_class, "model-tiles");
    for (const Buffer& buffer : exe.buffers) EXPECT_EQ(buffer.bytes % (8 * kFigures.tiles), 0) << buffer.name;
    EXPECT_GE(exe.arena_bytes, exe.bound_bytes);
  }
}

TEST(TileLibrary, ProgramsLieInDeviceMemoryToo) {
  for (const Executable& exe : compiled()) {
    int programs = 0;
    for (const Buffer& buffer : exe.buffers)
      if (buffer.name == "program") {
        ++programs;
        EXPECT_EQ(buffer.first, 0);
        EXPECT_EQ(buffer.last, exe.instants - 1);
        EXPECT_GT(buffer.bytes, kFigures.tiles * kFigures.runtime_bytes);
        EXPECT_LT(buffer.bytes, kFigures.tiles * kFigures.memory / 2);
      }
    EXPECT_EQ(programs, 1);
  }
}

// What lies on all tiles is larger than its bytes, by no more than a vector on each tile where it is spread evenly.
TEST(TileLibrary, StatesTakeTheirFullestTile) {
  for (const Executable& exe : compiled())
    for (const StatePlace& state : exe.states)
      for (BufferId id : state.slots) {
        const int64_t taken = exe.buffers[static_cast<size_t>(id)].bytes, bytes = state.tensor.type.bytes();
        EXPECT_GE(taken, bytes) << state.tensor.name;
        EXPECT_LE(taken, bytes + 8 * kFigures.tiles) << state.tensor.name;
      }
}

TEST(TileLibrary, WhatTilesCannotHoldIsRefused) {
  CompileOptions options;
  options.device_memory = kFigures.tiles * 24 * 1024;
  try {
    compiled(options);
    FAIL() << "fits";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("does not fit into device memory"), std::string::npos) << error.what();
  }
}

// Before it refuses, the compiler gives products less room.
TEST(TileLibrary, ProductsGiveWayWhereMemoryLacks) {
  const TileFigures few{.tiles = 16, .memory = int64_t{1} << 19, .clock = 1e9};
  const std::vector<std::string> larger = {"model.hidden=192", "model.intermediate=768", "train.micro_batch=8"};
  CompileOptions options;
  for (const Executable& exe : compiled(options, few, larger))
    options.device_memory = std::max(options.device_memory, exe.arena_bytes);
  options.device_memory -= few.tiles * 2048;
  bool smaller = false;
  for (const Executable& tight : compiled(options, few, larger)) {
    EXPECT_LE(tight.arena_bytes, options.device_memory);
    for (const Call& call : tight.calls) {
      if (!call.node.op->products) continue;
      const TileFigures figures = figures_of_kernel(few, call.kernel);
      smaller |= figures.temporary_share < few.temporary_share;
      EXPECT_EQ(call.scratch_bytes, tile_cycles(figures, call.node, call.cost).temporary_bytes * few.tiles);
    }
  }
  EXPECT_TRUE(smaller);
}

TEST(TileLibrary, SumsAndLoopsAreWrittenInPlace) {
  const OpRegistry& ops = OpRegistry::instance();
  const TileLibrary library(kFigures);
  const TensorType a{DType::kF16, {64, 32}}, b{DType::kF16, {32, 48}}, c{DType::kF32, {64, 48}};
  NodeSignature sum{&ops.get("matmul"), {a, b, c}, {c}, {}, "sum"};
  sum.attributes.set("accumulate", true);
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(library.choose(sum, 1).may_alias, (Pairs{{2, 0}}));
  EXPECT_EQ(library.choose({&ops.get("add"), {a, a}, {a}, {}, "add"}, 1).may_alias, (Pairs{{0, 0}, {1, 0}}));
  NodeSignature softmax{&ops.get("softmax"), {a}, {a}, {}, "softmax"};
  softmax.attributes.set("axis", int64_t{1});
  EXPECT_TRUE(library.choose(softmax, 1).may_alias.empty());
}

// A product with a sparse weight takes as long as the search for its split says: less where the pattern is fixed, and
// its gradients as well.
TEST(TileLibrary, ProductsWithSparseWeightsAreThoseOfTheTiles) {
  const TensorType x{DType::kF16, {512, 1024}}, values{DType::kF16, {1, 1, 256, 16, 16}},
      index{DType::kI32, {1, 1, 256}};
  const auto seconds = [&](const std::string& op, bool fixed) {
    NodeSignature node{&OpRegistry::instance().get(op), {x, values, index}, {}, {}, op};
    node.attributes.set("cell", std::vector<int64_t>{1024, 1024});
    if (op == "sparse_outer") {
      node.inputs[1] = x;
      node.attributes.set("block", std::vector<int64_t>{16, 16});
    }
    if (fixed) node.attributes.set("fixed", true);
    node.outputs = node.op->infer(node);
    const double cycles = tile_cycles(kFigures, node, node.op->cost(node)).total();
    EXPECT_EQ(cycles, choose_sparse_product(kFigures, *sparse_work(node)).cycles.total());
    EXPECT_GT(TileLibrary(kFigures).choose(node, 1).scratch_bytes, 0);
    return cycles;
  };
  const double dense = choose_product(kFigures, {1, 512, 1024, 1024, DType::kF16}).cycles.total();
  for (const std::string op : {"sparse_matmul", "sparse_outer"}) {
    EXPECT_LT(seconds(op, true), seconds(op, false)) << op;
    EXPECT_LT(seconds(op, true), 2 * dense) << op;
  }
}

}  // namespace
}  // namespace ramet::tests
