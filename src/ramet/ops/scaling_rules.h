#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ramet/ir/op.h"

// Functions that the scaling rules of the op table share (OpDef::scaling). All estimates are those of wide, random
// networks: weights are independent and of unit variance, rows of a sample are alike as far as `Amplitude` says. They
// need shapes alone, so that no layout changes a factor.

namespace ramet::ops {

/// The probability that two words are the same where words follow Zipf's law (the n-th is 1/n as frequent as the first)
/// in a vocabulary of `rows`.
double same_word(int64_t rows);

/// `spread` with its rms times `factor`.
Amplitude scaled(Amplitude spread, double factor);
/// Statistics that belong to an op.
Amplitude exact_spread();

/// Of a value that is summed over `rows` rows.
Amplitude summed_over_rows(const Amplitude& spread, int64_t rows, int64_t samples);
/// Of a value of `from` that is broadcast to `to`.
Amplitude broadcast_spread(Amplitude spread, const Shape& from, const Shape& to, int64_t samples);
/// Of a gradient of `from`, summed over the dimensions along which `to` was broadcast.
Amplitude unbroadcast_spread(const Amplitude& spread, const Shape& from, const Shape& to, int64_t samples);
/// The product of two independent values.
Amplitude product_spread(const Amplitude& a, const Amplitude& b);
/// Rows of a tensor: elements over the last dimension.
int64_t rows_of(const Shape& shape);

/// How a function of a normally distributed number changes its spread.
struct FunctionSpread {
  double rms = 1;
  double in_sample = 0, across = 0;
};
/// Of f(x), for x normal of the input's rms and likenesses; by quadrature.
FunctionSpread function_spread(const std::function<double(double)>& f, const Amplitude& input);

/// Rules of ops that give input 0 in another form: gradients go back as they came.
ScalingRule passing_rule();
/// Rules of ops that take a part of input 0, or put it among zeros: a gradient is spread over more (or fewer) elements.
ScalingRule part_rule();
/// Rules of concat: one tensor made of all inputs; and of split.
ScalingRule joining_rule();
ScalingRule splitting_rule();
/// Rules of broadcast_to, and of sums over some dimensions.
ScalingRule broadcasting_rule();
ScalingRule reducing_rule();
/// A constant of this size.
ScalingRule constant_rule(std::function<double(const NodeSignature&)> size);
/// Rules of an element-wise function of one input; `slope` is its derivative.
ScalingRule function_rule(std::function<double(double)> f, std::function<double(double)> slope);
ScalingRule sum_rule();       ///< a + b, broadcast
ScalingRule multiply_rule();  ///< a * b, broadcast
/// Rules of a norm over the last dimension: a, then gain (and bias); statistics behind output 0.
ScalingRule norm_scaling();
/// Ops whose inputs' gradients do not matter and whose outputs stay as they are.
ScalingRule exact_rule();

}  // namespace ramet::ops
