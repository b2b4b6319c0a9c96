#include "ramet/ir/op.h"

#include "ramet/base/error.h"
#include "ramet/ir/all_ops.h"

namespace ramet::ir {

std::string NodeSignature::text() const {
  std::string text = op ? op->name : "node";
  if (!name.empty()) text += " '" + name + "'";
  text += " (";
  for (size_t i = 0; i < inputs.size(); ++i) text += (i ? ", " : "") + inputs[i].text();
  return text + ")";
}

OpRegistry& OpRegistry::instance() {
  static OpRegistry& registry = [&]() -> OpRegistry& {
    static OpRegistry table;
    register_all_ops(table);
    return table;
  }();
  return registry;
}

const OpDef& OpRegistry::add(OpDef op) {
  const std::string name = op.name;
  const auto [place, added] = ops_.emplace(name, std::move(op));
  if (!added) internal_error("OpRegistry::add", "op '" + name + "' is registered twice");
  return place->second;
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

const OpDef& OpRegistry::get(std::string_view name) const {
  if (const OpDef* op = find(name)) return *op;
  std::vector<std::string> names;
  for (const auto& [known, op] : ops_) names.push_back(known);
  const std::string near = nearest_name(std::string(name), names);
  throw Error({.what = "unknown op",
               .found = "'" + std::string(name) + "'",
               .remedy = near.empty() ? "" : "Did you mean '" + near + "'?"});
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> all;
  for (const auto& [name, op] : ops_) all.push_back(&op);
  return all;
}

}  // namespace ramet::ir
