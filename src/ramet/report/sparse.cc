#include "ramet/report/sparse.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ramet/model/sparsify.h"
#include "ramet/ops/sparse_evolve.h"

namespace ramet::report {
namespace {

double density_of(int64_t stored, int64_t all) { return static_cast<double>(stored) / static_cast<double>(all); }

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char text[200];
  const int length = std::snprintf(text, sizeof text, format, values...);
  return {text, static_cast<size_t>(std::clamp(length, 0, static_cast<int>(sizeof text) - 1))};
}

/// What weights of one form have in common.
std::string form_text(const SparseGrid& grid) {
  return formatted("%lld x %lld, density %.4f: %lld x %lld cells of %lld slots, blocks of %lld x %lld",
                   static_cast<long long>(grid.rows()), static_cast<long long>(grid.columns()),
                   density_of(grid.stored_elements(), grid.rows() * grid.columns()),
                   static_cast<long long>(grid.cells_down), static_cast<long long>(grid.cells_across),
                   static_cast<long long>(grid.slots), static_cast<long long>(grid.block_rows),
                   static_cast<long long>(grid.block_columns));
}

/// What nodes that change patterns do, all of them in the same steps and the same way.
struct Changes {
  std::string how;  ///< "" where no pattern changes
  int64_t ramp_begin = 0, ramp_end = 0;
  double first = 0, last = 0, elements = 0;  ///< stored at the beginning and in the end, of all
  double least = 1, most = 0;                ///< densities of single weights in the end
};

Changes changes_of(const model::Model& model) {
  Changes changes;
  for (const model::NamedGraph& program : model.programs)
    for (NodeId id = 0; id < static_cast<NodeId>(program.graph.nodes().size()); ++id) {
      const Node& node = program.graph.node(id);
      if (node.op->name != "sparse_evolve") continue;
      const SparseEvolveForm form = sparse_evolve_form(program.graph.signature(id));
      changes.how = text_of(program.when) + ": prune ratio " + formatted("%g", form.prune_ratio) + " (" +
                    node.attributes.get_string("prune_schedule") +
                    (form.prune_ratio > 0 ? ", until step " + std::to_string(form.prune_end) : "") + "), growth " +
                    (form.by_gradient ? "by gradient" : "at random");
      changes.ramp_begin = form.ramp_begin, changes.ramp_end = form.ramp_end;
      const auto elements = static_cast<double>(form.grid.rows() * form.grid.columns());
      const double last = density_of(form.last, form.grid.blocks());
      changes.first += elements * density_of(form.first, form.grid.blocks());
      changes.last += elements * last;
      changes.elements += elements;
      changes.least = std::min(changes.least, last), changes.most = std::max(changes.most, last);
    }
  return changes;
}

/// How patterns change, if they do.
std::string change_text(const model::Model& model) {
  const Changes changes = changes_of(model);
  if (changes.how.empty()) return "";
  std::string text = "  patterns change " + changes.how + "\n";
  if (changes.first == changes.last) return text;
  text += formatted("  density from %.4f to %.4f", changes.first / changes.elements, changes.last / changes.elements);
  if (changes.least < changes.most) text += formatted(" (of single weights %.4f to %.4f)", changes.least, changes.most);
  return text + formatted(", between steps %lld and %lld: memory is that of the greater one\n",
                          static_cast<long long>(changes.ramp_begin), static_cast<long long>(changes.ramp_end));
}

}  // namespace

std::string sparse_text(const model::Model& model) {
  int64_t stored = 0, all = 0;
  const std::vector<model::SparseWeight> weights = model::sparse_weights(model);
  if (weights.empty()) return "";
  std::vector<std::pair<std::string, std::vector<std::string>>> forms;  // with the names of their weights
  for (const model::SparseWeight& weight : weights) {
    stored += weight.grid.stored_elements();
    all += weight.grid.rows() * weight.grid.columns();
    const std::string form = form_text(weight.grid);
    auto found = std::find_if(forms.begin(), forms.end(), [&](const auto& known) { return known.first == form; });
    if (found == forms.end()) found = forms.insert(forms.end(), {form, {}});
    found->second.push_back(weight.name);
  }
  std::string text = formatted("sparse weights: %zu, which store %.4f of %lld elements\n", weights.size(),
                               density_of(stored, all), static_cast<long long>(all));
  for (const auto& [form, names] : forms)
    text += "  " + std::to_string(names.size()) + " of " + form + ": " + names.front() +
            (names.size() > 1 ? " ... " + names.back() : "") + "\n";
  return text + change_text(model);
}

std::string sparse_json(const model::Model& model) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const model::SparseWeight& weight : model::sparse_weights(model)) {
    const SparseGrid& grid = weight.grid;
    list.push_back({{"name", weight.name},
                    {"rows", grid.rows()},
                    {"columns", grid.columns()},
                    {"density", density_of(grid.stored_elements(), grid.rows() * grid.columns())},
                    {"cells", {grid.cells_down, grid.cells_across}},
                    {"block", {grid.block_rows, grid.block_columns}},
                    {"slots", grid.slots}});
  }
  return list.dump();
}

}  // namespace ramet::report
