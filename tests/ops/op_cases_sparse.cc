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
}

}  // namespace

void add_sparse_cases(std::vector<OpCase>& cases) {
  add_hand_made(cases);
  for (uint64_t number = 0; number < 32; ++number) add_drawn(cases, number);
}

}  // namespace ramet::tests
