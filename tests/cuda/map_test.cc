// Maps on the card: every op, type, broadcast and sum has the bits of the class on the host.

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "ramet/kernel/hopper/hopper.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/map_program.h"
#include "support/cut.h"

namespace ramet::tests {
namespace {

HostTensor counter() { return HostTensor::of(DType::kI64, {2}, {3, 4}); }

/// A map of `text` over `shape`, whose outputs have the types `dtypes` ("f32,bf16").
void check_map(const std::string& text, const Shape& shape, const std::vector<HostTensor>& inputs,
               const std::string& dtypes) {
  SCOPED_TRACE(text + " over " + shape.text());
  const Attributes attributes{{"program", text}, {"shape", shape.dims()}, {"dtypes", dtypes}};
  expect_card_equals_host(node_of("map", inputs, attributes), inputs);
}

/// Steps of one program, several at a time.
class Programs {
 public:
  Programs(int inputs, std::vector<HostTensor> operands) : inputs_(inputs), operands_(std::move(operands)) {}
  void add(const std::string& step, DType result) {
    steps_ += "%" + std::to_string(inputs_ + count_) + "=" + step + ";";
    outputs_ += (count_ ? ",%" : "->%") + std::to_string(inputs_ + count_);
    dtypes_ += (count_ ? "," : "") + std::string(name_of(result));
    if (++count_ == kMost) flush();
  }
  void flush() {
    if (count_ == 0) return;
    steps_.pop_back();
    check_map(std::to_string(inputs_) + ":" + steps_ + outputs_, operands_[0].type.shape, operands_, dtypes_);
    steps_ = outputs_ = dtypes_ = "";
    count_ = 0;
  }

 private:
  static constexpr int kMost = 8;
  int inputs_, count_ = 0;
  std::vector<HostTensor> operands_;
  std::string steps_, outputs_, dtypes_;
};

std::string step_text(const MapOpInfo& info) {
  std::string text(info.name);
  if (info.parameters == 1) text += "[0.3]";
  if (info.parameters == 2) text += "[-0.7,1.2]";
  text += "(%0";
  if (info.arity == 2) text += ",%1";
  return text + ")";
}

/// Numbers as models have them, and among them every kind of special one.
HostTensor numbers(DType dtype, const Shape& shape, uint64_t which) {
  HostTensor wild = random_bits(dtype, shape, which);
  if (!is_floating(dtype)) return wild;
  const RandomStream stream(which, RandomPurpose::kTest, 0, 12);
  for (int64_t i = 0; i < wild.elements(); ++i)
    if (i % 3 != 0) wild.set(i, 12 * stream.uniform(static_cast<uint64_t>(i)) - 6);
  return wild;
}

TEST(CudaMap, EveryOpOnFloats) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Shape shape{dtype == DType::kF32 ? 12001 : 6000};
    Programs programs(2, {numbers(dtype, shape, 1), numbers(dtype, shape, 2)});
    for (const MapOpInfo& info : map_op_table()) {
      const bool floats = info.types == MapOpTypes::kNumber || info.types == MapOpTypes::kFloat;
      if (floats) programs.add(step_text(info), dtype);
      if (info.types == MapOpTypes::kCompare || info.types == MapOpTypes::kTest)
        programs.add(step_text(info), DType::kBool);
    }
    programs.flush();
  }
}

TEST(CudaMap, EveryOpOnIntegers) {
  for (const DType dtype :
       {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
    const Shape shape{1001};
    HostTensor a = random_bits(dtype, shape, 3), b = random_bits(dtype, shape, 4);
    for (int64_t i = 0; i < b.elements(); ++i)  // divisors and shifts of every kind
      if (i % 2) b.set(i, static_cast<double>(i / 2 % 70) - (is_unsigned(dtype) ? 0 : 3));
    Programs programs(2, {a, b});
    for (const MapOpInfo& info : map_op_table()) {
      if (!info.integer) continue;
      if (info.types == MapOpTypes::kNumber || info.types == MapOpTypes::kInteger) programs.add(step_text(info), dtype);
      if (info.types == MapOpTypes::kCompare) programs.add(step_text(info), DType::kBool);
    }
    programs.flush();
  }
}

TEST(CudaMap, Bools) {
  const Shape shape{515};
  Programs programs(2, {random_bits(DType::kBool, shape, 5), random_bits(DType::kBool, shape, 6)});
  for (const MapOpInfo& info : map_op_table())
    if (info.types == MapOpTypes::kLogical || info.types == MapOpTypes::kCompare)
      programs.add(step_text(info), DType::kBool);
  programs.flush();
}

constexpr DType kAllTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2,
                               DType::kI8,  DType::kI16,  DType::kI32, DType::kI64,    DType::kU8,
                               DType::kU16, DType::kU32,  DType::kU64, DType::kBool};

