#pragma once

#include <string>

#include "ramet/ops/rules.h"

namespace ramet::ops {

// Rules that the ops of networks (products, norms, attention, losses, optimizers) share, beside those of ops/rules.h.

/// Refuses the node unless input `index`, `operand` in messages, has exactly this type.
void require_type(const NodeSignature& node, int index, const std::string& operand, const TensorType& type);
/// The type of a host scalar: f32[].
inline TensorType scalar_f32() { return {DType::kF32, Shape{}}; }

/// The type of input 1, `b`: its own or, where a kernel's blocking has made bytes of it (attributes `b_blocked`,
/// `b_shape`, `b_dtype`), the one that it had before. Throws Error when the attributes do not fit.
TensorType logical_b(const NodeSignature& node);

/// "p0,p1,...": `count` factor names for the text of a sharding rule, each with `mark` ("!": whole) before it.
std::string factor_names(const std::string& prefix, int count, const std::string& mark = "");

/// `a` as a matrix: all dimensions but the last become rows.
Tensor as_rows(Tensor a);
/// Sum over all dimensions but the last, f32, in the canonical order of rows: the gradient of a vector that was added
/// to every row.
Tensor column_sum(Tensor a);

}  // namespace ramet::ops
