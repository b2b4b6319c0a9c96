// Nodes that hold a part of a logical tensor give the bits of the whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/map_program.h"
#include "support/cut.h"

namespace ramet::tests {
namespace {

HostTensor counter() { return HostTensor::of(DType::kI64, {2}, {3, 4}); }

std::vector<HostTensor> run(const Backend& backend, const std::string& op, const std::vector<HostTensor>& inputs,
                            const Attributes& attributes, int threads = 1) {
  return interpret_node(node_of(op, inputs, attributes), backend, inputs, threads);
}

const Backend* const kBackends[] = {&reference_backend(), &cpu_backend()};

/// All places of a device among cuts.
std::vector<std::vector<int64_t>> places(const std::vector<TestCut>& cuts) {
  std::vector<std::vector<int64_t>> all{{}};
  for (const TestCut& one : cuts) {
    std::vector<std::vector<int64_t>> more;
    for (const auto& place : all)
      for (int64_t k = 0; k < one.parts; ++k) more.push_back(place), more.back().push_back(k);
    all = std::move(more);
  }
  return all;
}

HostTensor cut_all(HostTensor tensor, const std::vector<TestCut>& cuts, const std::vector<int64_t>& place) {
  for (size_t i = 0; i < cuts.size(); ++i) tensor = cut(tensor, cuts[i], place[i]);
  return tensor;
}

struct CutCase {
  Shape shape;
  std::vector<TestCut> cuts;
};

std::vector<CutCase> cut_cases() {
  return {{{6, 40, 96}, {{2, 2, 3}}},
          {{6, 40, 96}, {{2, 4, 1}}},
          {{6, 40, 96}, {{0, 3, 1}}},
          {{6, 40, 96}, {{1, 4, 1}}},
          {{8, 3, 5, 14}, {{0, 2, 1}, {3, 7, 1}}},
          {{1, 4096}, {{1, 2, 1}}},
          {{5, 3, 2100}, {{2, 3, 1}}},
          {{7, 30}, {{1, 30, 1}}},
          {{2, 6 * 700}, {{1, 2, 3}, {1, 2, 1}}}};
}

TEST(Cuts, DropoutDrawsByLogicalElement) {
  const Attributes attributes{{"rate", 0.25}, {"seed", int64_t{42}}, {"tensor", int64_t{123456789012345}}};
  for (const CutCase& one : cut_cases())
    for (DType dtype : {DType::kF32, DType::kBF16})
      for (const Backend* backend : kBackends) {
        const HostTensor whole = random_tensor(dtype, one.shape, 1);
        const HostTensor expected = run(*backend, "dropout", {whole, counter()}, attributes)[0];
        for (const auto& place : places(one.cuts))
          for (int threads : {1, 3}) {
            const auto found = run(*backend, "dropout", {cut_all(whole, one.cuts, place), counter()},
                                   placed(attributes, one.cuts, place), threads);
            ASSERT_EQ(found[0], cut_all(expected, one.cuts, place)) << one.shape.text() << " " << threads;
          }
      }
}

TEST(Cuts, DropoutInsideMaps) {
  // A bias, a dropped chain of two draws, a residual; one output summed over the last dimension.
  const std::string text =
      "4:%4=add(%0,%1);%5=dropout[0.25,42,99](%4,%3);%6=add(%5,%2);%7=dropout[0.5,42,7](%6,%3)->%7,%6";
  for (const CutCase& one : cut_cases())
    for (DType dtype : {DType::kF32, DType::kBF16})
      for (const Backend* backend : kBackends) {
        const Shape row{one.shape.dim(-1)};
        const int last = one.shape.rank() - 1;
        const std::vector<HostTensor> whole{random_tensor(dtype, one.shape, 1), random_tensor(DType::kF32, row, 2),
                                            random_tensor(dtype, one.shape, 3), counter()};
        Attributes attributes{{"program", text}, {"shape", one.shape.dims()}, {"dtypes", std::string("f32,bf16")}};
        const auto expected = run(*backend, "map", whole, attributes);
        for (const auto& place : places(one.cuts)) {
          std::vector<HostTensor> parts = whole;
          parts[0] = cut_all(whole[0], one.cuts, place);
          parts[2] = cut_all(whole[2], one.cuts, place);
          for (size_t i = 0; i < one.cuts.size(); ++i)
            if (one.cuts[i].dim == last) parts[1] = cut(parts[1], {0, one.cuts[i].parts, one.cuts[i].blocks}, place[i]);
          attributes.set("shape", parts[0].type.shape.dims());
          for (int threads : {1, 2}) {
            const auto found = run(*backend, "map", parts, placed(attributes, one.cuts, place), threads);
            for (size_t o = 0; o < found.size(); ++o)
              ASSERT_EQ(found[o], cut_all(expected[o], one.cuts, place)) << one.shape.text() << " output " << o;
          }
        }
      }
}

struct AttentionCase {
  int64_t batch, sequence, heads, head_size;
  bool packed;
  int64_t sample_parts, head_parts;
};

void check_attention(const AttentionCase& one, DType dtype, const Backend& backend) {
  Attributes attributes{{"packed", one.packed}, {"scale", 0.3},       {"masked", true},       {"causal", true},
                        {"dropout", 0.25},      {"seed", int64_t{5}}, {"tensor", int64_t{77}}};
  std::vector<HostTensor> inputs;
  const Shape part{one.batch, one.sequence, one.heads, one.head_size};
  if (one.packed)
    inputs.push_back(random_tensor(dtype, {one.batch, one.sequence, 3, one.heads, one.head_size}, 1));
  else
    for (uint64_t i = 0; i < 3; ++i) inputs.push_back(random_tensor(dtype, part, i));
  HostTensor mask(TensorType{DType::kI32, {one.batch, one.sequence}});
  for (int64_t i = 0; i < mask.elements(); ++i) mask.set(i, i % 5 != 3);
  inputs.push_back(mask);
  inputs.push_back(counter());
  const auto forward = run(backend, "attention", inputs, attributes);
  std::vector<HostTensor> backward = inputs;
  backward.insert(backward.end(), {forward[0], forward[1], random_tensor(dtype, part, 9)});
  const auto gradients = run(backend, "attention_grad", backward, attributes);

  const int heads_at = one.packed ? 3 : 2;
  const size_t operands = one.packed ? 1 : 3;
  const std::vector<TestCut> cuts{{0, one.sample_parts, 1}, {heads_at, one.head_parts, 1}};
  for (const auto& place : places(cuts)) {
    const auto samples = [&](const HostTensor& t) { return cut(t, {0, one.sample_parts, 1}, place[0]); };
    const auto heads = [&](const HostTensor& t, int dim) {
      return cut(samples(t), {dim, one.head_parts, 1}, place[1]);
    };
    std::vector<HostTensor> mine = backward;
    for (size_t i = 0; i < operands; ++i) mine[i] = heads(mine[i], heads_at);
    mine[operands] = samples(mine[operands]);
    mine[operands + 2] = heads(forward[0], 2);
    mine[operands + 3] = heads(forward[1], 1);
    mine[operands + 4] = heads(backward.back(), 2);
    const Attributes here = placed(attributes, cuts, place);
    const auto out = run(backend, "attention", {mine.begin(), mine.begin() + static_cast<long>(operands) + 2}, here, 2);
    ASSERT_EQ(out[0], heads(forward[0], 2));
    ASSERT_EQ(out[1], heads(forward[1], 1));
    const auto grad = run(backend, "attention_grad", mine, here, 2);
    for (size_t i = 0; i < grad.size(); ++i) ASSERT_EQ(grad[i], heads(gradients[i], heads_at)) << "gradient " << i;
  }
}

TEST(Cuts, AttentionDropsByLogicalSampleAndHead) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const Backend* backend : kBackends) {
      check_attention({2, 40, 4, 16, true, 1, 4}, dtype, *backend);
      check_attention({2, 40, 4, 16, true, 2, 2}, dtype, *backend);
      check_attention({4, 37, 2, 5, false, 2, 2}, dtype, *backend);
      check_attention({1, 136, 6, 8, false, 1, 3}, dtype, *backend);
    }
}

