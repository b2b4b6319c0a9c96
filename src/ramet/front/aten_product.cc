// Matrix products.
#include "ramet/base/error.h"
#include "ramet/front/support.h"
#include "ramet/front/table.h"

namespace ramet::front {
namespace {

/// The product of any ranks by torch.matmul's rules: a vector is a row on the left and a column on the right.
Tensor general_matmul(Tensor a, Tensor b) {
  if (a.shape().rank() == 0 || b.shape().rank() == 0) throw Error({.what = "a product of a tensor without dimensions"});
  std::vector<int64_t> shape;
  const bool row = a.shape().rank() == 1, column = b.shape().rank() == 1;
  if (row) a = ops::reshape(a, {1, a.dim(0)});
  if (column) b = ops::reshape(b, {b.dim(0), 1});
  Tensor product = ops::matmul(a, b);
  if (!row && !column) return product;
  shape = product.shape().dims();
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return ops::reshape(product, Shape(std::move(shape)));
}

Tensor argument(const Translation& at, std::string_view name) { return in_type(at.tensor(name), at.result().dtype); }
/// The same of an argument that must have this many dimensions.
Tensor argument(const Translation& at, std::string_view name, int rank) {
  const Tensor made = argument(at, name);
  if (made.shape().rank() != rank)
    at.refuse("argument '" + std::string(name) + "' does not have " + std::to_string(rank) + " dimensions");
  return made;
}

std::vector<Tensor> linear(const Translation& at) {
  Tensor input = argument(at, "input");
  const Tensor weight = argument(at, "weight");
  const bool vector = input.shape().rank() == 1;
  if (vector) input = ops::reshape(input, {1, input.dim(0)});
  Tensor result;
  if (weight.shape().rank() == 1)
    result = ops::reshape(ops::matmul(input, ops::reshape(weight, {weight.dim(0), 1})), at.result().shape);
  else if (at.has("bias") && at.tensor("bias").shape().rank() == 1)
    return {like_result(at, ops::linear(input, weight, argument(at, "bias")))};
  else
    result = ops::matmul(input, weight, false, true);
  result = like_result(at, result);
  return {at.has("bias") ? ops::add(result, argument(at, "bias")) : result};
}

std::vector<Tensor> matmul(const Translation& at) {
  return {general_matmul(argument(at, "self"), argument(at, at.has("other")  ? "other"
                                                            : at.has("mat2") ? "mat2"
                                                                             : "tensor2"))};
}
std::vector<Tensor> matrix_vector(const Translation& at) {
  return {general_matmul(argument(at, "self"), argument(at, "vec"))};
}
std::vector<Tensor> dot(const Translation& at) {
  return {general_matmul(argument(at, "self"), argument(at, at.has("tensor") ? "tensor" : "other"))};
}
std::vector<Tensor> outer(const Translation& at) {
  const Tensor a = argument(at, "self", 1), b = argument(at, "vec2", 1);
  return {ops::multiply(ops::reshape(a, {a.dim(0), 1}), ops::reshape(b, {1, b.dim(0)}))};
}
std::vector<Tensor> inner(const Translation& at) {
  const Tensor a = argument(at, "self"), b = argument(at, "other");
  if (a.shape().rank() == 0 || b.shape().rank() == 0) return {ops::multiply(a, b)};
  const auto rows = [](Tensor x) { return ops::reshape(x, {-1, x.dim(-1)}); };
  return {like_result(at, ops::matmul(rows(a), rows(b), false, true))};
}

/// beta self + alpha product
std::vector<Tensor> add_product(const Translation& at, Tensor product) {
  const double alpha = at.number("alpha", 1), beta = at.number("beta", 1);
  if (alpha != 1) product = ops::multiply(product, ops::full(at.build(), product.dtype(), {}, alpha));
  if (beta == 0) return {product};
  Tensor self = argument(at, "self");
  if (beta != 1) self = ops::multiply(self, ops::full(at.build(), self.dtype(), {}, beta));
  return {ops::add(self, product)};
}
std::vector<Tensor> addmm(const Translation& at) {
  const Tensor self = argument(at, "self"), a = argument(at, "mat1", 2), b = argument(at, "mat2", 2);
  const bool plain = at.number("alpha", 1) == 1 && at.number("beta", 1) == 1;
  if (plain && self.shape().rank() == 1 && self.dim(0) == b.dim(1)) return {ops::linear(a, b, self, false)};
  return add_product(at, ops::matmul(a, b));
}
std::vector<Tensor> baddbmm(const Translation& at) {
  return add_product(at, ops::matmul(argument(at, "batch1"), argument(at, "batch2")));
}
std::vector<Tensor> addbmm(const Translation& at) {
  return add_product(at, ops::reduce_sum(ops::matmul(argument(at, "batch1"), argument(at, "batch2")), {0}));
}
std::vector<Tensor> addmv(const Translation& at) {
  return add_product(at, general_matmul(argument(at, "mat"), argument(at, "vec")));
}
std::vector<Tensor> addr(const Translation& at) {
  const Tensor a = argument(at, "vec1", 1), b = argument(at, "vec2", 1);
  return add_product(at, ops::multiply(ops::reshape(a, {a.dim(0), 1}), ops::reshape(b, {1, b.dim(0)})));
}

std::vector<Tensor> einsum(const Translation& at) {
  std::vector<Tensor> operands = at.tensors("tensors");
  for (Tensor& each : operands) each = in_type(each, at.result().dtype);
  std::string equation;
  for (const char letter : at.text("equation"))
    if (letter != ' ') equation += letter;
  return {ops::einsum(equation, operands)};
}

std::vector<Tensor> multi_dot(const Translation& at) {
  const std::vector<Tensor> factors = at.tensors(at.has("tensors") ? "tensors" : "matrices");
  if (factors.empty()) at.refuse("a product of no matrices");
  Tensor product = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) product = general_matmul(product, factors[i]);
  return {product};
}

/// y[..., k] = sum over i and j of a[..., i] weight[k, i, j] b[..., j]
std::vector<Tensor> bilinear(const Translation& at) {
  const Tensor a = argument(at, "input1"), b = argument(at, "input2"), weight = argument(at, "weight", 3);
  const int64_t out = weight.dim(0), left = weight.dim(1), right = weight.dim(2);
  const Tensor rows = ops::reshape(a, {-1, left});
  // [N, left] x [left, out * right]
  const Tensor table = ops::reshape(ops::transpose(weight, {1, 0, 2}), {left, out * right});
  const Tensor half = ops::reshape(ops::matmul(rows, table), {rows.dim(0), out, right});
  const Tensor sums = ops::reduce_sum(ops::multiply(half, ops::reshape(b, {rows.dim(0), 1, right})), {2});
  const Tensor result = like_result(at, sums);
  return {at.has("bias") ? ops::add(result, argument(at, "bias")) : result};
}

constexpr OperatorEntry kEntries[] = {
    {"aten.addbmm", addbmm},
    {"aten.addmm", addmm},
    {"aten.addmv", addmv},
    {"aten.addr", addr},
    {"aten.baddbmm", baddbmm},
    {"aten.bilinear", bilinear},
    {"aten.bmm", matmul},
    {"aten.chain_matmul", multi_dot},
    {"aten.dot", dot},
    {"aten.einsum", einsum},
    {"aten.ger", outer},
    {"aten.inner", inner},
    {"aten.linalg_matmul", matmul},
    {"aten.linalg_multi_dot", multi_dot},
    {"aten.linear", linear},
    {"aten.matmul", matmul},
    {"aten.mm", matmul},
    {"aten.mv", matrix_vector},
    {"aten.outer", outer},
    {"aten.vdot", dot},
};

}  // namespace

std::span<const OperatorEntry> product_operators() { return kEntries; }

}  // namespace ramet::front
