// Products whose contraction is cut between its chunks: taken apart, computed by shards, combined by the tree, they
// give the bits of the whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/ir/builder.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/reduce_order.h"
#include "support/cut.h"

namespace ramet::tests {
namespace {

const Backend* const kBackends[] = {&reference_backend(), &cpu_backend()};

struct Product {
  int64_t rows, k, columns;
  int64_t chunks, blocks = 1;
  DType dtype = DType::kF32, out = DType::kF32;
  bool transpose_a = false, transpose_b = false;
  bool linear = false, accumulate = false;
  DType bias = DType::kF32;

  std::string op() const { return linear ? "linear" : "matmul"; }
  std::string text() const {
    return op() + " " + std::to_string(rows) + "x" + std::to_string(k) + "x" + std::to_string(columns) + " chunks " +
           std::to_string(chunks) + "x" + std::to_string(blocks) + " " + std::string(name_of(dtype)) + "->" +
           std::string(name_of(out)) + (transpose_a ? " ta" : "") + (transpose_b ? " tb" : "") +
           (accumulate ? " accumulate" : "");
  }
  Attributes attributes(int64_t of_chunks) const {
    Attributes all{{"dtype", out}};
    if (transpose_a) all.set("transpose_a", true);
    if (transpose_b) all.set(linear ? "transpose_weight" : "transpose_b", true);
    if (accumulate) all.set("accumulate", true);
    if (of_chunks > 1) all.set("chunks", of_chunks);
    if (blocks > 1) all.set("chunk_blocks", blocks);
    return all;
  }
  std::vector<HostTensor> inputs() const {
    std::vector<HostTensor> all{random_tensor(dtype, transpose_a ? Shape{k, rows} : Shape{rows, k}, 1),
                                random_tensor(dtype, transpose_b ? Shape{columns, k} : Shape{k, columns}, 2)};
    if (linear) all.push_back(random_tensor(bias, {columns}, 3));
    if (accumulate) all.push_back(random_tensor(DType::kF32, {rows, columns}, 4));
    return all;
  }
};

/// What OpDef::apart makes of a node, run on its inputs; nothing when it gives nothing.
std::vector<HostTensor> run_apart(const NodeSignature& node, const Backend& backend,
                                  const std::vector<HostTensor>& inputs, Graph* made = nullptr) {
  Graph graph("apart");
  GraphBuilder build(graph);
  std::vector<Tensor> tensors;
  std::map<std::string, HostTensor> feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    tensors.push_back(build.input(name, inputs[i].type.dtype, inputs[i].type.shape));
    feeds[name] = inputs[i];
  }
  SimplifyContext context{build, node, tensors};
  const Tensor apart = node.op->apart(context);
  if (!apart.valid()) return {};
  build.output("out", apart);
  verify(graph, "apart");
  if (made) *made = graph;
  return interpret(graph, backend, feeds, 2);
}

HostTensor run(const Product& product, const Backend& backend, const std::vector<HostTensor>& inputs, int threads = 1) {
  return interpret_node(node_of(product.op(), inputs, product.attributes(product.chunks)), backend, inputs, threads)[0];
}

std::vector<Product> products() {
  std::vector<Product> all;
  for (int64_t chunks : {1, 2, 4, 8, 6})
    for (DType dtype : {DType::kF32, DType::kBF16})
      for (DType out : {DType::kF32, DType::kBF16}) {
        all.push_back({.rows = 37,
                       .k = 48 * chunks,
                       .columns = 80,
                       .chunks = chunks,
                       .dtype = dtype,
                       .out = out,
                       .transpose_b = true,
                       .linear = true});
        all.push_back({.rows = 130,
                       .k = 16 * chunks,
                       .columns = 33,
                       .chunks = chunks,
                       .dtype = dtype,
                       .out = out,
                       .linear = true,
                       .bias = dtype});
        all.push_back({.rows = 70,
                       .k = 5 * chunks,
                       .columns = 17,
                       .chunks = chunks,
                       .dtype = dtype,
                       .out = out,
                       .transpose_a = true});
        if (out == DType::kF32)
          all.push_back({.rows = 20,
                         .k = 32 * chunks,
                         .columns = 64,
                         .chunks = chunks,
                         .dtype = dtype,
                         .transpose_b = true,
                         .accumulate = true});
      }
  return all;
}

TEST(Contraction, ApartGivesTheSameBits) {
  for (const Product& one : products())
    for (const Backend* backend : kBackends) {
      // oneDNN adds c inside its own sum when there is one chunk; nothing is ever split there.
      if (one.accumulate && one.chunks == 1) continue;
      const auto inputs = one.inputs();
      const NodeSignature node = node_of(one.op(), inputs, one.attributes(one.chunks));
      Graph graph;
      const auto found = run_apart(node, *backend, inputs, &graph);
      const bool bare = !one.linear && !one.accumulate && one.out == DType::kF32;
      ASSERT_EQ(found.empty(), bare) << one.text();
      if (bare) continue;
      EXPECT_EQ(graph.nodes().front().op->name, "matmul");
      EXPECT_EQ(graph.type(graph.nodes().front().outputs[0]).dtype, DType::kF32);
      EXPECT_EQ(graph.nodes().size(), 2u);
      EXPECT_EQ(found[0], run(one, *backend, inputs)) << one.text();
    }
}

// Narrow parts of small products: what a device with a fifth or a sixth of a width has.
TEST(Contraction, NarrowPartsOfRowsAndColumnsHaveTheBitsOfTheWhole) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const int64_t width : {3, 5})
      for (const int64_t rows : {4, 30})
        for (const int64_t chunks : {1, 6})
          for (const bool transpose_a : {false, true})
            for (const bool transpose_b : {false, true}) {
              const Product one{.rows = rows,
                                .k = 6 * width,
                                .columns = 6 * width,
                                .chunks = chunks,
                                .dtype = dtype,
                                .transpose_a = transpose_a,
                                .transpose_b = transpose_b};
              const std::vector<HostTensor> inputs = one.inputs();
              const HostTensor whole = run(one, cpu_backend(), inputs);
              for (const int64_t parts : {2, 3, 6})
                for (int64_t k = 0; k < parts; ++k) {
                  const HostTensor columns = cut(inputs[1], {transpose_b ? 0 : 1, parts}, k);
                  ASSERT_EQ(run(one, cpu_backend(), {inputs[0], columns}), cut(whole, {1, parts}, k))
                      << one.text() << " columns " << k << " of " << parts;
                  if (rows % parts != 0) continue;
                  const HostTensor some = cut(inputs[0], {transpose_a ? 1 : 0, parts}, k);
                  ASSERT_EQ(run(one, cpu_backend(), {some, inputs[1]}), cut(whole, {0, parts}, k))
                      << one.text() << " rows " << k << " of " << parts;
                }
            }
}

