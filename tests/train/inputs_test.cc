#include "ramet/train/inputs.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ramet/base/error.h"

namespace ramet {
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

Batch batch_of(int32_t id, float x) {
  return {10, 2,
          {tensor<int32_t>("ids", {DType::kI32, {2, 3}}, {0, 1, 2, 3, id, 5}),
           tensor<uint8_t>("mask", {DType::kBool, {2, 3}}, {1, 0, 1, 1, 1, 0}),
           tensor<float>("x", {DType::kF32, {2}}, {0, x})}};
}

template <typename Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Inputs, OneMessageNamesAllThatIsWrong) {
  EXPECT_EQ(error_of([] {
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

TEST(Inputs, ValuesOutsideTheirLimitsAreNamed) {
  check_values(kInputs, batch_of(9, -1), "the data");
  EXPECT_EQ(error_of([] { check_values(kInputs, batch_of(10, 0), "the data"); }),
            "the data, input 'ids', sample 11: a number of the data is outside what the model takes; found 10 at element 1; "
            "expected 0 to 9. Correct the data, or make the model for it");
  EXPECT_NE(error_of([] { check_values(kInputs, batch_of(-1, 0), "the data"); }).find("found -1"), std::string::npos);
  EXPECT_NE(error_of([] { check_values(kInputs, batch_of(0, -2), "the data"); }).find("at least -1"), std::string::npos);
  EXPECT_NE(error_of([] { check_values(kInputs, batch_of(0, NAN), "the data"); }).find("input 'x'"), std::string::npos);
}

TEST(Inputs, ABatchIsWhatItsSourceSaid) {
  Batch batch = batch_of(0, 0);
  batch.tensors[1].type = {DType::kBool, {6}};
  EXPECT_NE(error_of([&] { check_values(kInputs, batch, "the data"); }).find("found 'mask' bool[6]"), std::string::npos);
  batch.tensors.erase(batch.tensors.begin() + 1);
  EXPECT_NE(error_of([&] { check_values(kInputs, batch, "the data"); }).find("found no 'mask'"), std::string::npos);
  batch.tensors.clear();
  EXPECT_EQ(error_of([&] { check_values(kInputs, batch, "the data"); }), "no error") << "a batch of another rank";
}

TEST(Inputs, UnitsAreCountedInAnyType) {
  EXPECT_EQ(count_nonzero(batch_of(0, 0).tensors[1]), 4);
  EXPECT_EQ(count_nonzero(tensor<int32_t>("m", {DType::kI32, {4}}, {1, 0, -1, 256})), 3);
  EXPECT_EQ(count_nonzero(tensor<int64_t>("m", {DType::kI64, {2}}, {int64_t{1} << 40, 0})), 1);
  EXPECT_EQ(count_nonzero(tensor<float>("m", {DType::kF32, {3}}, {0.5F, 0.0F, -0.0F})), 1);
}

}  // namespace
}  // namespace ramet
