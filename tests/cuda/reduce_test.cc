#include <gtest/gtest.h>

#include "cuda/row_data.h"

// Reductions on the card, bit for bit as the class `hopper` on the host.

namespace ramet::tests {
namespace {

using Axes = std::vector<int64_t>;

const char* const kReductions[] = {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"};

Attributes axes_of(Axes axes) { return {{"axes", std::move(axes)}}; }

void check(const char* op, DType dtype, Shape shape, const Attributes& attributes, bool specials) {
  HostTensor a = row_numbers(dtype, std::move(shape), 1, specials);
  if (std::string(op) == "reduce_prod")  // so that not all are infinite
    for (int64_t i = 0; i < a.elements(); ++i) a.set(i, a.get(i) / 2);
  check_on_card(op, {a}, attributes);
}

TEST(CudaReduce, OverEveryChoiceOfAxes) {
  for (const char* op : kReductions)
    for (const DType dtype : kRowTypes)
      for (const Axes& axes : std::vector<Axes>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}})
        check(op, dtype, {3, 70, 11}, axes_of(axes), dtype != DType::kF32);
}

TEST(CudaReduce, RowsAndLinesOfAnyNumber) {
  for (const DType dtype : kRowTypes) {
    for (const int64_t count : {1, 2, 15, 16, 17, 33, 64, 65, 257, 64 * 9 + 3, 64 * 67}) {
      check("reduce_sum", dtype, {count, 4}, axes_of({0}), false);
      check("reduce_sum", dtype, {3, count}, axes_of({1}), false);
      check("reduce_max", dtype, {5, count}, axes_of({1}), true);
      check("reduce_max", dtype, {count, 3}, axes_of({0}), true);
      check("reduce_sum", dtype, {count}, axes_of({0}), true);
      check("reduce_sum", dtype, {2, count, 1}, axes_of({1}), false);
    }
    check("reduce_sum", dtype, {130, 520}, axes_of({0}), false);
    check("reduce_sum", dtype, {700, 18}, axes_of({1}), false);
  }
}

TEST(CudaReduce, OfNothing) {
  for (const char* op : {"reduce_sum", "reduce_prod"}) {
    check(op, DType::kF32, {0, 5}, axes_of({0}), false);
    check(op, DType::kBF16, {5, 0}, axes_of({1}), false);
    check(op, DType::kBF16, {0, 5}, axes_of({1}), false);
    check(op, DType::kF32, {2, 0, 3}, axes_of({0, 1, 2}), false);
  }
  check("reduce_sum", DType::kF32, {0, 5}, axes_of({0}).set("in_order", true), false);
}

TEST(CudaReduce, InChunksAndInOrder) {
  for (const DType dtype : kRowTypes) {
    for (const int64_t chunks : {2, 3, 12}) {
      check("reduce_sum", dtype, {2, 240, 5}, axes_of({0, 1}).set("chunks", chunks), false);
      check("reduce_sum", dtype, {2, 240, 6}, axes_of({1}).set("chunks", chunks), false);
      check("reduce_sum", dtype, {5, 48}, axes_of({1}).set("chunks", chunks), false);
    }
    for (const Axes& axes : std::vector<Axes>{{0}, {1}, {2}, {0, 1}})
      check("reduce_sum", dtype, {3, 130, 7}, axes_of(axes).set("in_order", true), true);
  }
}

TEST(CudaReduce, ToOtherTypes) {
  for (const DType to : kRowTypes)
    for (const DType from : kRowTypes) {
      check("reduce_sum", from, {66, 9}, axes_of({0}).set("dtype", to), false);
      check("reduce_sum", from, {9, 66}, axes_of({1}).set("dtype", to), false);
      check("reduce_sum", from, {9, 6, 8}, axes_of({0, 2}).set("dtype", to), true);
    }
}

}  // namespace
}  // namespace ramet::tests
