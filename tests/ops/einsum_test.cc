#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"

namespace ramet::tests {
namespace {

struct EinsumCase {
  std::string equation;
  std::vector<Shape> shapes;
  /// The same for the plain evaluator, which knows no ellipsis and wants an output; operands reshaped to
  /// `plain_shapes`.
  std::string plain{};
  std::vector<Shape> plain_shapes{};
};

void PrintTo(const EinsumCase& item, std::ostream* stream) { *stream << item.equation; }

std::vector<HostTensor> operands_of(const EinsumCase& item) {
  OpCase drawn{.op = "einsum", .name = item.equation, .inputs = {}};
  for (const Shape& shape : item.shapes) drawn.inputs.push_back({{DType::kF32, shape}});
  return inputs_of(drawn);
}

/// Einsum by its definition: the sum over all labels of the products of elements.
class PlainEinsum {
 public:
  PlainEinsum(const std::string& equation, const std::vector<Shape>& shapes) {
    std::string term;
    for (size_t i = 0; i < equation.size(); ++i) {
      if (std::isalpha(static_cast<unsigned char>(equation[i]))) term += equation[i];
      if (equation[i] == ',' || equation[i] == '-') terms_.push_back(std::exchange(term, ""));
    }
    output_ = term;
    for (size_t t = 0; t < terms_.size(); ++t)
      for (size_t axis = 0; axis < terms_[t].size(); ++axis) extents_[terms_[t][axis]] = shapes[t].dims()[axis];
  }

  std::vector<double> run(const std::vector<HostTensor>& operands) {
    std::vector<double> result(static_cast<size_t>(elements(output_)), 0.0);
    std::vector<char> labels;
    int64_t total = 1;
    for (const auto& [name, extent] : extents_) labels.push_back(name), total *= extent;
    for (int64_t point = 0; point < total; ++point) {
      int64_t rest = point;
      for (char name : labels) at_[name] = rest % extents_[name], rest /= extents_[name];
      double product = 1;
      for (size_t t = 0; t < terms_.size(); ++t) product *= operands[t].get(offset(terms_[t]));
      result[static_cast<size_t>(offset(output_))] += product;
    }
    return result;
  }

 private:
  int64_t elements(const std::string& term) {
    int64_t count = 1;
    for (char name : term) count *= extents_[name];
    return count;
  }
  int64_t offset(const std::string& term) {
    int64_t offset = 0;
    for (char name : term) offset = offset * extents_[name] + at_[name];
    return offset;
  }

  std::vector<std::string> terms_;
  std::string output_;
  std::map<char, int64_t> extents_, at_;
};

HostTensor lowered(const std::string& equation, const std::vector<HostTensor>& operands) {
  Graph graph("einsum");
  GraphBuilder build(graph);
  std::map<std::string, HostTensor> feeds;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    feeds[name] = operands[i];
    inputs.push_back(build.input(name, DType::kF32, operands[i].type.shape));
  }
  build.output("out", einsum(equation, inputs));
  verify(graph, "einsum");
  return interpret(graph, reference_backend(), feeds)[0];
}

class Einsum : public testing::TestWithParam<EinsumCase> {};

TEST_P(Einsum, IsTheSumOfProducts) {
  const EinsumCase& item = GetParam();
  const auto operands = operands_of(item);
  const auto& shapes = item.plain_shapes.empty() ? item.shapes : item.plain_shapes;
  const std::vector<double> wanted = PlainEinsum(item.plain.empty() ? item.equation : item.plain, shapes).run(operands);
  const HostTensor found = lowered(item.equation, operands);
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size())) << found.type.text();
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(found.get(static_cast<int64_t>(i)), wanted[i], 1e-5) << "element " << i;
}

