#pragma once

#include "ramet/base/house.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/base/proto.h"
#include "ramet/ir/graph.h"

namespace ramet::front {

// Attributes of nodes of ONNX.
ProtoMessage onnx_number(const std::string& name, double value);
ProtoMessage onnx_integer(const std::string& name, int64_t value);
ProtoMessage onnx_text(const std::string& name, const std::string& value);
ProtoMessage onnx_integers(const std::string& name, const std::vector<int64_t>& values);

/// A node of ONNX that is still to be written.
struct OnnxWritten {
  std::string op, domain, name, part;
  std::vector<std::string> inputs{}, outputs{};
  std::vector<ProtoMessage> attributes{};
  ProtoMessage message() const;
};

/// Collects the nodes of a graph of ONNX, or of the body of a function, by functions that add one node or a few.
class OnnxWriter {
 public:
  using Names = std::vector<std::string>;
  using Fields = std::vector<ProtoMessage>;

  /// Constants of a function are nodes; those of a graph are initializers.
  explicit OnnxWriter(bool in_function) : in_function_(in_function) {}

  /// A name that no value has yet.
  std::string fresh(const std::string& wanted);
  void reserve(const std::string& name) { used_.insert(name); }
  /// What nodes from now on are called and belong to.
  void set_place(std::string name, std::string part) { place_ = std::move(name), part_ = std::move(part); }

  /// Adds a node with one output, whose name is returned.
  std::string node(const std::string& op, const Names& inputs, const Fields& attributes = {}, std::string output = "");
  /// Adds a node with some outputs.
  Names nodes(const std::string& op, const Names& inputs, size_t outputs, const Fields& attributes = {},
              const std::string& domain = "");

  std::string constant(const HostTensor& tensor);
  std::string integers(const std::vector<int64_t>& values, DType dtype = DType::kI64);
  std::string number(DType dtype, double value);  ///< a scalar
  std::string cast(const std::string& a, DType to);
  std::string reshape(const std::string& a, const std::vector<int64_t>& dims);
  std::string expand(const std::string& a, const std::vector<int64_t>& dims);
  std::string transpose(const std::string& a, const std::vector<int64_t>& permutation);
  std::string swap_last(const std::string& a, int rank);
  std::string slice(const std::string& a, int64_t axis, int64_t start, int64_t stop);
  std::string reduce(const std::string& op, const std::string& a, const std::vector<int64_t>& axes, bool keep);

  /// Drops nodes whose results nothing needs, and returns what the others and `results` read.
  std::set<std::string> drop_unused(const Names& results);
  const std::vector<OnnxWritten>& written() const { return written_; }
  /// Constants that became initializers, by name.
  const std::vector<std::pair<std::string, HostTensor>>& constants() const { return constants_; }

 private:
  bool in_function_;
  std::string place_{}, part_{};
  std::set<std::string> used_{};
  std::vector<OnnxWritten> written_{};
  std::vector<std::pair<std::string, HostTensor>> constants_{};
  std::map<std::string, std::string> known_{};  ///< constants by their type and bytes
  int64_t count_ = 0;
};

/// A node of Ramet with the names of its operands in the file.
struct OnnxOp {
  const Graph& graph;
  const Node& node;
  const NodeSignature& signature;
  std::vector<std::string> in;

  const ir::Attributes& attributes() const { return node.attributes; }
  const TensorType& input(size_t i) const { return signature.inputs.at(i); }
  const TensorType& output(size_t i = 0) const { return signature.outputs.at(i); }
  int rank(size_t i = 0) const { return input(i).shape.rank(); }
  /// The node as it cannot be written.
  [[noreturn]] void refuse(const std::string& why) const;
};

/// Writes a node; returns the names of its outputs from the first one on. Later outputs may be missing.
using OnnxForm = std::vector<std::string> (*)(OnnxWriter& to, const OnnxOp& op);

/// How an op of Ramet is written. With `wrapped` the nodes are the body of a function, which the reader takes as the
/// op itself.
struct OnnxFormEntry {
  std::string_view op;
  OnnxForm write;
  bool wrapped = false;
};

/// The domain of functions that stand for an op of Ramet. A call has the op and its attributes as text in the attribute
/// `ramet`.
inline constexpr const char* kOnnxOpDomain = "ai.ramet";
inline constexpr const char* kOnnxOpAttribute = "ramet";
/// The key of a node's metadata that names its part.
inline constexpr const char* kOnnxPartKey = "ramet.part";

/// The entry of an op; null where it has no form in ONNX.
const OnnxFormEntry* find_onnx_form(std::string_view op);

// The table's families, a file each (front/onnx_form_*.cc).
const std::vector<OnnxFormEntry>& onnx_elementwise_forms();
const std::vector<OnnxFormEntry>& onnx_shape_forms();
const std::vector<OnnxFormEntry>& onnx_index_forms();
const std::vector<OnnxFormEntry>& onnx_network_forms();
const std::vector<OnnxFormEntry>& onnx_sequence_forms();  ///< attention, caches and recurrent layers
const std::vector<OnnxFormEntry>& onnx_sparse_forms();
const std::vector<OnnxFormEntry>& onnx_graph_forms();
const std::vector<OnnxFormEntry>& onnx_loss_forms();

}  // namespace ramet::front