TEST(Cuts, AttentionRefusesToCutPositions) {
  const std::vector<HostTensor> inputs{random_tensor(DType::kF32, {1, 4, 3, 2, 8}, 1)};
  try {
    node_of("attention", inputs, placed({{"packed", true}, {"scale", 1.0}}, {{1, 2, 1}}, {0}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a cut of a dimension that attention needs whole"));
  }
}

TEST(Cuts, IotaCountsOn) {
  for (const CutCase& one : cut_cases())
    for (const Backend* backend : kBackends)
      for (int64_t axis = 0; axis < one.shape.rank(); ++axis) {
        Attributes attributes{{"dtype", DType::kI32}, {"shape", one.shape.dims()}, {"axis", axis}};
        const HostTensor whole = run(*backend, "iota", {}, attributes)[0];
        for (const auto& place : places(one.cuts)) {
          const HostTensor expected = cut_all(whole, one.cuts, place);
          attributes.set("shape", expected.type.shape.dims());
          ASSERT_EQ(run(*backend, "iota", {}, placed(attributes, one.cuts, place), 2)[0], expected);
        }
      }
}

/// Elements as the bits that they are.
std::vector<uint32_t> bits(const HostTensor& tensor) {
  std::vector<uint32_t> all;
  const size_t size = size_of(tensor.type.dtype);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, tensor.data.data() + static_cast<size_t>(i) * size, size);
    all.push_back(word);
  }
  return all;
}

TEST(Cuts, RowsOfATableFromItsParts) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const Backend* backend : kBackends)
      for (int64_t parts : {2, 3, 4, 12}) {
        HostTensor table = random_tensor(dtype, {12, 10}, 1);
        table.set(0, -0.0), table.set(1, 0.0), table.set(2, INFINITY), table.set(3, NAN);
        const HostTensor indices = HostTensor::of(DType::kI32, {2, 4}, {0, 11, 5, 0, 3, 7, 6, 8});
        const HostTensor whole = run(*backend, "gather", {table, indices}, {})[0];
        // Any order of additions gives the same bits: all terms but one are -0.
        HostTensor sum;
        for (int64_t k = 0; k < parts; ++k) {
          const std::vector<HostTensor> inputs{cut(table, {0, parts, 1}, k), indices};
          const HostTensor part = run(*backend, "gather", inputs, placed({}, {{0, parts, 1}}, {k}), 2)[0];
          sum = k == 0 ? part : run(*backend, "add", {sum, part}, {})[0];
        }
        ASSERT_EQ(bits(sum), bits(whole)) << parts;
      }
}

