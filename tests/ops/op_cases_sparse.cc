#include "ops/op_cases.h"
#include "ramet/base/rng.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;
constexpr DType kF32 = DType::kF32, kI32 = DType::kI32;

CaseInput f32(Shape shape) { return {{kF32, std::move(shape)}}; }
CaseInput given(DType dtype, Shape shape, std::vector<double> values) {
  return {.type = {dtype, std::move(shape)}, .values = std::move(values)};
}

/// Two cells side by side, each [2, 4] with two blocks of [1, 2]; the matrix is
///   1 2 . . | . . 5 6
///   . . 3 4 | . . 7 8
void add_hand_made(std::vector<OpCase>& cases) {
  const CaseInput values = given(kF32, {1, 2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const CaseInput index = given(kI32, {1, 2, 2}, {0, 3, 1, 3});
  cases.push_back({.op = "sparse_matmul",
                   .name = "by_hand",
                   .inputs = {given(kF32, {1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}), values, index},
                   .attributes = {{"cell", Dims{2, 4}}},
                   .expected = {{1 + 4 + 35 + 48, 9 + 16 + 49 + 64}}});
  cases.push_back({.op = "sparse_matmul",
                   .name = "by_hand_transposed",
                   .inputs = {given(kF32, {1, 2}, {1, 10}), values, index},
                   .attributes = {{"cell", Dims{2, 4}}, {"transpose", true}},
                   .expected = {{1, 2, 30, 40, 0, 0, 75, 86}}});
  cases.push_back({.op = "sparse_outer",
                   .name = "by_hand",
                   .inputs = {given(kF32, {2, 2}, {1, 2, 3, 4}),
                              given(kF32, {2, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1}), index},
                   .attributes = {{"cell", Dims{2, 4}}, {"block", Dims{1, 2}}},
                   .expected = {{4, 5, 10, 12, 10, 11, 18, 20}}});
  cases.push_back({.op = "sparse_gather",
                   .name = "by_hand",
                   .inputs = {given(kI32, {3}, {1, 0, 1}), values, index},
                   .attributes = {{"cell", Dims{2, 4}}},
                   .expected = {{0, 0, 3, 4, 0, 0, 7, 8, 1, 2, 0, 0, 0, 0, 5, 6, 0, 0, 3, 4, 0, 0, 7, 8}}});
  cases.push_back(
      {.op = "sparse_scatter_add",
       .name = "by_hand",
       .inputs = {given(kI32, {3}, {1, 0, 1}),
                  given(kF32, {3, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}), index},
       .attributes = {{"cell", Dims{2, 4}}, {"block", Dims{1, 2}}},
       .expected = {{1, 1, 5, 6, 1, 1, 9, 10}}});
  // Rows 0 and 1 of four columns in blocks of 2 x 2: row 0 keeps column 0, row 1 columns 0 and 1.
  const CaseInput scores = given(kF32, {1, 1, 2, 2, 2}, {0, 5, 1, 1, 3, 3, 3, 3});
  cases.push_back({.op = "sparse_softmax",
                   .name = "by_hand_lower",
                   .inputs = {scores, given(kI32, {1, 1, 2}, {0, 1})},
                   .attributes = {{"cell", Dims{2, 4}}, {"keep", std::string("lower")}},
                   .expected = {{1, 0, 0.5, 0.5, 0, 0, 0, 0}}});
  cases.push_back({.op = "sparse_softmax",
                   .name = "by_hand_upper",
                   .inputs = {given(kF32, {1, 1, 2, 2, 2}, {3, 3, 9, 3, 3, 3, 3, 3}), given(kI32, {1, 1, 2}, {0, 1})},
                   .attributes = {{"cell", Dims{2, 4}}, {"keep", std::string("upper")}},
                   .expected = {{0.25, 0.25, 0, 1. / 3, 0.25, 0.25, 1. / 3, 1. / 3}}});
}

/// The ops on rows of a matrix that is [rows, columns], with these values and stored blocks.
void add_rows(std::vector<OpCase>& cases, const std::string& name, const CaseInput& values, const CaseInput& stored,
              const Dims& cell, const Dims& block, int64_t rows, int64_t columns, int64_t count) {
  for (const std::string keep : {"all", "lower", "upper"}) {
    const Attributes attributes{{"cell", cell}, {"keep", keep}};
    cases.push_back(
        {.op = "sparse_softmax", .name = name + "_" + keep, .inputs = {values, stored}, .attributes = attributes});
    cases.push_back({.op = "sparse_softmax_grad",
                     .name = name + "_" + keep,
                     .inputs = {values, values, stored},
                     .attributes = attributes,
                     .gradient_tolerance = 0});
  }
  const CaseInput numbers{.type = {kI32, {count}}, .low = 0, .high = static_cast<double>(rows - 1)};
  cases.push_back(
      {.op = "sparse_gather", .name = name, .inputs = {numbers, values, stored}, .attributes = {{"cell", cell}}});
  cases.push_back({.op = "sparse_scatter_add",
                   .name = name,
                   .inputs = {numbers, f32({count, columns}), stored},
                   .attributes = {{"cell", cell}, {"block", block}}});
}

/// Grids of cells and blocks of any shape, none, some or all of the blocks stored, tokens in one or two dimensions.
void add_drawn(std::vector<OpCase>& cases, uint64_t number) {
  const RandomStream stream(number, RandomPurpose::kTest, 5, 0);
  uint64_t next = 0;
  const auto below = [&](int64_t bound) { return stream.below(next++, static_cast<uint32_t>(bound)); };
  const Dims sides{1, 1, 2, 3, 4, 4, 8, 16};
  const bool square = below(3) > 0;
  const int64_t rows = sides[static_cast<size_t>(below(8))];
  const int64_t columns = square ? rows : sides[static_cast<size_t>(below(8))];
  const int64_t down = 1 + below(4), across = 1 + below(4);
  const int64_t cells_down = 1 + below(3), cells_across = 1 + below(3);
  const int64_t kind = below(6), blocks = down * across;
  const int64_t slots = kind == 0 ? 0 : kind == 1 ? blocks : 1 + below(blocks);
  std::vector<double> index;
  for (int64_t cell = 0; cell < cells_down * cells_across; ++cell) {
    // Of the blocks that are left, each is taken with the chance that the slots that are left give it.
    int64_t left = slots;
    for (int64_t block = 0; block < blocks; ++block)
      if (below(blocks - block) < left) index.push_back(static_cast<double>(block)), --left;
  }
  const int64_t tokens = below(8) == 0 ? 0 : 1 + below(9);
  Dims leading{tokens};
  if (below(2) == 0) leading.insert(leading.begin(), 1 + below(2));
  const auto with = [&](int64_t last) {
    Dims dims = leading;
    dims.push_back(last);
    return f32(Shape(dims));
  };
  const Dims cell{down * rows, across * columns};
  const CaseInput stored = given(kI32, {cells_down, cells_across, slots}, index);
  const CaseInput values = f32({cells_down, cells_across, slots, rows, columns});
  const CaseInput of_rows = with(cells_down * cell[0]), of_columns = with(cells_across * cell[1]);
  const std::string name = "drawn_" + std::to_string(number);
  add_rows(cases, name, values, stored, cell, Dims{rows, columns}, cells_down * cell[0], cells_across * cell[1],
           tokens);
  // Three products at once, with one pattern or with one each.
  const auto three = [](CaseInput input, bool repeats) {
    Dims dims = input.type.shape.dims();
    dims.insert(dims.begin(), 3);
    input.type.shape = Shape(dims);
    if (repeats) {
      const std::vector<double> once = input.values;
      for (int i = 0; i < 2; ++i) input.values.insert(input.values.end(), once.begin(), once.end());
    }
    return input;
  };
  const CaseInput shared = number % 2 == 0 ? stored : three(stored, true);
  cases.push_back(
      {.op = "sparse_matmul", .name = name, .inputs = {of_columns, values, stored}, .attributes = {{"cell", cell}}});
  cases.push_back({.op = "sparse_matmul",
                   .name = name + "_transposed",
                   .inputs = {of_rows, values, stored},
                   .attributes = {{"cell", cell}, {"transpose", true}}});
  cases.push_back({.op = "sparse_outer",
                   .name = name,
                   .inputs = {of_rows, of_columns, stored},
                   .attributes = {{"cell", cell}, {"block", Dims{rows, columns}}}});
  if (number % 4 > 1) return;
  cases.push_back({.op = "sparse_matmul",
                   .name = name + "_three",
                   .inputs = {three(of_columns, false), three(values, false), shared},
                   .attributes = {{"cell", cell}}});
  cases.push_back({.op = "sparse_outer",
                   .name = name + "_three",
                   .inputs = {three(of_rows, false), three(of_columns, false), shared},
                   .attributes = {{"cell", cell}, {"block", Dims{rows, columns}}, {"grouped", true}}});
  cases.push_back({.op = "sparse_softmax",
                   .name = name + "_three",
                   .inputs = {three(values, false), shared},
                   .attributes = {{"cell", cell}, {"keep", std::string("lower")}}});
}

/// Patterns that change: two cells of eight blocks, the second of which has an unused slot.
void add_evolving(std::vector<OpCase>& cases) {
  const CaseInput index = given(kI32, {1, 2, 4}, {0, 2, 3, 7, 1, 4, 6, -1});
  const CaseInput scores = given(kF32, {1, 2, 4}, {3, 1, 4, 1, 5, 9, 2, 6});
  const CaseInput counter = given(DType::kI64, {2}, {9, 0});
  const Dims cell{4, 4}, block{1, 2};
  const Attributes attributes{{"cell", cell},
                              {"block", block},
                              {"prune_ratio", 0.5},
                              {"prune_schedule", std::string("constant")},
                              {"prune_end", int64_t{100}},
                              {"first", int64_t{4}},
                              {"last", int64_t{4}},
                              {"ramp_begin", int64_t{0}},
                              {"ramp_end", int64_t{0}},
                              {"seed", int64_t{3}},
                              {"tensor", int64_t{4}}};
  cases.push_back({.op = "sparse_evolve",
                   .name = "drawn",
                   .inputs = {index, scores, counter},
                   .attributes = attributes,
                   .low_types = false});
  Attributes returning = attributes;
  returning.set("regrow_pruned", true);
  cases.push_back({.op = "sparse_evolve",
                   .name = "drawn_again",
                   .inputs = {index, scores, counter},
                   .attributes = returning,
                   .low_types = false});
  cases.push_back({.op = "sparse_evolve",
                   .name = "by_hand",
                   .inputs = {index, scores, counter, given(kI32, {1, 2, 4}, {6, 1, 4, 5, 0, 7, 3, 2})},
                   .attributes = attributes,
                   .expected = {{0, 1, 3, 6, 0, 3, 4, 7}, {0, -1, 2, -1, -1, -1, 1, -1}},
                   .low_types = false});
  cases.push_back({.op = "sparse_carry",
                   .name = "by_hand",
                   .inputs = {given(kI32, {1, 2, 2}, {1, -1, -1, 0}),
                              given(kF32, {1, 2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), given(kF32, {}, {9})},
                   .expected = {{3, 4, 9, 9, 9, 9, 5, 6}}});
  cases.push_back({.op = "sparse_explore",
                   .name = "by_hand",
                   .inputs = {given(kI32, {1, 2, 1}, {5, 128}), index},
                   .attributes = {{"cell", cell}, {"block", block}},
                   .expected = {{1 + 4 + 8 + 128, 128 + 2 + 16 + 64}, {4, 4}}});
  // The gradient of the only token: 1 x 1 ... 4 x 8.
  cases.push_back(
      {.op = "sparse_candidates",
       .name = "by_hand",
       .inputs = {given(kF32, {1, 4}, {1, 2, -4, 3}), given(kF32, {1, 8}, {1, 1, 2, -2, 1, 0, 0, 1}), index},
       .attributes = {{"cell", cell}, {"block", block}, {"norm", std::string("l1")}},
       .expected = {{5, 4, 6, 1, 5, 7, 2, 3}}});
  for (const char* norm : {"l2", "max"})
    cases.push_back({.op = "sparse_candidates",
                     .name = norm,
                     .inputs = {f32({2, 3, 4}), f32({2, 3, 8}), index},
                     .attributes = {{"cell", cell}, {"block", block}, {"norm", std::string(norm)}},
                     .low_types = false});
  cases.push_back({.op = "sparse_candidates",
                   .name = "in_tiles",
                   .inputs = {f32({600, 16}), f32({600, 16}), given(kI32, {2, 1, 3}, {0, 5, 6, 1, 7, -1})},
                   .attributes = {{"cell", Dims{8, 16}}, {"block", Dims{4, 4}}, {"norm", std::string("l1")}},
                   .low_types = false});
  cases.push_back({.op = "adam",
                   .name = "own_steps",
                   .inputs = {f32({3, 7}),
                              f32({3, 7}),
                              f32({3, 7}),
                              {{kF32, {3, 7}}, 0, 1},
                              {{kF32, {3, 7}}, 0, 30},
                              given(kF32, {}, {0.01}),
                              given(kF32, {}, {40}),
                              given(kF32, {}, {0.5})},
                   .attributes = {{"beta1", 0.9},
                                  {"beta2", 0.99},
                                  {"epsilon", 1e-6},
                                  {"weight_decay", 0.1},
                                  {"decoupled", true},
                                  {"own_steps", true}},
                   .low_types = false});
}

}  // namespace

void add_sparse_cases(std::vector<OpCase>& cases) {
  add_hand_made(cases);
  add_evolving(cases);
  for (uint64_t number = 0; number < 32; ++number) add_drawn(cases, number);
}

}  // namespace ramet::tests
