#include "ramet/train/inputs.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ramet/base/error.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

const std::vector<InputSpec> kInputs = {{.name = "ids", .type = {DType::kI32, {2, 3}}, .low = 0, .high = 9},
                                        {.name = "mask", .type = {DType::kBool, {2, 3}}},
                                        {.name = "x", .type = {DType::kF32, {2}}, .low = -1}};

template <typename T>
NamedTensor tensor(const std::string& name, TensorType type, const std::vector<T>& values) {
  NamedTensor made{name, std::move(type), {}};
  made.bytes.resize(values.size() * sizeof(T));
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

TEST(Inputs, OneMessageNamesAllThatIsWrong) {
  EXPECT_EQ(
      error_of([] {
        check_signature(kInputs,
                        {{"idz", {DType::kI32, {2, 3}}}, {"mask", {DType::kI32, {2, 3}}}, {"x", {DType::kF32, {3}}}},
                        "the data");
      }),
      "the data: the tensors are not those that the model reads; found 'ids' i32[2,3] is missing (there is 'idz'); "
      "'mask' has elements of i32, not bool; 'x' is f32[3], not f32[2]; expected ids i32[2,3], mask bool[2,3], x "
      "f32[2]. Give these tensors for a micro-batch, or declare the model's inputs as the data has them");
  EXPECT_EQ(error_of([] {
              check_signature({kInputs[2]}, {{"x", {DType::kF32, {2}}}, {"more", {DType::kF32, {2}}}}, "the data");
            }),
            "no error")
      << "what the model does not read is no fault";
}

template <typename T>
int64_t nonzero(DType dtype, const std::vector<T>& values) {
  const NamedTensor made = tensor<T>("m", {dtype, {static_cast<int64_t>(values.size())}}, values);
  return count_nonzero(made.type, made.bytes.data());
}

TEST(Inputs, UnitsAreCountedInAnyType) {
  EXPECT_EQ(nonzero<uint8_t>(DType::kBool, {1, 0, 1, 1, 1, 0}), 4);
  EXPECT_EQ(nonzero<int32_t>(DType::kI32, {1, 0, -1, 256}), 3);
  EXPECT_EQ(nonzero<int64_t>(DType::kI64, {int64_t{1} << 40, 0}), 1);
  EXPECT_EQ(nonzero<float>(DType::kF32, {0.5F, 0.0F, -0.0F}), 1);
}

}  // namespace
}  // namespace ramet::tests