TEST(CudaMap, CastsBetweenAllTypes) {
  for (const DType from : kAllTypes) {
    HostTensor values = random_bits(from, {2500}, 7);
    if (is_floating(from))
      for (int64_t i = 0; i < values.elements(); i += 2)  // among the bounds of all integers
        values.set(i, (i % 4 ? 1 : -1) * std::ldexp(1.0 + static_cast<double>(i) / 5000, static_cast<int>(i / 36) - 2));
    Programs programs(1, {values});
    for (const DType to : {DType::kF32, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                           DType::kU32, DType::kU64, DType::kBool})
      programs.add("cast[" + std::string(name_of(to)) + "](%0)", to);
    programs.flush();
  }
}

TEST(CudaMap, LoadsAndStoresOfFloats) {
  for (const DType from : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2})
    check_map("1:%1=scale[1.5](%0)->%1,%0,%1,%1,%1,%1", {70001}, {random_bits(from, {70001}, 8)},
              "f32,f32,bf16,f16,f8e4m3,f8e5m2");
}

TEST(CudaMap, Select) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kU8, DType::kBool}) {
    const Shape shape{7, 33};
    check_map("3:%3=select(%0,%1,%2)->%3", shape,
              {random_bits(DType::kBool, shape, 1), random_bits(dtype, {33}, 2), random_bits(dtype, shape, 3)},
              std::string(name_of(dtype)));
  }
}

TEST(CudaMap, RoundsInAChain) {
  const Shape shape{9, 1000};
  check_map("3:%3=add(%0,%1);%4=round_bf16(%3);%5=gelu(%4);%6=round_f16(%5);%7=multiply(%6,%2)->%7,%4", shape,
            {numbers(DType::kBF16, shape, 1), numbers(DType::kF32, {1000}, 2), numbers(DType::kBF16, shape, 3)},
            "bf16,f32");
}

TEST(CudaMap, Broadcasts) {
  struct Case {
    Shape space, a, b;
  };
  const Case cases[] = {{{64, 96}, {64, 96}, {96}},
                        {{64, 96}, {64, 96}, {64, 1}},
                        {{5, 7, 96}, {5, 1, 96}, {7, 96}},
                        {{5, 7, 96}, {5, 7, 1}, {1, 7, 96}},
                        {{3, 4, 5, 64}, {3, 1, 5, 64}, {4, 1, 64}},
                        {{3, 4, 5, 64}, {3, 4, 5, 64}, {3, 1, 1, 64}},
                        {{3, 4, 5, 6}, {3, 1, 5, 1}, {4, 1, 6}},
                        {{31, 33}, {31, 33}, {33}},
                        {{31, 33}, {31, 33}, {31, 1}},
                        {{31, 33}, {1}, {31, 33}},
                        {{17}, {17}, {1}},
                        {{1}, {1}, {1}},
                        {{1, 1, 1}, {1}, {1, 1, 1}},
                        {{2, 3, 4, 5, 6}, {2, 1, 4, 1, 6}, {3, 1, 5, 1}},
                        {{64, 50}, {64, 50}, {64, 1}},
                        {{8, 20}, {8, 1}, {20}},
                        {{0, 5}, {0, 5}, {5}},
                        {{200, 1}, {200, 1}, {1}}};
  for (const Case& one : cases)
    for (const auto& [a, b] : {std::pair{DType::kBF16, DType::kF32}, {DType::kF32, DType::kBF16}})
      check_map("2:%2=subtract(%0,%1);%3=scale[0.5](%2)->%3,%2", one.space,
                {numbers(a, one.a, 1), numbers(b, one.b, 2)}, std::string(name_of(a)) + ",f32");
}

TEST(CudaMap, SumsOverRowsAndTheLastDimension) {
  const Shape spaces[] = {{1, 1},    {3, 7},    {64, 96},  {65, 96}, {700, 33}, {4, 50, 40},
                          {129, 16}, {2000, 1}, {1, 2000}, {0, 5},   {5, 0},    {70, 8}};
  for (const Shape& space : spaces) {
    const Shape row{space.dim(-1)};
    for (const char* outputs : {"->sum_rows(%4)", "->%4,sum_rows(%4),sum_rows(%3)", "->sum_last(%4)",
                                "->sum_last(%3),%4", "->sum_last(%3),%4,sum_rows(%4)"}) {
      std::string dtypes = "bf16";
      for (const char* at = outputs; *at; ++at) dtypes += *at == ',' ? ",f32" : "";
      check_map("2:%2=round_bf16(%0);%3=add(%2,%1);%4=scale[0.25](%3)" + std::string(outputs), space,
                {numbers(DType::kBF16, space, 1), numbers(DType::kF32, row, 2)}, dtypes);
    }
  }
}

