#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "ramet/ops/rules.h"

namespace ramet::ops {

// Checks and builders that the ops of optimizers share (ops/optimizer.cc has their type rules).

/// Whether the weight is the high half of an f32 number: the attribute "split".
bool is_split(const NodeSignature& node);

/// The first inputs are tensors of one shape, called `names`; then come host scalars; then the low half of a split
/// weight and the counter of stochastic rounding, where there are such.
void check_update(const NodeSignature& node, std::initializer_list<const char*> names,
                  std::initializer_list<const char*> scalars);

/// The number of an attribute; refuses the node unless least <= number < below.
double rate_attribute(const NodeSignature& node, const std::string& name, double least, double below);
void check_decay(const NodeSignature& node);

/// Every element is updated alone: all dimensions are free. Scalars have none. Exact sums over the elements may be made
/// in parts.
ShardingRule update_sharding(const NodeSignature& node);

/// The cost of an op that streams its operands and does so many operations an element of input 0.
std::function<Cost(const NodeSignature&)> flops_each(double flops);

/// An op of an update, in f32 whatever the recipe computes in.
OpDef update_op(std::string name, std::string doc, int min_inputs, int max_inputs);

}  // namespace ramet::ops
