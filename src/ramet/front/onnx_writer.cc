#include "ramet/front/onnx_writer.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error_types.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/front/onnx_write.h"

namespace ramet::front {

ProtoMessage onnx_number(const std::string& name, double value) {
  return ProtoMessage().bytes(1, name).single(2, static_cast<float>(value)).number(20, 1);
}
ProtoMessage onnx_integer(const std::string& name, int64_t value) {
  return ProtoMessage().bytes(1, name).number(3, static_cast<uint64_t>(value)).number(20, 2);
}
ProtoMessage onnx_text(const std::string& name, const std::string& value) {
  return ProtoMessage().bytes(1, name).bytes(4, value).number(20, 3);
}
ProtoMessage onnx_integers(const std::string& name, const std::vector<int64_t>& values) {
  ProtoMessage made;
  made.bytes(1, name);
  for (const int64_t value : values) made.number(8, static_cast<uint64_t>(value));
  return made.number(20, 7);
}

ProtoMessage OnnxWritten::message() const {
  ProtoMessage made;
  for (const std::string& input : inputs) made.bytes(1, input);
  for (const std::string& output : outputs) made.bytes(2, output);
  made.bytes(3, name).bytes(4, op);
  for (const ProtoMessage& attribute : attributes) made.message(5, attribute);
  if (!domain.empty()) made.bytes(7, domain);
  if (!part.empty()) made.message(9, ProtoMessage().bytes(1, kOnnxPartKey).bytes(2, part));
  return made;
}

void OnnxOp::refuse(const std::string& why) const { throw UnsupportedOp({.what = why}); }

std::string OnnxWriter::fresh(const std::string& wanted) {
  std::string name = wanted;
  for (int64_t i = 1; !used_.insert(name).second; ++i) name = wanted + "." + std::to_string(count_ + i);
  ++count_;
  return name;
}

std::string OnnxWriter::node(const std::string& op, const Names& inputs, const Fields& attributes, std::string output) {
  if (output.empty()) output = fresh(op);
  const std::string name = (place_.empty() ? "" : place_ + "/") + op + "_" + std::to_string(written_.size());
  written_.push_back({op, "", name, part_, inputs, {output}, attributes});
  return output;
}

OnnxWriter::Names OnnxWriter::nodes(const std::string& op, const Names& inputs, size_t outputs,
                                    const Fields& attributes, const std::string& domain) {
  Names made;
  for (size_t i = 0; i < outputs; ++i) made.push_back(fresh(op));
  const std::string name = (place_.empty() ? "" : place_ + "/") + op + "_" + std::to_string(written_.size());
  written_.push_back({op, domain, name, part_, inputs, made, attributes});
  return made;
}

std::string OnnxWriter::constant(const HostTensor& tensor) {
  const std::string key =
      tensor.type.text() + ":" + std::string(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  const bool small = tensor.data.size() <= 4096;
  if (small)
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const std::string name = fresh("constant");
  if (in_function_)
    node("Constant", {}, {ProtoMessage().bytes(1, "value").message(5, onnx_tensor_message(tensor, "")).number(20, 4)},
         name);
  else
    constants_.emplace_back(name, tensor);
  if (small) known_[key] = name;
  return name;
}

std::string OnnxWriter::integers(const std::vector<int64_t>& values, DType dtype) {
  HostTensor made({dtype, {std::ssize(values)}});
  for (size_t i = 0; i < values.size(); ++i) store_integer(made.data.data(), dtype, static_cast<int64_t>(i), values[i]);
  return constant(made);
}

std::string OnnxWriter::number(DType dtype, double value) { return constant(HostTensor::of(dtype, {}, {value})); }

std::string OnnxWriter::cast(const std::string& a, DType to) {
  return node("Cast", {a}, {onnx_integer("to", onnx_type_of(to))});
}

std::string OnnxWriter::reshape(const std::string& a, const std::vector<int64_t>& dims) {
  return node("Reshape", {a, integers(dims)}, {onnx_integer("allowzero", 1)});
}

std::string OnnxWriter::expand(const std::string& a, const std::vector<int64_t>& dims) {
  return node("Expand", {a, integers(dims)});
}

std::string OnnxWriter::transpose(const std::string& a, const std::vector<int64_t>& permutation) {
  return node("Transpose", {a}, {onnx_integers("perm", permutation)});
}

std::string OnnxWriter::swap_last(const std::string& a, int rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(a, order);
}

std::string OnnxWriter::slice(const std::string& a, int64_t axis, int64_t start, int64_t stop) {
  return node("Slice", {a, integers({start}), integers({stop}), integers({axis})});
}

std::string OnnxWriter::reduce(const std::string& op, const std::string& a, const std::vector<int64_t>& axes,
                               bool keep) {
  return node(op, {a, integers(axes)}, {onnx_integer("keepdims", keep ? 1 : 0)});
}

std::set<std::string> OnnxWriter::drop_unused(const Names& results) {
  std::set<std::string> needed(results.begin(), results.end());
  std::vector<OnnxWritten> kept;
  for (auto each = written_.rbegin(); each != written_.rend(); ++each) {
    const bool wanted = std::any_of(each->outputs.begin(), each->outputs.end(),
                                    [&](const std::string& output) { return needed.count(output) != 0; });
    if (!wanted) continue;
    needed.insert(each->inputs.begin(), each->inputs.end());
    kept.push_back(std::move(*each));
  }
  std::reverse(kept.begin(), kept.end());
  written_ = std::move(kept);
  return needed;
}

const OnnxFormEntry* find_onnx_form(std::string_view op) {
  static const std::map<std::string_view, OnnxFormEntry> table = [] {
    std::map<std::string_view, OnnxFormEntry> made;
    for (const auto* family :
         {&onnx_elementwise_forms(), &onnx_shape_forms(), &onnx_index_forms(), &onnx_network_forms(),
          &onnx_sequence_forms(), &onnx_sparse_forms(), &onnx_graph_forms(), &onnx_loss_forms()})
      for (const OnnxFormEntry& entry : *family) made.emplace(entry.op, entry);
    return made;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace ramet::front
