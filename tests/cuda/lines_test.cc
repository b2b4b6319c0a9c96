#include <gtest/gtest.h>

#include "cuda/row_data.h"

// Places of extremes, running sums and folds on the card, bit for bit as the class `hopper` on the host.

namespace ramet::tests {
namespace {

TEST(CudaLines, OfAnyTypeAndAxis) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI32, DType::kI64})
    for (const int64_t extent : {1, 2, 31, 32, 33, 200})
      for (const bool specials : {false, true}) {
        if (specials && !is_floating(dtype)) continue;
        const HostTensor a = row_numbers(dtype, {3, extent, 5}, 1, specials), b = row_numbers(dtype, {7, extent}, 2);
        for (const char* op : {"argmax", "argmin", "cumsum"}) {
          check_on_card(op, {a}, {{"axis", int64_t{1}}});
          check_on_card(op, {b}, {{"axis", int64_t{1}}});
        }
        check_on_card("cumsum", {a}, {{"axis", int64_t{2}}, {"reverse", true}});
      }
}

TEST(CudaLines, Folds) {
  HostTensor finite({DType::kF32, {}}), infinite = finite;
  finite.set(0, 3);
  infinite.set(0, INFINITY);
  for (const char* by : {"average", "sum", "max", "min", "last"}) {
    Attributes attributes{{"by", by}};
    if (std::string(by) == "average") attributes.set("momentum", 0.3);
    for (const int64_t rows : {0, 1, 5}) {
      const HostTensor state = row_numbers(DType::kF32, {30, 5}, 1, true);
      const HostTensor values = row_numbers(DType::kF32, {rows, 30, 5}, 2, true);
      check_on_card("fold", {state, values}, attributes);
      check_on_card("fold", {state, values, finite, finite}, attributes);
      check_on_card("fold", {state, values, finite, infinite}, attributes);
    }
  }
}

}  // namespace
}  // namespace ramet::tests