TEST(Contraction, APackedProductIsNotTakenApart) {
  NodeSignature node = node_of("matmul", Product{4, 8, 4, 1}.inputs(), {{"dtype", DType::kBF16}});
  node.inputs[1] = {DType::kU8, Shape{64}};
  node.attributes.set("b_blocked", std::string("some"))
      .set("b_shape", std::vector<int64_t>{8, 4})
      .set("b_dtype", DType::kF32);
  Graph graph;
  GraphBuilder build(graph);
  const std::vector<Tensor> inputs{build.input("a", DType::kF32, {4, 8}), build.input("b", DType::kU8, {64})};
  SimplifyContext context{build, node, inputs};
  EXPECT_FALSE(node.op->apart(context).valid());
}

/// The bare product by `parts` shards of the contraction, combined along the tree.
HostTensor by_shards(const Product& one, const Backend& backend, int64_t parts) {
  const auto inputs = one.inputs();
  std::vector<HostTensor> partial;
  for (int64_t k = 0; k < parts; ++k) {
    const std::vector<HostTensor> mine{cut(inputs[0], {one.transpose_a ? 0 : 1, parts, one.blocks}, k),
                                       cut(inputs[1], {one.transpose_b ? 1 : 0, parts, one.blocks}, k)};
    const NodeSignature whole = node_of(one.op(), inputs, one.attributes(one.chunks));
    const ShardingRule rule = whole.op->sharding(whole);
    std::vector<int64_t> split(rule.factors.size(), 1);
    for (size_t f = 0; f < split.size(); ++f)
      if (rule.factors[f].name == "c") {
        EXPECT_FALSE(rule.factors[f].whole);
        split[f] = parts;
      }
    const Attributes here = whole.op->localize(whole, split, rule);
    EXPECT_EQ(here.get_int("chunks"), one.chunks / parts);
    partial.push_back(interpret_node(node_of(one.op(), mine, here), backend, mine, 2)[0]);
  }
  return tree_combine<HostTensor>(
      0, parts, [&](int64_t i) { return partial[static_cast<size_t>(i)]; },
      [&](const HostTensor& a, const HostTensor& b) {
        return interpret_node(node_of("add", {a, b}, {}), backend, {a, b})[0];
      });
}

