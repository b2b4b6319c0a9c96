#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/proto.h"

// ONNX files made by hand, for tests: each function gives one message of onnx.proto.
namespace ramet::tests::onnx {

inline ProtoMessage ints(const std::string& name, const std::vector<int64_t>& values) {
  ProtoMessage made;
  made.bytes(1, name);
  for (const int64_t value : values) made.number(8, static_cast<uint64_t>(value));
  return made.number(20, 7);
}
inline ProtoMessage integer(const std::string& name, int64_t value) {
  return ProtoMessage().bytes(1, name).number(3, static_cast<uint64_t>(value)).number(20, 2);
}
inline ProtoMessage number(const std::string& name, float value) {
  return ProtoMessage().bytes(1, name).single(2, value).number(20, 1);
}
inline ProtoMessage text(const std::string& name, const std::string& value) {
  return ProtoMessage().bytes(1, name).bytes(4, value).number(20, 3);
}
inline ProtoMessage graph_attribute(const std::string& name, const ProtoMessage& graph) {
  return ProtoMessage().bytes(1, name).message(6, graph).number(20, 5);
}
/// An attribute that stands for one of the function around it.
inline ProtoMessage reference(const std::string& name, const std::string& of, int kind) {
  return ProtoMessage().bytes(1, name).number(20, static_cast<uint64_t>(kind)).bytes(21, of);
}

inline ProtoMessage node(const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const std::vector<ProtoMessage>& attributes = {},
                         const std::string& domain = "", const std::string& name = "") {
  ProtoMessage made;
  for (const std::string& input : inputs) made.bytes(1, input);
  for (const std::string& output : outputs) made.bytes(2, output);
  if (!name.empty()) made.bytes(3, name);
  made.bytes(4, op);
  for (const ProtoMessage& attribute : attributes) made.message(5, attribute);
  if (!domain.empty()) made.bytes(7, domain);
  return made;
}

template <typename T>
ProtoMessage tensor(const std::string& name, int type, const std::vector<int64_t>& dims, const std::vector<T>& values) {
  ProtoMessage made;
  for (const int64_t dim : dims) made.number(1, static_cast<uint64_t>(dim));
  made.number(2, static_cast<uint64_t>(type));
  if (!name.empty()) made.bytes(8, name);
  std::string raw(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return made.bytes(9, raw);
}
inline ProtoMessage floats(const std::string& name, const std::vector<int64_t>& dims,
                           const std::vector<float>& values) {
  return tensor(name, 1, dims, values);
}
inline ProtoMessage longs(const std::string& name, const std::vector<int64_t>& dims,
                          const std::vector<int64_t>& values) {
  return tensor(name, 7, dims, values);
}
/// Floats whose bytes stand in another file.
inline ProtoMessage external(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<std::pair<std::string, std::string>>& location) {
  ProtoMessage made;
  for (const int64_t dim : dims) made.number(1, static_cast<uint64_t>(dim));
  made.number(2, 1).bytes(8, name);
  for (const auto& [key, value] : location) made.message(13, ProtoMessage().bytes(1, key).bytes(2, value));
  return made.number(14, 1);
}

/// A dimension of -1 is "batch".
inline ProtoMessage value(const std::string& name, int type, const std::vector<int64_t>& dims) {
  ProtoMessage shape;
  for (const int64_t dim : dims)
    shape.message(1, dim < 0 ? ProtoMessage().bytes(2, "batch") : ProtoMessage().number(1, static_cast<uint64_t>(dim)));
  const ProtoMessage type_message =
      ProtoMessage().message(1, ProtoMessage().number(1, static_cast<uint64_t>(type)).message(2, shape));
  return ProtoMessage().bytes(1, name).message(2, type_message);
}

struct Graph {
  std::vector<ProtoMessage> nodes, initializers{}, inputs{}, outputs{};

  ProtoMessage message() const {
    ProtoMessage made;
    for (const ProtoMessage& each : nodes) made.message(1, each);
    made.bytes(2, "graph");
    for (const ProtoMessage& each : initializers) made.message(5, each);
    for (const ProtoMessage& each : inputs) made.message(11, each);
    for (const ProtoMessage& each : outputs) made.message(12, each);
    return made;
  }
};

inline std::string model(const Graph& graph, int64_t version = 20, const std::vector<ProtoMessage>& functions = {}) {
  ProtoMessage made;
  made.number(1, 10).message(7, graph.message());
  made.message(8, ProtoMessage().bytes(1, "").number(2, static_cast<uint64_t>(version)));
  made.message(8, ProtoMessage().bytes(1, "local").number(2, 1));
  for (const ProtoMessage& function : functions) made.message(25, function);
  return made.data();
}

/// A function of the domain "local", with attributes that it takes.
inline ProtoMessage function(const std::string& name, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs, const std::vector<ProtoMessage>& nodes,
                             const std::vector<std::string>& attributes = {}) {
  ProtoMessage made;
  made.bytes(1, name);
  for (const std::string& input : inputs) made.bytes(4, input);
  for (const std::string& output : outputs) made.bytes(5, output);
  for (const std::string& attribute : attributes) made.bytes(6, attribute);
  for (const ProtoMessage& each : nodes) made.message(7, each);
  made.message(9, ProtoMessage().bytes(1, "").number(2, 20));
  made.message(9, ProtoMessage().bytes(1, "local").number(2, 1));
  return made.bytes(10, "local");
}

}  // namespace ramet::tests::onnx
