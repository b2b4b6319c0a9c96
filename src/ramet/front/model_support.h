#pragma once

#include "ramet/base/house.h"

#include <set>
#include <string>

#include "ramet/model/model.h"

namespace ramet::front {

// What models of all fronts share.

/// The states that the graph's output "loss" depends on, by ways that gradients take.
std::set<std::string> states_of_loss(const Graph& forward);
/// Gives weights and states the axes that the forward graph implies.
void give_axes(model::Model& model);
/// Whether the pattern stands for the whole name: * for any text.
bool matches_name(const std::string& pattern, const std::string& name);

}  // namespace ramet::front
