#include <cmath>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"

// The ops that losses of rows and of sequences are made of. Losses themselves: functions_test.cc.

namespace ramet::tests {
namespace {

CaseInput i32(Shape shape, std::vector<double> values) {
  return {.type = {DType::kI32, std::move(shape)}, .values = std::move(values)};
}

/// Rows of single losses, from statistics of drawn logits.
void add_rows(std::vector<OpCase>& cases, int64_t rows, int64_t classes, int64_t chunks, std::vector<double> labels) {
  const std::string name = std::to_string(rows) + "x" + std::to_string(classes) + " in " + std::to_string(chunks);
  const OpCase made{.op = "softmax_statistics",
                    .name = name,
                    .inputs = {{{DType::kF32, {rows, classes}}, -3, 3}, i32({rows}, std::move(labels))},
                    .attributes = {{"chunks", chunks}}};
  const HostTensor found = interpret_node(signature_of(made), reference_backend(), inputs_of(made))[0];
  const CaseInput statistics{.type = found.type, .values = found.values()};
  // Statistics depend on each other, so that differences of one alone mean nothing.
  cases.push_back({.op = "cross_entropy_rows", .name = name, .inputs = {statistics}, .gradient_tolerance = 0});
  const CaseInput slope{{DType::kF32, Shape{rows}}, -1, 1};
  cases.push_back({.op = "cross_entropy_rows_grad", .name = name, .inputs = {statistics, slope, slope}});
}

/// Sequences of drawn lengths and labels.
void add_sequences(std::vector<OpCase>& cases, uint64_t seed) {
  const RandomStream dice(seed, RandomPurpose::kTest, 0, 5);
  uint64_t next = 0;
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(dice.below(next++, static_cast<uint32_t>(bound)));
  };
  const int64_t times = 1 + below(7), samples = 2 * (1 + below(2)), classes = 2 + below(4), longest = below(4);
  const int64_t blank = below(classes);
  std::vector<double> targets, input_lengths, target_lengths;
  for (int64_t i = 0; i < samples * longest; ++i) {
    const int64_t label = below(classes - 1);
    targets.push_back(static_cast<double>(label < blank ? label : label + 1));
  }
  for (int64_t i = 0; i < samples; ++i) {
    target_lengths.push_back(static_cast<double>(below(longest + 1)));
    input_lengths.push_back(static_cast<double>(std::min(times, 1 + below(times) + below(3))));
  }
  OpCase loss{.op = "ctc_loss",
              .name = "drawn " + std::to_string(seed),
              .inputs = {{{DType::kF32, {times, samples, classes}}, -3, -0.2},
                         i32({samples, longest}, targets),
                         i32({samples}, input_lengths),
                         i32({samples}, target_lengths)},
              .attributes = {{"blank", blank}, {"zero_infinity", true}},
              .gradient_tolerance = 3e-3,
              .low_types = false};
  OpCase gradient = loss;
  gradient.op = "ctc_loss_grad";
  gradient.inputs.push_back({{DType::kF32, Shape{samples}}, 0.5, 1.5});
  cases.push_back(std::move(loss));
  cases.push_back(std::move(gradient));
}

}  // namespace

void add_loss_cases(std::vector<OpCase>& cases) {
  add_rows(cases, 4, 12, 1, {2, -1, 0, 11});
  add_rows(cases, 4, 12, 4, {2, -1, 0, 11});
  add_rows(cases, 3, 5, 5, {-1, -1, 4});
  add_rows(cases, 0, 4, 2, {});
  for (uint64_t seed = 0; seed < 14; ++seed) add_sequences(cases, seed);
  // Three labels do not fit in two steps: the loss is infinite, or 0 where that is asked for. No label in no step: 0.
  for (const bool zero : {false, true})
    cases.push_back({.op = "ctc_loss",
                     .name = zero ? "zero infinity" : "infinity",
                     .inputs = {{{DType::kF32, {2, 2, 3}}, -2, -0.5},
                                i32({2, 3}, {1, 2, 1, 1, 1, 1}),
                                i32({2}, {2, 0}),
                                i32({2}, {3, 0})},
                     .attributes = {{"blank", int64_t{0}}, {"zero_infinity", zero}},
                     .expected = {{zero ? 0 : INFINITY, 0}},
                     .gradient_tolerance = 0,
                     .low_types = false});
}

}  // namespace ramet::tests
