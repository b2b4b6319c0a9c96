#include "ramet/front/table.h"

#include "ramet/front/sorted_table.h"

namespace ramet::front {
namespace {

const SortedTable<OperatorEntry>& all_operators() {
  static const SortedTable<OperatorEntry> all{
      product_operators, arithmetic_operators, shape_operators,    constant_operators, reduction_operators,
      network_operators, attention_operators,  loss_operators,     random_operators,   index_operators,
      order_operators,   distance_operators,   spectral_operators, resize_operators,   recurrent_operators};
  return all;
}

}  // namespace

const OperatorEntry* find_operator(std::string_view op) { return all_operators().find(op); }
std::vector<std::string_view> operator_names() { return all_operators().names(); }

}  // namespace ramet::front
