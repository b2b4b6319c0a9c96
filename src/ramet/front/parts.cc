// The parts of a module, which pipelines, phases and recomputation cut at.
#include <algorithm>
#include <cctype>

#include "ramet/base/error.h"
#include "ramet/front/importer.h"

namespace ramet::front {
namespace {

/// "encoder.layer." and 3 of "encoder.layer.3"; nothing where the path does not end in a number.
std::optional<std::pair<std::string, int64_t>> split_number(const std::string& path) {
  size_t begin = path.size();
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(path[begin - 1]))) --begin;
  if (begin == path.size() || path.size() - begin > 9) return std::nullopt;
  return std::pair{path.substr(0, begin), std::stoll(path.substr(begin))};
}

/// "encoder.layer" of "encoder.layer.": what people see.
std::string stack_name(std::string prefix) {
  while (!prefix.empty() && (prefix.back() == '.' || prefix.back() == '_')) prefix.pop_back();
  return prefix.empty() ? "parts" : prefix;
}

/// Whether the pattern stands for the whole path: * for any text without a dot.
bool matches(const std::string& pattern, const std::string& path, size_t p = 0, size_t q = 0) {
  for (; p < pattern.size(); ++p, ++q) {
    if (pattern[p] == '*') {
      for (size_t end = q; end <= path.size(); ++end) {
        if (matches(pattern, path, p + 1, end)) return true;
        if (end < path.size() && path[end] == '.') break;
      }
      return false;
    }
    if (q >= path.size() || path[q] != pattern[p]) return false;
  }
  return q == path.size();
}

bool is_inside(const std::string& path, const std::string& module) {
  return path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.';
}

/// Modules that calls were made in, in the order of their first calls.
std::vector<std::string> called_modules(const TracedProgram& program) {
  std::vector<std::string> order;
  std::set<std::string> met;
  for (const TracedCall& call : program.calls)
    for (std::string path = call.module; !path.empty();) {
      if (!met.insert(path).second) break;
      order.push_back(path);
      const size_t dot = path.rfind('.');
      path.erase(dot == std::string::npos ? 0 : dot);
    }
  return order;
}

/// Whether two or more modules are of one class. The first of three or more may be of another: the layer that reads the
/// data is often unlike those behind it.
bool are_alike(const std::vector<std::string>& classes) {
  const size_t first = classes.size() > 2 ? 1 : 0;
  return classes.size() > 1 && std::all_of(classes.begin() + static_cast<int64_t>(first), classes.end(),
                                           [&](const std::string& each) { return each == classes.back(); });
}

/// Lists of modules that are alike, from prefixes of paths to the modules; with `containers` of containers too, as
/// nn.Sequential.
std::map<std::string, std::vector<std::string>> find_lists(const TracedProgram& program,
                                                           const std::vector<std::string>& modules, bool containers) {
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::vector<std::string>> classes;
  for (const std::string& path : modules) {
    const auto number = split_number(path);
    const auto found = program.modules.find(path);
    if (!number || found == program.modules.end()) continue;
    lists[number->first].push_back(path);
    classes[number->first].push_back(found->second);
  }
  std::erase_if(lists, [&](const auto& list) {
    const std::vector<std::string>& of = classes[list.first];
    const bool contains = of.back().find(".container.") != std::string::npos;
    return !are_alike(of) || (contains && !containers);
  });
  return lists;
}

int64_t size_within(const std::map<std::string, int64_t>& sizes, const std::string& module) {
  int64_t sum = 0;
  for (const auto& [name, size] : sizes)
    if (is_inside(name, module)) sum += size;
  return sum;
}

/// Names of the tables that embeddings read, and of parameters of their shapes, as the last product of a language model
/// has, tied to a table or not. They say nothing of how deep a model is.
std::set<std::string> tables_of(const TracedProgram& program) {
  std::set<std::string, std::less<>> read;
  for (const TracedCall& call : program.calls)
    if (call.op.starts_with("aten.embedding") || call.op == "aten._embedding_bag")
      if (const TracedArgument* table = call.find("weight")) read.insert(table->text);
  std::vector<TensorType> types;
  for (const std::string& value : read)
    if (const auto type = program.types.find(value); type != program.types.end()) types.push_back(type->second);
  std::set<std::string> names;
  for (const TracedInput& input : program.inputs)
    if (const auto type = program.types.find(input.value); type != program.types.end())
      if (std::find(types.begin(), types.end(), type->second) != types.end()) names.insert(input.target);
  return names;
}

/// Whether the modules hold most of the weights, tables outside of them left out.
bool hold_most(const std::vector<std::string>& modules, const std::map<std::string, int64_t>& sizes,
               const std::set<std::string>& tables) {
  int64_t within = 0, outside = 0;
  for (const auto& [name, size] : sizes) {
    const bool inside =
        std::any_of(modules.begin(), modules.end(), [&](const std::string& module) { return is_inside(name, module); });
    if (inside)
      within += size;
    else if (!tables.count(name))
      outside += size;
  }
  return within >= outside;
}

