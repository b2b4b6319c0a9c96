#pragma once

#include "ramet/base/house.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/front/onnx_records.h"
#include "ramet/ops/build.h"

namespace ramet::front {

class OnnxImporter;
struct OnnxScope;

/// A value while a file is imported: a tensor of the graph, a list of tensors whose number is known (a sequence), or
/// nothing (an optional that is empty, or an output that is not computed).
struct OnnxValue {
  OnnxValue() = default;
  OnnxValue(Tensor one) : tensor(one) {}
  explicit OnnxValue(std::vector<Tensor> many) : list(std::make_shared<std::vector<Tensor>>(std::move(many))) {}
  bool given() const { return tensor.valid() || list; }

  Tensor tensor{};
  std::shared_ptr<const std::vector<Tensor>> list{};
};

/// A node of an ONNX file while it is translated. Inputs and outputs are numbered as in ONNX's documentation; an
/// absent optional one has the name "".
class OnnxCall {
 public:
  OnnxCall(OnnxImporter& importer, const OnnxScope& scope, const OnnxNode& node)
      : importer_(importer), scope_(scope), node_(node) {}

  const OnnxNode& node() const { return node_; }
  OnnxImporter& importer() const { return importer_; }
  const OnnxScope& scope() const { return scope_; }
  GraphBuilder& build() const;
  /// Version of the operator set of the node's domain.
  int64_t version() const;

  // --- inputs and outputs ---
  size_t inputs() const { return node_.inputs.size(); }
  bool has(size_t input) const { return input < node_.inputs.size() && !node_.inputs[input].empty(); }
  bool wants(size_t output) const { return output < node_.outputs.size() && !node_.outputs[output].empty(); }
  OnnxValue value(size_t input) const;
  Tensor input(size_t input) const;     ///< refuses the node where it is missing or is no tensor
  Tensor input_if(size_t input) const;  ///< an invalid tensor where it is missing
  std::vector<Tensor> all_inputs(size_t from = 0) const;
  const std::vector<Tensor>& list(size_t input) const;

  // --- attributes ---
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  int64_t integer(std::string_view attribute, std::optional<int64_t> absent = std::nullopt) const;
  double number(std::string_view attribute, std::optional<double> absent = std::nullopt) const;
  bool flag(std::string_view attribute, bool absent = false) const { return integer(attribute, absent) != 0; }
  std::string text(std::string_view attribute, const std::string& absent = "") const;
  std::vector<int64_t> integers(std::string_view attribute, const std::vector<int64_t>& absent = {}) const;
  std::vector<double> numbers(std::string_view attribute, const std::vector<double>& absent = {}) const;
  std::vector<std::string> texts(std::string_view attribute) const;
  HostTensor tensor(std::string_view attribute) const;
  const OnnxGraph& graph(std::string_view attribute) const;
  /// An element type that an attribute names by its number.
  DType dtype(std::string_view attribute, std::optional<DType> absent = std::nullopt) const;
  /// One dimension of a tensor of this rank, from 0.
  int axis(std::string_view attribute, int rank, std::optional<int64_t> absent = std::nullopt) const;

  // --- values that are known before the model runs ---
  const TensorData* known(Tensor tensor) const;
  /// The elements of an input; refuses the node where data decide them.
  const HostTensor& must_know(size_t input, const std::string& what) const;
  std::vector<int64_t> known_integers(size_t input, const std::string& what) const;
  std::vector<double> known_numbers(size_t input, const std::string& what) const;
  int64_t known_integer(size_t input, const std::string& what) const;
  double known_number(size_t input, const std::string& what) const;
  /// Integers of an input, or of an attribute where the version of the operator set has them there.
  std::vector<int64_t> integers_of(size_t input, std::string_view attribute,
                                   const std::vector<int64_t>& absent = {}) const;

  Tensor constant(HostTensor data) const;
  Tensor constant(DType dtype, const Shape& shape, const std::vector<double>& values) const;
  Tensor integer_constant(const Shape& shape, const std::vector<int64_t>& values, DType dtype = DType::kI64) const;
  Tensor full(DType dtype, const Shape& shape, double value) const;

  [[noreturn]] void refuse(const std::string& why, const std::string& remedy = "") const;

 private:
  const OnnxAttribute* find(std::string_view attribute) const;

  OnnxImporter& importer_;
  const OnnxScope& scope_;
  const OnnxNode& node_;
};

/// Adds a node to the graph and returns its outputs. Outputs that nothing reads may be empty.
using OnnxTranslate = std::vector<OnnxValue> (*)(const OnnxCall& at);

/// One line of the table of ONNX's operators.
struct OnnxEntry {
  std::string_view op;  ///< "Conv", or with its domain "ai.onnx.preview.FlexAttention"
  OnnxTranslate translate;
};

}  // namespace ramet::front