INSTANTIATE_TEST_SUITE_P(
    Equations, Einsum,
    testing::Values(EinsumCase{"ij,jk->ik", {{2, 3}, {3, 4}}}, EinsumCase{"ij,jk", {{2, 3}, {3, 4}}, "ij,jk->ik"},
                    EinsumCase{"ij,kj->ik", {{2, 3}, {4, 3}}}, EinsumCase{"ji,jk->ki", {{3, 2}, {3, 4}}},
                    EinsumCase{"bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 2, 5}}},
                    EinsumCase{"bqhd,bkhd->bhqk", {{2, 4, 3, 5}, {2, 2, 3, 5}}},
                    EinsumCase{"bhqk,bkhd->bqhd", {{2, 3, 4, 2}, {2, 2, 3, 5}}},
                    EinsumCase{"ijk,jil->kl", {{2, 3, 4}, {3, 2, 5}}}, EinsumCase{"ij->ji", {{2, 3}}},
                    EinsumCase{"ji", {{2, 3}}, "ji->ij"}, EinsumCase{"ij->", {{2, 3}}}, EinsumCase{"ij->j", {{2, 3}}},
                    EinsumCase{"ijk->kj", {{2, 3, 4}}}, EinsumCase{"ii->i", {{3, 3}}},
                    EinsumCase{"ii", {{3, 3}}, "ii->"}, EinsumCase{"iij->ji", {{3, 3, 2}}},
                    EinsumCase{"iii->i", {{3, 3, 3}}}, EinsumCase{"i,j->ij", {{2}, {3}}},
                    EinsumCase{"i,i->", {{4}, {4}}}, EinsumCase{"i,i->i", {{4}, {4}}},
                    EinsumCase{"ij,ij->ji", {{2, 3}, {2, 3}}}, EinsumCase{"ij,k->i", {{2, 3}, {4}}},
                    EinsumCase{"aab,b->a", {{3, 3, 2}, {2}}}, EinsumCase{",ij->ij", {{}, {2, 3}}}));

INSTANTIATE_TEST_SUITE_P(ManyOperands, Einsum,
                         testing::Values(EinsumCase{"abc,cd,de->abe", {{2, 3, 4}, {4, 2}, {2, 3}}},
                                         EinsumCase{"i,ij,j->", {{2}, {2, 3}, {3}}},
                                         EinsumCase{"ai,aj,ak->ijk", {{5, 2}, {5, 3}, {5, 4}}},
                                         EinsumCase{"bi,bj,bij->b", {{2, 3}, {2, 4}, {2, 3, 4}}}));

INSTANTIATE_TEST_SUITE_P(
    Ellipsis, Einsum,
    testing::Values(EinsumCase{"...ij,...jk->...ik", {{2, 5, 3, 4}, {2, 5, 4, 2}}, "abij,abjk->abik"},
                    EinsumCase{"...ij,jk->...ik", {{2, 5, 3, 4}, {4, 2}}, "abij,jk->abik"},
                    EinsumCase{"...ij,...jk", {{2, 5, 3, 4}, {5, 4, 2}}, "abij,bjk->abik"},
                    EinsumCase{"...i,...i->...", {{2, 1, 3}, {4, 3}}, "ai,bi->ab", {{2, 3}, {4, 3}}},
                    EinsumCase{"i...->...i", {{2, 3, 4}}, "iab->abi"}, EinsumCase{"...->", {{2, 3}}, "ab->"},
                    EinsumCase{"b...d,bd->b...", {{2, 3, 4, 5}, {2, 5}}, "bxyd,bd->bxy"}));

std::string refusal(const std::string& equation, const std::vector<Shape>& shapes) {
  Graph graph("einsum");
  GraphBuilder build(graph);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shapes.size(); ++i)
    inputs.push_back(build.input("in" + std::to_string(i), DType::kF32, shapes[i]));
  try {
    einsum(equation, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(EinsumErrors, NameTheEquationAndTheFault) {
  EXPECT_EQ(refusal("ij,jk->ik", {{2, 3}, {4, 5}}),
            "einsum 'ij,jk->ik': 'j' has two extents; found 3 and 4; expected equal extents");
  EXPECT_THAT(refusal("ij,jk->ik", {{2, 3}}), testing::HasSubstr("another number of terms"));
  EXPECT_THAT(
      refusal("ij->i", {{2, 3, 4}}),
      testing::HasSubstr("operand 0 has another rank than its term 'ij'; found f32[2,3,4]; expected 2 dimensions"));
  EXPECT_THAT(refusal("...ijk->i", {{2, 3}}), testing::HasSubstr("3 or more dimensions"));
  EXPECT_THAT(refusal("ij->ijk", {{2, 3}}), testing::HasSubstr("the output has 'k', which no operand has"));
  EXPECT_THAT(refusal("ij->ii", {{2, 3}}), testing::HasSubstr("the output has 'i' twice"));
  EXPECT_THAT(refusal("i1->i", {{2, 3}}), testing::HasSubstr("not a label; found '1' in 'i1'"));
  EXPECT_THAT(refusal("......->", {{2, 3}}), testing::HasSubstr("two ellipses"));
  EXPECT_THAT(refusal("ii->i", {{2, 3}}), testing::HasSubstr("the diagonal of dimensions that differ; found [2,3]"));
  EXPECT_THAT(refusal("...i,...i->...", {{2, 3}, {4, 3}}),
              testing::HasSubstr("dimension -1 of '...' does not broadcast; found 2 and 4"));
  EXPECT_THAT(refusal("->", {}), testing::HasSubstr("no operands"));
}

TEST(EinsumLowering, ReadsAnOperandTransposedInsteadOfCopyingIt) {
  Graph graph("einsum");
  GraphBuilder build(graph);
  einsum("bhqd,bhkd->bhqk", {build.input("q", DType::kF32, {2, 3, 4, 5}), build.input("k", DType::kF32, {2, 3, 6, 5})});
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op->name, "transpose");
}

}  // namespace
}  // namespace ramet::tests