/// The lists that stand in no other list, when their members hold most of the weights.
std::vector<std::vector<std::string>> choose_lists(const TracedProgram& program,
                                                   const std::vector<std::string>& modules,
                                                   const std::map<std::string, int64_t>& sizes, bool containers,
                                                   const std::set<std::string>& tables) {
  auto lists = find_lists(program, modules, containers);
  std::erase_if(lists, [&](const auto& list) {
    return std::all_of(list.second.begin(), list.second.end(),
                       [&](const std::string& module) { return size_within(sizes, module) == 0; });
  });
  std::vector<std::vector<std::string>> outer;
  std::vector<std::string> all;
  for (const auto& [prefix, members] : lists) {
    const bool nested = std::any_of(lists.begin(), lists.end(), [&](const auto& other) {
      return std::any_of(other.second.begin(), other.second.end(),
                         [&](const std::string& module) { return is_inside(members[0], module); });
    });
    if (nested) continue;
    outer.push_back(members);
    all.insert(all.end(), members.begin(), members.end());
  }
  if (!hold_most(all, sizes, tables)) outer.clear();
  return outer;
}

/// How often the program comes to each module that has weights of its own, and for each module the first such module
/// that its calls come to.
struct Visits {
  std::map<std::string, int> count{};
  std::map<std::string, std::string> first{};
};

bool has_weights(const std::map<std::string, int64_t>& sizes, const std::string& module) {
  return std::any_of(sizes.begin(), sizes.end(), [&](const auto& size) {
    return is_inside(size.first, module) && size.first.find('.', module.size() + 1) == std::string::npos;
  });
}

Visits visits_of(const TracedProgram& program, const std::map<std::string, int64_t>& sizes) {
  Visits visits;
  std::map<std::string, bool> known;
  std::string last;
  for (const TracedCall& call : program.calls) {
    auto own = known.find(call.module);
    if (own == known.end()) own = known.emplace(call.module, has_weights(sizes, call.module)).first;
    if (own->second && call.module != last) {
      ++visits.count[call.module];
      for (std::string path = call.module; !path.empty(); path.erase(std::min(path.rfind('.'), path.size())))
        if (!visits.first.emplace(path, call.module).second || path.find('.') == std::string::npos) break;
    }
    last = call.module;
  }
  return visits;
}

/// A module that the program runs several times, as ALBERT its layer: the outermost one with most of the weights.
std::string repeated_module(const Visits& visits, const std::map<std::string, int64_t>& sizes,
                            const std::set<std::string>& tables) {
  constexpr int kMostRuns = 64;  // each run has gradient sums of its own
  std::string found;
  for (const auto& [module, first] : visits.first) {
    const int runs = visits.count.at(first);
    if (first == module || runs < 2 || runs > kMostRuns || !hold_most({module}, sizes, tables)) continue;
    if (found.empty() || module.size() < found.size()) found = module;
  }
  return found;
}

}  // namespace

ModuleParts find_parts(const TracedProgram& program, const std::vector<std::string>& patterns,
                       const std::map<std::string, int64_t>& sizes) {
  const std::vector<std::string> modules = called_modules(program);
  ModuleParts parts;
  const auto add = [&](const std::string& stack, const std::vector<std::string>& members) {
    for (const std::string& module : members)
      parts.modules[module] = {stack, static_cast<int32_t>(&module - members.data())};
  };
  const auto repeat = [&](const Visits& visits, const std::string& module) {
    parts.repeated = module, parts.first = visits.first.at(module), parts.stack = stack_name(module);
  };
  if (patterns.empty()) {
    const std::set<std::string> tables = tables_of(program);
    auto lists = choose_lists(program, modules, sizes, false, tables);
    if (lists.empty()) lists = choose_lists(program, modules, sizes, true, tables);
    for (const auto& members : lists)
      if (std::ssize(members) <= Part::kMost) add(stack_name(split_number(members[0])->first), members);
    if (!lists.empty()) return parts;
    const Visits visits = visits_of(program, sizes);
    if (const std::string module = repeated_module(visits, sizes, tables); !module.empty()) repeat(visits, module);
    return parts;
  }
  for (const std::string& pattern : patterns) {
    std::vector<std::string> members;
    std::copy_if(modules.begin(), modules.end(), std::back_inserter(members),
                 [&](const std::string& module) { return matches(pattern, module); });
    if (members.empty())
      throw Error({.what = "no module has a path of this pattern",
                   .where = "parts",
                   .found = "'" + pattern + "'",
                   .expected = "a pattern such as \"encoder.layer.*\" of modules that compute something"});
    add(stack_name(pattern.substr(0, pattern.find('*'))), members);
  }
  // The only part that a user names is a part in each of its runs.
  if (parts.modules.size() == 1) {
    const Visits visits = visits_of(program, sizes);
    const std::string module = parts.modules.begin()->first;
    if (const auto first = visits.first.find(module); first != visits.first.end() && first->second != module)
      if (visits.count.at(first->second) > 1) parts.modules.clear(), repeat(visits, module);
  }
  return parts;
}

std::map<const TracedCall*, Part> parts_of_calls(const TracedProgram& program, const ModuleParts& parts) {
  std::map<const TracedCall*, Part> found;
  int32_t run = -1;
  std::string last;
  for (const TracedCall& call : program.calls) {
    if (!parts.repeated.empty()) {
      if (call.module == parts.first && last != parts.first && run + 1 < Part::kMost) ++run;
      last = call.module;
      const bool inside = call.module == parts.repeated || is_inside(call.module, parts.repeated);
      if (inside && run >= 0) found[&call] = {parts.stack, run};
      continue;
    }
    // The part of the innermost module that is one.
    for (std::string path = call.module; !path.empty(); path.erase(std::min(path.rfind('.'), path.size()))) {
      if (const auto part = parts.modules.find(path); part != parts.modules.end()) {
        found[&call] = part->second;
        break;
      }
      if (path.find('.') == std::string::npos) break;
    }
  }
  return found;
}

}  // namespace ramet::front
