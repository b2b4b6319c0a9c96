#include "ramet/front/table.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::front {
namespace {

/// All entries in the order of their names; one operator stands once.
const std::vector<OperatorEntry>& all_operators() {
  static const std::vector<OperatorEntry> all = [] {
    std::vector<OperatorEntry> entries;
    for (const auto family :
         {product_operators, arithmetic_operators, shape_operators, constant_operators, reduction_operators,
          network_operators, attention_operators, loss_operators, random_operators, index_operators, order_operators,
          distance_operators, spectral_operators, resize_operators, recurrent_operators})
      for (const OperatorEntry& entry : family()) entries.push_back(entry);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
    for (size_t i = 1; i < entries.size(); ++i)
      if (entries[i].op == entries[i - 1].op)
        internal_error("all_operators", std::string(entries[i].op) + " stands twice in the table");
    return entries;
  }();
  return all;
}

}  // namespace

const OperatorEntry* find_operator(std::string_view op) {
  const auto& all = all_operators();
  const auto found = std::lower_bound(all.begin(), all.end(), op,
                                      [](const auto& entry, std::string_view name) { return entry.op < name; });
  return found != all.end() && found->op == op ? &*found : nullptr;
}

std::vector<std::string_view> operator_names() {
  std::vector<std::string_view> names;
  for (const OperatorEntry& entry : all_operators()) names.push_back(entry.op);
  return names;
}

}  // namespace ramet::front
