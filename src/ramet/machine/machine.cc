#include "ramet/machine/machine.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"

namespace ramet {
namespace {

/// The narrowest floating type that goes in: what a product's speed depends on.
double peak_of(const Machine& machine, const NodeSignature& node) {
  const bool narrow = std::any_of(node.inputs.begin(), node.inputs.end(), [](const TensorType& type) {
    return is_floating(type.dtype) && size_of(type.dtype) < 4;
  });
  return narrow ? machine.bf16_flops : machine.f32_flops;
}

}  // namespace

std::string task_key(const NodeSignature& node, const std::string& kernel) {
  std::string key = kernel + " " + node.op->name + "(";
  for (const TensorType& type : node.inputs) key += type.text() + ",";
  key += ")->";
  for (const TensorType& type : node.outputs) key += type.text() + ",";
  for (const auto& [name, attribute] : node.attributes) {
    std::string text = text_of(attribute);
    if (std::holds_alternative<std::string>(attribute))
      std::erase_if(text, [](unsigned char c) { return std::isdigit(c); });
    key += " " + name + "=" + text;
  }
  return key;
}

double task_seconds(const Machine& machine, const NodeSignature& node, const std::string& kernel, const Cost& cost) {
  if (const auto measured = machine.tasks.find(task_key(node, kernel)); measured != machine.tasks.end())
    return measured->second + machine.overhead;
  const double compute = cost.flops / std::max(peak_of(machine, node), 1.0);
  const double traffic = static_cast<double>(cost.bytes_read + cost.bytes_written) / std::max(machine.bandwidth, 1.0);
  return std::max(compute, traffic) + machine.overhead;
}

std::string json_of(const Machine& machine) {
  nlohmann::ordered_json json = {
      {"name", machine.name},           {"kernel_class", machine.kernel_class}, {"threads", machine.threads},
      {"f32_flops", machine.f32_flops}, {"bf16_flops", machine.bf16_flops},     {"bandwidth", machine.bandwidth},
      {"overhead", machine.overhead}};
  json["tasks"] = nlohmann::ordered_json::object();
  for (const auto& [key, seconds] : machine.tasks) json["tasks"][key] = seconds;
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Machine machine_from_json(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::json::parse(text);
    Machine machine;
    machine.name = json.at("name").get<std::string>();
    machine.kernel_class = json.at("kernel_class").get<std::string>();
    machine.threads = json.at("threads").get<int>();
    machine.f32_flops = json.at("f32_flops").get<double>();
    machine.bf16_flops = json.at("bf16_flops").get<double>();
    machine.bandwidth = json.at("bandwidth").get<double>();
    machine.overhead = json.at("overhead").get<double>();
    machine.tasks = json.at("tasks").get<std::map<std::string, double>>();
    return machine;
  } catch (const nlohmann::json::exception& fault) {
    throw Error({.what = "machine description is malformed",
                 .where = source,
                 .found = fault.what(),
                 .remedy = "Delete it; it will be measured again"});
  }
}

}  // namespace ramet
