#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/row_data.h"
#include "ramet/base/error.h"
#include "ramet/kernel/hopper/hopper.h"
#include "ramet/kernel/interpret.h"

// Cross-entropy on the card, bit for bit as the class `hopper` on the host.

namespace ramet::tests {
namespace {

using Tensors = std::vector<HostTensor>;

Tensors on_host(const std::string& op, const Tensors& inputs, const Attributes& attributes) {
  return interpret_node(node_of(op, inputs, attributes), hopper_backend(), inputs, 2);
}

/// Logits some of whose rows have the greatest number more than once, in front of the label, behind it and there.
HostTensor logits_of(DType dtype, int64_t rows, int64_t classes, bool specials) {
  HostTensor logits = row_numbers(dtype, {rows, classes}, 7, specials);
  const HostTensor labels = row_labels(rows, classes, 8);
  for (int64_t row = 0; row < rows; ++row) {
    const auto label = static_cast<int64_t>(std::max(0.0, labels.get(row)));
    if (row % 3 == 0) logits.set(row * classes + label, 30);
    if (row % 6 == 0) logits.set(row * classes + classes / 2, 30);
    if (row % 7 == 5)
      for (int64_t i = 0; i < classes; ++i) logits.set(row * classes + i, -INFINITY);
  }
  return logits;
}

void check_all(DType dtype, int64_t rows, int64_t classes, const Attributes& forward, const Attributes& backward,
               bool specials = false) {
  const HostTensor logits = logits_of(dtype, rows, classes, specials);
  HostTensor labels = row_labels(rows, forward.get_int_or("classes", classes), 8);
  check_on_card("softmax_statistics", {logits, labels}, forward);
  const HostTensor statistics = on_host("softmax_statistics", {logits, labels}, forward)[0];
  check_on_card("cross_entropy", {statistics}, {});
  check_on_card("cross_entropy", {statistics}, {{"in_order", true}});
  check_on_card("cross_entropy_rows", {statistics}, {});
  HostTensor dloss({DType::kF32, {}});
  dloss.set(0, 0.7);
  const HostTensor count = on_host("cross_entropy", {statistics}, {})[1];
  check_on_card("cross_entropy_grad", {statistics, count, dloss}, {});
  HostTensor dlse = row_numbers(DType::kF32, {rows}, 5);
  const HostTensor dlosses = row_numbers(DType::kF32, {rows}, 6);
  for (int64_t row = 0; row < rows; row += 2) dlse.set(row, 0);
  check_on_card("cross_entropy_rows_grad", {statistics, dlse, dlosses}, {});
  check_on_card("softmax_statistics_grad",
                {logits, labels, statistics, on_host("cross_entropy_grad", {statistics, count, dloss}, {})[0]},
                backward);
  HostTensor slopes = row_numbers(DType::kF32, statistics.type.shape, 9);
  for (int64_t i = 0; i < slopes.elements(); i += 3) slopes.set(i, 0);
  check_on_card("softmax_statistics_grad", {logits, labels, statistics, slopes}, backward);
}

TEST(CudaLoss, CrossEntropyOfAnyNumberOfClasses) {
  for (const DType dtype : kRowTypes)
    for (const int64_t classes : {1, 2, 7, 64, 65, 130, 258, 1001}) check_all(dtype, 9, classes, {}, {});
  check_all(DType::kBF16, 0, 10, {}, {});
  check_all(DType::kBF16, 1, 10, {}, {});
}

TEST(CudaLoss, CrossEntropyInChunks) {
  for (const DType dtype : kRowTypes)
    for (const int64_t chunks : {2, 3, 5, 20}) check_all(dtype, 15, 60 * 7, {{"chunks", chunks}}, {});
  check_all(DType::kBF16, 40, 60 * 30, {{"chunks", int64_t{2}}}, {});  // chunks stay in registers
  check_all(DType::kBF16, 40, 60 * 30, {{"chunks", int64_t{24}}}, {}, true);
}

/// A block has a chunk.
TEST(CudaLoss, WideChunks) {
  for (const DType dtype : kRowTypes)
    for (const int64_t classes : {2049, 2050, 2304, 7000}) {
      check_all(dtype, 9, classes, {}, {});
      check_all(dtype, 9, classes, {}, {}, true);
    }
  check_all(DType::kBF16, 9, 3 * 2500, {{"chunks", int64_t{3}}}, {});
  check_all(DType::kBF16, 9, 5000, {{"classes", int64_t{4001}}}, {{"classes", int64_t{4001}}});
}

TEST(CudaLoss, CrossEntropyOfManyRows) {
  for (const int64_t rows : {63, 64, 65, 64 * 5 + 1, 64 * 260}) check_all(DType::kF32, rows, 3, {}, {});
}

TEST(CudaLoss, SpecialLogits) {
  for (const DType dtype : kRowTypes) {
    check_all(dtype, 20, 150, {}, {}, true);
    check_all(dtype, 20, 150, {{"chunks", int64_t{3}}}, {}, true);
  }
}

TEST(CudaLoss, PaddingIsNoClass) {
  for (const DType dtype : kRowTypes)
    for (const int64_t classes : {1, 50, 99, 149}) {
      const Attributes only{{"classes", classes}};
      Attributes chunks{{"chunks", int64_t{3}}};
      chunks.set("classes", classes);
      check_all(dtype, 12, 150, only, only);
      check_all(dtype, 12, 150, chunks, only, true);
    }
  Attributes kept{{"chunks", int64_t{2}}};  // chunks stay in registers
  kept.set("classes", int64_t{1700});
  check_all(DType::kBF16, 40, 1800, kept, {{"classes", int64_t{1700}}});
}

/// A device that holds a part of the classes; labels are those of the whole model.
TEST(CudaLoss, PartsOfClasses) {
  for (const int64_t blocks : {1, 3})
    for (int64_t position = 0; position < 2; ++position) {
      Attributes part{{"cuts", std::vector<int64_t>{1, 2, 2, blocks, 1}}};
      part.set("position", std::vector<int64_t>{position});
      Attributes chunks = part;
      chunks.set("chunks", int64_t{3});
      const int64_t rows = 15, local = 60;
      const HostTensor logits = logits_of(DType::kBF16, rows, local, false), labels = row_labels(rows, 2 * local, 3);
      check_on_card("softmax_statistics", {logits, labels}, chunks);
      const HostTensor statistics = on_host("softmax_statistics", {logits, labels}, chunks)[0];
      const HostTensor slopes = row_numbers(DType::kF32, statistics.type.shape, 9);
      check_on_card("softmax_statistics_grad", {logits, labels, statistics, slopes}, part);
    }
}

TEST(CudaLoss, ALabelThatIsNoClassIsAnError) {
  const HostTensor logits = logits_of(DType::kF32, 9, 20, false);
  HostTensor labels = row_labels(9, 20, 3);
  labels.set(6, 20);
  const Tensors inputs{logits, labels};
  EXPECT_THAT(
      [&] { run_on_card(node_of("softmax_statistics", inputs, {}), inputs); },
      testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("row 6"), testing::HasSubstr("less than 20"))));
}

}  // namespace
}  // namespace ramet::tests
