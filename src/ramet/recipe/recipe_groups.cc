#include "ramet/recipe/recipe_groups.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/toml_text.h"
#include "ramet/base/words.h"
#include "ramet/ir/attribute.h"

namespace ramet::recipe {
namespace {

/// A number of a group.
struct NumberKey {
  const char* name;
  const char* doc;
  std::optional<double> GroupOptions::* field;
  double low, high;
};

constexpr NumberKey kNumbers[] = {
    {"rate", "factor of the learning rate", &GroupOptions::rate, 0, 1e6},
    {"learning_rate", "the highest, instead of train.schedule.learning_rate; its end is in proportion",
     &GroupOptions::learning_rate, 0, 1e6},
    {"weight_decay", "of all its weights, also of biases and norms", &GroupOptions::weight_decay, 0, 10},
    {"beta1", "as train.optimizer.beta1", &GroupOptions::beta1, 0, 0.999999},
    {"beta2", "as train.optimizer.beta2", &GroupOptions::beta2, 0, 0.9999999},
    {"epsilon", "as train.optimizer.epsilon", &GroupOptions::epsilon, 1e-30, 1},
    {"momentum", "as train.optimizer.momentum", &GroupOptions::momentum, 0, 0.999999},
};

class GroupReader {
 public:
  GroupReader(std::string place, std::string file) : place_(std::move(place)), file_(std::move(file)) {}

  std::vector<GroupOptions> read(const toml::node& node) {
    const auto* list = node.as_array();
    if (!list) refuse(node, "train.groups", "wrong kind of value", "a list of tables, as [[train.groups]] makes it");
    std::vector<GroupOptions> groups;
    for (const toml::node& each : *list) {
      const auto* table = each.as_table();
      if (!table) refuse(each, "train.groups", "wrong kind of value", "a table for each group");
      groups.push_back(group(*table));
    }
    return groups;
  }

 private:
  std::string line_of(const toml::node& node) const {
    return file_.empty() ? place_ : file_ + ":" + std::to_string(node.source().begin.line);
  }
  [[noreturn]] void refuse(const toml::node& node, const std::string& key, const std::string& what,
                           const std::string& expected) const {
    throw Error({.what = what, .where = line_of(node) + " " + key, .expected = expected});
  }

  GroupOptions group(const toml::table& table) const {
    GroupOptions result;
    for (const auto& [key, value] : table) {
      const std::string name(key.str()), full = "train.groups." + name;
      const auto number = std::find_if(std::begin(kNumbers), std::end(kNumbers),
                                       [&](const NumberKey& each) { return name == each.name; });
      if (number != std::end(kNumbers))
        result.*number->field = number_of(value, full, *number);
      else if (name == "name")
        result.name = text(value, full);
      else if (name == "weights")
        result.weights = texts(value, full);
      else if (name == "frozen")
        result.frozen = truth(value, full);
      else
        unknown(value, name);
    }
    return result;
  }

  [[noreturn]] void unknown(const toml::node& node, const std::string& name) const {
    std::set<std::string> known = {"name", "weights", "frozen"};
    for (const NumberKey& each : kNumbers) known.insert(each.name);
    const std::string near = nearest_name(name, known);
    const std::string all = listed(known);
    throw Error({.what = "unknown key '" + name.substr(0, 100) + "' of a group",
                 .where = line_of(node),
                 .expected = near.empty() ? "one of " + all : "perhaps '" + near + "'"});
  }

  std::string text(const toml::node& node, const std::string& key) const {
    const auto* found = node.as_string();
    if (!found) refuse(node, key, "wrong kind of value", "a text in quotes");
    if (found->get().empty() || found->get().find('\0') != std::string::npos)
      refuse(node, key, "an empty text, or one with a NUL character", "a name");
    return found->get();
  }
  bool truth(const toml::node& node, const std::string& key) const {
    const auto* found = node.as_boolean();
    if (!found) refuse(node, key, "wrong kind of value", "true or false");
    return found->get();
  }
  std::vector<std::string> texts(const toml::node& node, const std::string& key) const {
    if (node.is_string()) return {text(node, key)};
    const auto* list = node.as_array();
    if (!list) refuse(node, key, "wrong kind of value", "a pattern in quotes, or a list of them");
    std::vector<std::string> result;
    for (const toml::node& each : *list) result.push_back(text(each, key));
    return result;
  }
  double number_of(const toml::node& node, const std::string& key, const NumberKey& limits) const {
    const auto value = node.value<double>();
    const std::string expected =
        "a number from " + text_of(Attribute(limits.low)) + " to " + text_of(Attribute(limits.high));
    if (!value || !node.is_number()) refuse(node, key, "wrong kind of value", expected);
    if (!std::isfinite(*value) || *value < limits.low || *value > limits.high)
      refuse(node, key, "out of range", expected);
    return *value;
  }

  const std::string place_, file_;
};

}  // namespace

std::vector<GroupOptions> parse_groups(const toml::node& node, const std::string& place, const std::string& file) {
  return GroupReader(place, file).read(node);
}

std::string text_of(const std::vector<GroupOptions>& groups) {
  if (groups.empty()) return "";
  std::string text = "[";
  for (const GroupOptions& group : groups) {
    text += text.size() == 1 ? "{" : ", {";
    if (!group.name.empty()) text += "name = " + quoted_toml(group.name) + ", ";
    text += "weights = [";
    for (size_t i = 0; i < group.weights.size(); ++i) text += (i > 0 ? ", " : "") + quoted_toml(group.weights[i]);
    text += "]";
    if (group.frozen) text += ", frozen = true";
    for (const NumberKey& key : kNumbers)
      if (const auto& value = group.*key.field)
        text += std::string(", ") + key.name + " = " + text_of(Attribute(*value));
    text += "}";
  }
  return text + "]";
}

std::string group_keys_doc() {
  std::string doc =
      "weights that are trained otherwise than the others, one [[train.groups]] table each; a weight belongs to the "
      "first that names it. weights: names, or patterns with * and ?; name: for its rates, groupN otherwise; frozen: "
      "not trained at all";
  for (const NumberKey& key : kNumbers) doc += std::string("; ") + key.name + ": " + key.doc;
  return doc;
}

}  // namespace ramet::recipe