TEST(Cuts, UpdatesOfATableInItsParts) {
  for (const Backend* backend : kBackends)
    for (int64_t parts : {2, 3, 600}) {
      const HostTensor updates = random_tensor(DType::kBF16, {40, 10}, 1);
      HostTensor indices(TensorType{DType::kI64, {40}});
      for (int64_t i = 0; i < 40; ++i) indices.set(i, static_cast<double>(i * i * 7 % 600 / (i % 2 ? 100 : 1)));
      const HostTensor whole =
          run(*backend, "scatter_add", {indices, updates}, {{"rows", 600}, {"dtype", DType::kF32}})[0];
      for (int64_t k = 0; k < parts; ++k) {
        const Attributes attributes = placed({{"rows", 600 / parts}, {"dtype", DType::kF32}}, {{0, parts, 1}}, {k});
        const HostTensor part = run(*backend, "scatter_add", {indices, updates}, attributes, 2)[0];
        ASSERT_EQ(bits(part), bits(cut(whole, {0, parts, 1}, k)));
      }
    }
}

TEST(Cuts, RowsOfASparseTableFromItsPartsAndUpdatesOfThem) {
  // Four rows of two cells of 3 x 4, each with two of its blocks of 1 x 2; the last cells have an unused slot.
  HostTensor index = HostTensor::of(DType::kI32, {4, 2, 2}, {0, 3, 1, 2, 4, 5, 0, 1, 2, 5, 3, 4, 1, -1, 5, -1});
  const HostTensor numbers = HostTensor::of(DType::kI64, {7}, {0, 11, 5, 0, 3, 7, 9});
  const HostTensor updates = random_tensor(DType::kF32, {7, 8}, 5);
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const Backend* backend : kBackends)
      for (int64_t parts : {2, 4}) {
        HostTensor values = random_tensor(dtype, {4, 2, 2, 1, 2}, 1);
        values.set(0, -0.0), values.set(1, 0.0), values.set(2, INFINITY), values.set(3, NAN);
        const Attributes cell{{"cell", std::vector<int64_t>{3, 4}}};
        Attributes block = cell;
        block.set("block", std::vector<int64_t>{1, 2});
        const HostTensor whole = run(*backend, "sparse_gather", {numbers, values, index}, cell)[0];
        const HostTensor added = run(*backend, "sparse_scatter_add", {numbers, updates, index}, block)[0];
        HostTensor sum;
        for (int64_t k = 0; k < parts; ++k) {
          const HostTensor slots = cut(index, {0, parts, 1}, k);
          const HostTensor part = run(*backend, "sparse_gather", {numbers, cut(values, {0, parts, 1}, k), slots},
                                      placed(cell, {{0, parts, 1}}, {k}), 2)[0];
          sum = k == 0 ? part : run(*backend, "add", {sum, part}, {})[0];
          const Attributes here = placed(block, {{0, parts, 1}}, {k});
          const HostTensor of_part = run(*backend, "sparse_scatter_add", {numbers, updates, slots}, here, 2)[0];
          ASSERT_EQ(bits(of_part), bits(cut(added, {0, parts, 1}, k))) << parts;
        }
        ASSERT_EQ(bits(sum), bits(whole)) << parts;
      }
}

TEST(Cuts, AnIndexOutsideTheLogicalTableIsAnError) {
  const HostTensor table = random_tensor(DType::kF32, {6, 2}, 1), updates = random_tensor(DType::kF32, {2, 2}, 1);
  const HostTensor inside = HostTensor::of(DType::kI32, {2}, {0, 11}),
                   outside = HostTensor::of(DType::kI32, {2}, {0, 12});
  for (const Backend* backend : kBackends) {
    const Attributes here = placed({}, {{0, 2, 1}}, {1});
    EXPECT_NO_THROW(run(*backend, "gather", {table, inside}, here));
    const auto text = [&](const std::string& op, const std::vector<HostTensor>& inputs,
                          Attributes attributes) -> std::string {
      try {
        run(*backend, op, inputs, attributes);
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_THAT(text("gather", {table, outside}, here),
                testing::AllOf(testing::HasSubstr("index out of range"), testing::HasSubstr("0 to 11")));
    Attributes rows = here;
    rows.set("rows", int64_t{6});
    EXPECT_NO_THROW(run(*backend, "scatter_add", {inside, updates}, rows));
    EXPECT_THAT(text("scatter_add", {outside, updates}, rows),
                testing::AllOf(testing::HasSubstr("index out of range"), testing::HasSubstr("0 to 11")));
  }
}

}  // namespace
}  // namespace ramet::tests
