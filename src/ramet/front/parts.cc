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

/// Lists of two or more modules of one class, from prefixes of paths to the modules. Containers are no members: what
/// they contain may be.
std::map<std::string, std::vector<std::string>> find_lists(const TracedProgram& program,
                                                           const std::vector<std::string>& modules) {
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::set<std::string>> classes;
  for (const std::string& path : modules) {
    const auto number = split_number(path);
    const auto found = program.modules.find(path);
    if (!number || found == program.modules.end()) continue;
    lists[number->first].push_back(path);
    classes[number->first].insert(found->second);
  }
  std::erase_if(lists, [&](const auto& list) {
    const std::set<std::string>& of = classes[list.first];
    return list.second.size() < 2 || of.size() != 1 || of.begin()->find(".container.") != std::string::npos;
  });
  return lists;
}

int64_t size_within(const std::map<std::string, int64_t>& sizes, const std::string& module) {
  int64_t sum = 0;
  for (const auto& [name, size] : sizes)
    if (is_inside(name, module)) sum += size;
  return sum;
}

/// The lists that stand in no other list, when their members hold most of the weights.
std::vector<std::vector<std::string>> choose_lists(const TracedProgram& program,
                                                   const std::vector<std::string>& modules,
                                                   const std::map<std::string, int64_t>& sizes) {
  auto lists = find_lists(program, modules);
  std::erase_if(lists, [&](const auto& list) {
    return std::all_of(list.second.begin(), list.second.end(),
                       [&](const std::string& module) { return size_within(sizes, module) == 0; });
  });
  std::vector<std::vector<std::string>> outer;
  int64_t within = 0, all = 0;
  for (const auto& [prefix, members] : lists) {
    const bool nested = std::any_of(lists.begin(), lists.end(), [&](const auto& other) {
      return std::any_of(other.second.begin(), other.second.end(),
                         [&](const std::string& module) { return is_inside(members[0], module); });
    });
    if (nested) continue;
    outer.push_back(members);
    for (const std::string& module : members) within += size_within(sizes, module);
  }
  for (const auto& [name, size] : sizes) all += size;
  if (2 * within < all) outer.clear();
  return outer;
}

}  // namespace

std::map<std::string, Part, std::less<>> find_parts(const TracedProgram& program,
                                                    const std::vector<std::string>& patterns,
                                                    const std::map<std::string, int64_t>& sizes) {
  const std::vector<std::string> modules = called_modules(program);
  std::map<std::string, Part, std::less<>> parts;
  const auto add = [&](const std::string& stack, const std::vector<std::string>& members) {
    for (const std::string& module : members) parts[module] = {stack, static_cast<int32_t>(&module - members.data())};
  };
  if (patterns.empty()) {
    for (const auto& members : choose_lists(program, modules, sizes))
      if (std::ssize(members) <= Part::kMost) add(stack_name(split_number(members[0])->first), members);
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
  return parts;
}

}  // namespace ramet::front