TEST(CudaMap, SumsOfManyRows) {
  for (const int64_t rows : {64 * 64, 64 * 65, 64 * 129 + 1, 64 * 257 - 5})
    check_map("1:->sum_rows(%0)", {rows, 8}, {numbers(DType::kF32, {rows, 8}, 3)}, "f32");
}

TEST(CudaMap, ManyOperands) {
  const int kInputs = 20;
  std::vector<HostTensor> inputs;
  std::string steps = std::to_string(kInputs) + ":";
  for (int i = 0; i < kInputs; ++i) inputs.push_back(numbers(DType::kF32, {100}, static_cast<uint64_t>(i)));
  for (int i = 1; i < kInputs; ++i)
    steps += (i > 1 ? ";%" : "%") + std::to_string(kInputs + i - 1) + "=add(%" +
             std::to_string(i == 1 ? 0 : kInputs + i - 2) + ",%" + std::to_string(i) + ")";
  check_map(steps + "->%" + std::to_string(2 * kInputs - 2), {100}, inputs, "f32");
}

// --- dropout ---

struct CutCase {
  Shape shape;
  std::vector<TestCut> cuts;
};

std::vector<std::vector<int64_t>> places(const std::vector<TestCut>& cuts) {
  std::vector<std::vector<int64_t>> all{{}};
  for (const TestCut& one : cuts) {
    std::vector<std::vector<int64_t>> more;
    for (const auto& place : all)
      for (int64_t k : {int64_t{0}, one.parts - 1}) more.push_back(place), more.back().push_back(k);
    all = std::move(more);
  }
  return all;
}

TEST(CudaMap, DropoutByTheLogicalPlace) {
  const CutCase cases[] = {{{6, 40, 96}, {}},
                           {{1001}, {}},
                           {{6, 40, 96}, {{2, 2, 3}}},
                           {{6, 40, 96}, {{2, 4, 1}}},
                           {{6, 40, 96}, {{0, 3, 1}}},
                           {{6, 40, 96}, {{1, 4, 1}}},
                           {{8, 3, 5, 14}, {{0, 2, 1}, {3, 7, 1}}},
                           {{1, 4096}, {{1, 2, 1}}},
                           {{7, 30}, {{1, 30, 1}}},
                           {{2, 6 * 70}, {{1, 2, 3}, {1, 2, 1}}}};
  const std::string text =
      "4:%4=add(%0,%1);%5=dropout[0.25,42,99](%4,%3);%6=add(%5,%2);%7=dropout[0.5,42,7](%6,%3)->%7,%6";
  for (const CutCase& one : cases)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const auto& place : places(one.cuts)) {
        std::vector<int64_t> dims = one.shape.dims();
        for (const TestCut& cut : one.cuts) dims[static_cast<size_t>(cut.dim)] /= cut.parts;
        const Shape shape(dims);
        const std::vector<HostTensor> inputs{numbers(dtype, shape, 1), numbers(DType::kF32, {shape.dim(-1)}, 2),
                                             numbers(dtype, shape, 3), counter()};
        const Attributes attributes{{"program", text}, {"shape", dims}, {"dtypes", std::string("f32,bf16")}};
        SCOPED_TRACE(one.shape.text() + " in parts " + shape.text());
        expect_card_equals_host(
            node_of("map", inputs, one.cuts.empty() ? attributes : placed(attributes, one.cuts, place)), inputs);
      }
}

TEST(CudaMap, DropoutOfFlatParts) {
  for (const int64_t part : {0, 1, 2}) {
    const std::vector<HostTensor> inputs{numbers(DType::kF32, {334}, 1), counter()};
    Attributes attributes{{"rate", 0.25}, {"seed", int64_t{42}}, {"tensor", int64_t{123456789012345}}};
    attributes.set("flat", std::vector<int64_t>{0, 3, 1, 10, 100}).set("position", std::vector<int64_t>{part});
    const NodeSignature node = node_of("dropout", inputs, attributes);
    const HostTensor found = run_on_card(node, inputs)[0];
    // Padding has no place in the tensor, and any draws.
    const int64_t there = std::min<int64_t>(334, 1000 - part * 334);
    const auto expected = interpret_node(node, hopper_backend(), inputs, 1)[0];
    for (int64_t i = 0; i < there; ++i) {
      const double a = found.get(i), b = expected.get(i);
      ASSERT_TRUE(a == b || (a != a && b != b)) << part << " " << i;
    }
  }
}

TEST(CudaMap, SumsWithDropout) {
  const Shape shape{130, 24};
  check_map("2:%2=dropout[0.1,5,6](%0,%1)->%2,sum_rows(%2),sum_last(%2)", shape,
            {numbers(DType::kBF16, shape, 1), counter()}, "bf16,f32,f32");
}

}  // namespace
}  // namespace ramet::tests