TEST(Contraction, ShardsCombineToTheBitsOfTheWhole) {
  struct Split {
    int64_t chunks, parts;
  };
  for (const Split& split : {Split{2, 2}, Split{4, 2}, Split{4, 4}, Split{8, 2}, Split{8, 4}, Split{8, 8}, Split{6, 3},
                             Split{6, 6}, Split{12, 3}})
    for (int64_t blocks : {1, 3, 2})
      for (int64_t run_length : {64, 32, 5, 24})
        for (DType dtype : {DType::kF32, DType::kBF16})
          for (int transposes = 0; transposes < 4; ++transposes) {
            const Product one{.rows = 50,
                              .k = split.chunks * blocks * run_length,
                              .columns = 70,
                              .chunks = split.chunks,
                              .blocks = blocks,
                              .dtype = dtype,
                              .transpose_a = (transposes & 1) != 0,
                              .transpose_b = (transposes & 2) != 0};
            const HostTensor whole = run(one, cpu_backend(), one.inputs(), 2);
            ASSERT_EQ(by_shards(one, cpu_backend(), split.parts), whole)
                << one.text() << ", " << split.parts << " parts";
            if (transposes == 2 && run_length == 5) {
              const HostTensor oracle = run(one, reference_backend(), one.inputs());
              ASSERT_EQ(by_shards(one, reference_backend(), split.parts), oracle) << one.text();
              ASSERT_EQ(compare(whole, oracle, 2e-5), "") << one.text();
            }
          }
}

TEST(Contraction, AChunkHasAPartOfEveryBlock) {
  // a = 1, b = powers of two far apart, so that f32 shows which terms met first: [2 blocks, 2 chunks, 1].
  const HostTensor a = HostTensor::of(DType::kF32, {1, 4}, {1, 1, 1, 1});
  const HostTensor b = HostTensor::of(DType::kF32, {4, 1}, {0x1p30, 1, -0x1p30, 1});
  for (const Backend* backend : kBackends) {
    const auto sum = [&](Attributes attributes) {
      return interpret_node(node_of("matmul", {a, b}, std::move(attributes)), *backend, {a, b})[0].get(0);
    };
    EXPECT_EQ(sum({{"chunks", 2}, {"chunk_blocks", 2}}), 2);  // (2^30 - 2^30) + (1 + 1)
    EXPECT_EQ(sum({{"chunks", 2}}), 0);                       // (2^30 + 1) + (-2^30 + 1), each rounded
  }
}

TEST(Contraction, RefusesBlocksThatDoNotFit) {
  const Product one{4, 12, 4, 2};
  Attributes attributes = one.attributes(2);
  attributes.set("chunk_blocks", int64_t{4});
  try {
    node_of("matmul", one.inputs(), attributes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("chunks of several blocks must divide"),
                                             testing::HasSubstr("chunks=2, chunk_blocks=4")));
  }
}

TEST(Contraction, PackedBlocksGiveTheSameBits) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (bool transposed : {false, true})
      for (int64_t run_length : {32, 20}) {
        const Product one{.rows = 40,
                          .k = 3 * 4 * run_length,
                          .columns = 70,
                          .chunks = 4,
                          .blocks = 3,
                          .dtype = dtype,
                          .transpose_b = transposed};
        const auto inputs = one.inputs();
        const NodeSignature node = node_of("matmul", inputs, one.attributes(4));
        const auto layout = cpu_backend().blocking(node, 1);
        if (!layout) GTEST_SKIP() << "this processor blocks no " << name_of(dtype);
        ASSERT_THAT(layout->format, testing::HasSubstr(" 4x3 "));
        ASSERT_EQ(BlockedMatrix::parse(layout->format)->format(), layout->format);
        const Attributes blocking{{"format", layout->format}, {"bytes", layout->bytes}, {"dtype", dtype}};
        const HostTensor blocked =
            interpret_node(node_of("block", {inputs[1]}, blocking), cpu_backend(), {inputs[1]}, 2)[0];
        Attributes attributes = one.attributes(4);
        attributes.set("b_blocked", layout->format).set("b_shape", inputs[1].type.shape.dims()).set("b_dtype", dtype);
        const std::vector<HostTensor> operands{inputs[0], blocked};
        EXPECT_EQ(interpret_node(node_of("matmul", operands, attributes), cpu_backend(), operands, 2)[0],
                  run(one, cpu_backend(), inputs));
      }
}

}  // namespace
}  // namespace ramet::tests
