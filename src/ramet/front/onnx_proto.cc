// The wire format of ONNX files.
#include <bit>
#include <cstring>

#include "ramet/base/error_types.h"
#include "ramet/base/proto.h"
#include "ramet/front/onnx_records.h"

namespace ramet::front {
namespace {

constexpr int kMostDepth = 64;
constexpr size_t kMostNodes = 1'000'000;
constexpr size_t kMostFunctions = 4096;
constexpr size_t kMostText = 1 << 16;  ///< bytes of a name
constexpr int kMostRank = 64;

/// Reads one file.
class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& expected = "") const {
    throw FormatError({.what = what, .where = source_, .found = found, .expected = expected});
  }

  /// Calls `each` with every field of a message.
  template <typename Each>
  void fields(std::string_view message, const char* kind, Each each) {
    ProtoReader reader(message);
    while (reader.next()) each(reader);
    if (reader.damaged()) refuse(std::string("a damaged message in an ONNX file"), kind);
  }

  OnnxModel model(std::string_view file) {
    OnnxModel made;
    bool graph = false;
    fields(file, "ModelProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.ir_version = at.integer(); break;
        case 2: made.producer = text(at); break;
        case 7:
          if (graph) refuse("an ONNX file has two graphs");
          made.graph = this->graph(message(at), 0), graph = true;
          break;
        case 8: version(message(at), made.versions); break;
        case 14: pair(message(at), made.metadata); break;
        case 20: made.has_training = true; break;
        case 25:
          made.functions.push_back(function(message(at)));
          if (made.functions.size() > kMostFunctions)
            refuse("an ONNX file has too many functions", "", std::to_string(kMostFunctions) + " at most");
          break;
        default: break;
      }
    });
    if (!graph) refuse("no ONNX model: the file has no graph");
    return made;
  }

  OnnxTensor tensor(std::string_view bytes) {
    OnnxTensor made;
    made.bytes = bytes;
    fields(bytes, "TensorProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: integers(at, made.dims); break;
        case 2: made.type = static_cast<int32_t>(at.integer()); break;
        case 3: refuse("a tensor in segments is not supported"); break;
        case 4:
          if (made.floats.empty() && at.wire() == ProtoReader::Wire::kBytes) made.packed_floats = at.bytes();
          packed(at, made.floats);
          break;
        case 5: integers(at, made.integers); break;
        case 6: made.strings.push_back(message(at)); break;
        case 7: integers(at, made.integers); break;
        case 8: made.name = text(at); break;
        case 9: made.raw = message(at); break;
        case 10: packed(at, made.doubles); break;
        case 11: integers(at, made.integers); break;
        case 13: {
          std::map<std::string, std::string, std::less<>> entry;
          pair(message(at), entry);
          for (auto& [key, value] : entry) made.location.emplace_back(key, value);
          break;
        }
        case 14: made.external = at.integer() == 1; break;
        default: break;
      }
    });
    if (made.dims.size() > kMostRank) refuse("a tensor has too many dimensions", std::to_string(made.dims.size()));
    return made;
  }

  OnnxSequence sequence(std::string_view bytes) {
    OnnxSequence made;
    fields(bytes, "SequenceProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.name = text(at); break;
        case 2: made.kind = static_cast<int32_t>(at.integer()); break;
        case 3: made.tensors.push_back(tensor(message(at))); break;
        case 4:
        case 5:
        case 6:
        case 7: made.holds_others = true; break;
        default: break;
      }
    });
    return made;
  }

  OnnxOptional optional(std::string_view bytes) {
    OnnxOptional made;
    fields(bytes, "OptionalProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.name = text(at); break;
        case 2: made.kind = static_cast<int32_t>(at.integer()); break;
        case 3: made.tensor = tensor(message(at)); break;
        case 5: made.sequence = sequence(message(at)); break;
        default: break;
      }
    });
    return made;
  }

 private:
  std::string_view message(const ProtoReader& at) const {
    if (at.wire() != ProtoReader::Wire::kBytes)
      refuse("a field of an ONNX file has the wrong wire type", "field " + std::to_string(at.field()));
    return at.bytes();
  }
  std::string text(const ProtoReader& at) const {
    const std::string_view bytes = message(at);
    if (bytes.size() > kMostText) refuse("a name in an ONNX file is too long", std::to_string(bytes.size()) + " bytes");
    std::string made(bytes);
    for (char& c : made)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // names are printed
    return made;
  }

  /// A repeated integer, packed or not.
  void integers(const ProtoReader& at, std::vector<int64_t>& into) {
    if (at.wire() == ProtoReader::Wire::kVarint) return into.push_back(at.integer());
    std::string_view rest = message(at);
    while (!rest.empty()) {
      uint64_t value = 0;
      size_t used = 0;
      for (int shift = 0;; shift += 7) {
        if (used >= rest.size() || used >= 10) refuse("a damaged list of integers in an ONNX file");
        const auto byte = static_cast<uint8_t>(rest[used++]);
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
      into.push_back(static_cast<int64_t>(value));
      rest.remove_prefix(used);
    }
  }
  /// A repeated float or double, packed or not.
  template <typename T>
  void packed(const ProtoReader& at, std::vector<T>& into) {
    if constexpr (sizeof(T) == 4) {
      if (at.wire() == ProtoReader::Wire::kFixed32) return into.push_back(at.single());
    } else {
      if (at.wire() == ProtoReader::Wire::kFixed64) return into.push_back(at.real());
    }
    const std::string_view bytes = message(at);
    if (bytes.size() % sizeof(T) != 0) refuse("a damaged list of numbers in an ONNX file");
    const size_t before = into.size();
    into.resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(into.data() + before, bytes.data(), bytes.size());
  }

  void pair(std::string_view bytes, std::map<std::string, std::string, std::less<>>& into) {
    std::string key, value;
    fields(bytes, "StringStringEntryProto", [&](ProtoReader& at) {
      if (at.field() == 1) key = text(at);
      if (at.field() == 2) value = std::string(message(at));
    });
    into[key] = value;
  }
  void version(std::string_view bytes, OnnxVersions& into) {
    std::string domain;
    int64_t number = 0;
    fields(bytes, "OperatorSetIdProto", [&](ProtoReader& at) {
      if (at.field() == 1) domain = text(at);
      if (at.field() == 2) number = at.integer();
    });
    into[domain == "ai.onnx" ? "" : domain] = number;
  }

  OnnxAttribute attribute(std::string_view bytes, int depth) {
    OnnxAttribute made;
    fields(bytes, "AttributeProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.name = text(at); break;
        case 2: made.number = at.single(); break;
        case 3: made.integer = at.integer(); break;
        case 4: made.text = message(at); break;
        case 5: made.tensor = std::make_shared<OnnxTensor>(tensor(message(at))); break;
        case 6: made.graph = std::make_shared<OnnxGraph>(graph(message(at), depth + 1)); break;
        case 7: packed(at, made.numbers); break;
        case 8: integers(at, made.integers); break;
        case 9: made.texts.push_back(message(at)); break;
        case 20: made.kind = static_cast<OnnxAttributeKind>(at.integer()); break;
        case 21: made.refers_to = text(at); break;
        default: break;
      }
    });
    return made;
  }

  OnnxNode node(std::string_view bytes, int depth) {
    if (++nodes_ > kMostNodes) refuse("an ONNX file has too many nodes", "", std::to_string(kMostNodes) + " at most");
    OnnxNode made;
    fields(bytes, "NodeProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.inputs.push_back(text(at)); break;
        case 2: made.outputs.push_back(text(at)); break;
        case 3: made.name = text(at); break;
        case 4: made.op = text(at); break;
        case 5: made.attributes.push_back(attribute(message(at), depth)); break;
        case 7: made.domain = text(at); break;
        case 8: made.overload = text(at); break;
        case 9: pair(message(at), made.metadata); break;
        default: break;
      }
    });
    if (made.domain == "ai.onnx") made.domain.clear();
    return made;
  }

  void shape(std::string_view bytes, OnnxValueInfo& into) {
    into.has_shape = true;
    fields(bytes, "TensorShapeProto", [&](ProtoReader& at) {
      if (at.field() != 1) return;
      OnnxValueInfo::Extent extent;
      fields(message(at), "TensorShapeProto.Dimension", [&](ProtoReader& dim) {
        if (dim.field() == 1) extent.extent = dim.integer();
        if (dim.field() == 2) extent.name = text(dim);
      });
      if (into.shape.size() >= kMostRank) refuse("a value has too many dimensions", "'" + into.name + "'");
      into.shape.push_back(std::move(extent));
    });
  }
  void type(std::string_view bytes, OnnxValueInfo& into, int depth) {
    using Kind = OnnxValueInfo::Kind;
    if (depth > kMostDepth) refuse("types are nested too deeply in an ONNX file");
    into.kind = Kind::kOther;
    fields(bytes, "TypeProto", [&](ProtoReader& at) {
      if (at.field() == 1) {
        into.kind = Kind::kTensor;
        fields(message(at), "TypeProto.Tensor", [&](ProtoReader& field) {
          if (field.field() == 1) into.type = static_cast<int32_t>(field.integer());
          if (field.field() == 2) shape(message(field), into);
        });
      } else if (at.field() == 4 || at.field() == 9) {
        fields(message(at), "TypeProto.Sequence", [&](ProtoReader& field) {
          if (field.field() == 1) type(message(field), into, depth + 1);
        });
        into.inner = into.kind;
        into.kind = at.field() == 4 ? Kind::kSequence : Kind::kOptional;
      }
    });
  }
  OnnxValueInfo value_info(std::string_view bytes) {
    OnnxValueInfo made;
    fields(bytes, "ValueInfoProto", [&](ProtoReader& at) {
      if (at.field() == 1) made.name = text(at);
      if (at.field() == 2) type(message(at), made, 0);
    });
    return made;
  }

  OnnxGraph graph(std::string_view bytes, int depth) {
    if (depth > kMostDepth) refuse("graphs are nested too deeply in an ONNX file", "", std::to_string(kMostDepth));
    OnnxGraph made;
    fields(bytes, "GraphProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.nodes.push_back(node(message(at), depth)); break;
        case 2: made.name = text(at); break;
        case 5: made.initializers.push_back(tensor(message(at))); break;
        case 11: made.inputs.push_back(value_info(message(at))); break;
        case 12: made.outputs.push_back(value_info(message(at))); break;
        case 13: made.values.push_back(value_info(message(at))); break;
        case 15: made.has_sparse = true; break;
        default: break;
      }
    });
    return made;
  }

  OnnxFunction function(std::string_view bytes) {
    OnnxFunction made;
    fields(bytes, "FunctionProto", [&](ProtoReader& at) {
      switch (at.field()) {
        case 1: made.name = text(at); break;
        case 4: made.inputs.push_back(text(at)); break;
        case 5: made.outputs.push_back(text(at)); break;
        case 6: made.attributes.push_back(text(at)); break;
        case 7: made.nodes.push_back(node(message(at), 0)); break;
        case 9: version(message(at), made.versions); break;
        case 10: made.domain = text(at); break;
        case 11: made.defaults.push_back(attribute(message(at), 0)); break;
        case 13: made.overload = text(at); break;
        default: break;
      }
    });
    return made;
  }

  const std::string& source_;
  size_t nodes_ = 0;
};

}  // namespace

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  for (const OnnxAttribute& each : attributes)
    if (each.name == attribute) return &each;
  return nullptr;
}

std::string OnnxNode::text() const {
  return (domain.empty() ? "" : domain + ".") + op + (name.empty() ? "" : " '" + name + "'");
}

OnnxModel parse_onnx(std::string_view file, const std::string& source) { return Reader(source).model(file); }
OnnxTensor parse_onnx_tensor(std::string_view file, const std::string& source) { return Reader(source).tensor(file); }
OnnxSequence parse_onnx_sequence(std::string_view file, const std::string& source) {
  return Reader(source).sequence(file);
}
OnnxOptional parse_onnx_optional(std::string_view file, const std::string& source) {
  return Reader(source).optional(file);
}

}  // namespace ramet::front
