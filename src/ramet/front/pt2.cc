#include "ramet/front/pt2.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/torch_fields.h"
#include "ramet/front/torch_json.h"
#include "ramet/weights/zip_file.h"

namespace ramet::front {
namespace {

/// The most bytes of a text of the file.
constexpr uint64_t kMostText = uint64_t{1} << 30;
constexpr int kMostDepth = 32;
constexpr uint64_t kMostRecipe = 256 << 10;

/// Reads one file.
class Pt2Reader : private TorchFields {
 public:
  Pt2Reader(const ZipFile& zip, std::string source, TracedModule options)
      : TorchFields(source), zip_(zip), source_(std::move(source)), module_(std::move(options)) {}

  std::string recipe() {
    find_folder();
    const std::string name = folder_ + "extra/ramet_recipe.toml";
    return zip_.has(name) ? zip_.read(name, kMostRecipe) : "";
  }

  TracedModule run(const std::string& stem) {
    static_assert(std::endian::native == std::endian::little);
    module_.training.reset(), module_.evaluation.reset(), module_.tensors.clear();
    find_folder();
    if (zip_.has(folder_ + "byteorder"))
      if (const std::string order = zip_.read(folder_ + "byteorder", 100); order != "little")
        zip_.refuse("tensors of another byte order", order);
    const Json model = json("models/model.json");
    TracedProgram program = read_torch_program(model, source_ + " models/model.json");
    if (zip_.has(folder_ + "extra/ramet.json")) {
      read_options(json("extra/ramet.json"));
      const bool both = zip_.has(folder_ + "extra/ramet_evaluation.json");
      (both || !module_.loss.empty() ? module_.training : module_.evaluation) = std::move(program);
      if (both)
        module_.evaluation =
            read_torch_program(json("extra/ramet_evaluation.json"), source_ + " extra/ramet_evaluation.json");
    } else {
      if (module_.outputs.empty()) read_output_names(model);
      (has_loss(program) ? module_.training : module_.evaluation) = std::move(program);
    }
    if (module_.name == "module" || module_.name.empty()) module_.name = stem;
    read_tensors("data/weights/", "data/weights/model_weights_config.json");
    read_tensors("data/constants/", "data/constants/model_constants_config.json");
    order_tensors(module_.training ? *module_.training : *module_.evaluation);
    return std::move(module_);
  }

 private:
  void find_folder() {
    constexpr std::string_view kModel = "models/model.json";
    for (const std::string& name : zip_.names())
      if (name == kModel || name.ends_with("/" + std::string(kModel))) {
        folder_ = name.substr(0, name.size() - kModel.size());
        return;
      }
    zip_.refuse("the zip file holds no models/model.json", "",
                "Write the file with torch.export.save or ramet.torch.save, of PyTorch 2.8 or newer");
  }

  Json json(const std::string& name) const {
    return parse_torch_text(zip_.read(folder_ + name, kMostText), source_ + " " + name);
  }

  /// Whether an output could be a loss.
  bool has_loss(const TracedProgram& program) const {
    if (!module_.loss.empty()) return true;
    for (const TracedOutput& output : program.outputs) {
      const auto type = program.types.find(output.value);
      if (output.kind == TracedOutput::Kind::kUser && type != program.types.end() && type->second.shape.rank() == 0 &&
          is_floating(type->second.dtype))
        return true;
    }
    return false;
  }

  // --- options of ramet.torch.save ---

  void read_options(const Json& json) {
    at("extra/ramet.json");
    const auto take = [&](const char* name, std::string& to) {
      if (to.empty() && json.is_object() && json.contains(name)) to = text(json, name);
    };
    if (!json.is_object()) refuse_kind("ramet.json", json, "an object");
    if (module_.name == "module") module_.name.clear();
    take("name", module_.name), take("loss", module_.loss), take("loss_items", module_.loss_items);
    const auto texts = [&](const char* name, std::vector<std::string>& to) {
      if (!to.empty() || !json.contains(name)) return;
      for (const Json& one : list(json, name)) to.push_back(text_of(one, name));
    };
    texts("outputs", module_.outputs), texts("parts", module_.parts);
    if (module_.seed == 0 && json.contains("seed"))
      module_.seed = static_cast<uint64_t>(integer(field(json, "seed"), "seed"));
    if (module_.axes.empty() && json.contains("axes"))
      for (const Json& one : list(json, "axes")) read_axes(one);
    if (json.contains("trained")) {
      trained_.emplace();
      for (const Json& one : list(json, "trained")) trained_->insert(text_of(one, "trained"));
    }
    if (json.contains("storage"))
      for (const auto& [name, key] : object(json, "storage").items()) storages_[name] = text_of(key, "storage");
    at("");
  }
  /// ["pattern", ["axis", ["axis", blocks], ...]]
  void read_axes(const Json& pair) {
    if (!pair.is_array() || pair.size() != 2 || !pair[1].is_array()) refuse_kind("axes", pair, "[pattern, axes]");
    std::vector<LogicalAxis> axes;
    for (const Json& axis : pair[1]) {
      if (axis.is_array() && axis.size() == 2)
        axes.push_back({text_of(axis[0], "axes"), integer(axis[1], "axes"), 0});
      else
        axes.push_back({text_of(axis, "axes"), 1, 0});
      if (axes.back().blocks < 1) refuse("an axis of no blocks", std::to_string(axes.back().blocks));
    }
    module_.axes.emplace_back(text_of(pair[0], "axes"), std::move(axes));
  }

  // --- names of outputs ---

  /// The keys of dictionaries and the places in lists of what forward returned.
  void read_output_names(const Json& model) {
    const Json* calls = find(find(&model, "graph_module"), "module_call_graph");
    if (!calls || !calls->is_array() || calls->empty()) return;
    const Json* spec = find(find(&(*calls)[0], "signature"), "out_spec");
    if (!spec || !spec->is_string()) return;
    const Json tree = parse_torch_text(spec->get<std::string>(), source_ + " out_spec");
    if (tree.is_array() && tree.size() == 2) add_names(tree[1], "", 0);
    // One output without a structure keeps its default name.
    if (module_.outputs.size() == 1 && module_.outputs[0].empty()) module_.outputs.clear();
  }
  static const Json* find(const Json* of, const char* name) {
    if (!of || !of->is_object()) return nullptr;
    const auto found = of->find(name);
    return found == of->end() ? nullptr : &*found;
  }
  void add_names(const Json& tree, const std::string& name, int depth) {
    const Json *children = find(&tree, "children_spec"), *context = find(&tree, "context");
    if (depth > kMostDepth || !children || !children->is_array()) return;
    const Json* type = find(&tree, "type");
    if (!type || type->is_null() || children->empty()) {
      if (!type || type->is_null()) module_.outputs.push_back(name);
      return;
    }
    // The context of a dictionary is the text of a list of keys.
    Json keys;
    if (context && context->is_string()) keys = Json::parse(context->get<std::string>(), nullptr, false);
    for (size_t i = 0; i < children->size(); ++i) {
      const bool named = keys.is_array() && keys.size() == children->size() && keys[i].is_string();
      const std::string own = named ? keys[i].get<std::string>() : (depth == 0 ? "output_" : "") + std::to_string(i);
      add_names((*children)[i], name.empty() ? own : name + "." + own, depth + 1);
    }
  }

  // --- tensors ---

  void read_tensors(const std::string& folder, const std::string& config) {
    if (!zip_.has(folder_ + config)) return;
    const Json root = json(config);
    at(config);
    for (const auto& [name, payload] : object(root, "config").items()) {
      at(config + ": '" + name + "'");
      if (flag(field(payload, "use_pickle"), "use_pickle"))
        refuse("a tensor is stored as a pickle, which is a program", "", "raw numbers",
               "Make the parameter or buffer a plain dense tensor");
      const std::string path = text(payload, "path_name");
      const Json& meta = object(payload, "tensor_meta");
      ModuleTensor tensor;
      tensor.name = name;
      tensor.storage = folder + path + "@" + std::to_string(size_of_union(field(meta, "storage_offset")));
      if (const auto storage = storages_.find(name); storage != storages_.end()) tensor.storage = storage->second;
      const bool gradient = flag(field(meta, "requires_grad"), "requires_grad");
      tensor.trained = trained_ ? trained_->count(name) != 0 : gradient;
      tensor.data = TensorData(read_tensor(meta, folder_ + folder + path));
      module_.tensors.push_back(std::move(tensor));
    }
    at("");
  }

  /// Tensors in the order of the program's inputs: that of the module, which a JSON object does not keep.
  void order_tensors(const TracedProgram& program) {
    std::map<std::string, size_t> places;
    for (const TracedInput& input : program.inputs) places.emplace(input.target, places.size());
    const auto place = [&](const ModuleTensor& tensor) {
      const auto found = places.find(tensor.name);
      return found == places.end() ? places.size() : found->second;
    };
    std::stable_sort(module_.tensors.begin(), module_.tensors.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
  }

  int64_t size_of_union(const Json& size) const {
    const auto [kind, value] = member(size, "sizes");
    if (kind != "as_int") refuse("a stored tensor of no fixed size", std::string(kind));
    const int64_t extent = integer(value, kind);
    if (extent < 0) refuse("a stored tensor of a negative size", std::to_string(extent));
    return extent;
  }

  HostTensor read_tensor(const Json& meta, const std::string& entry) const {
    const TorchDType& scalar = scalar_type(field(meta, "dtype"));
    if (!scalar.dtype) refuse("a stored tensor of an element type that is not supported", scalar.name);
    std::vector<int64_t> dims, strides;
    for (const Json& size : list(meta, "sizes")) dims.push_back(size_of_union(size));
    for (const Json& stride : list(meta, "strides")) strides.push_back(size_of_union(stride));
    if (strides.size() != dims.size() || dims.size() > 64) refuse("a stored tensor has other strides than dimensions");
    const TensorType type{*scalar.dtype, Shape(dims)};
    const auto element = static_cast<int64_t>(size_of(type.dtype));
    const int64_t elements = type.bytes() / element, offset = size_of_union(field(meta, "storage_offset"));
    const uint64_t stored = zip_.size(entry);
    if (elements == 0) return HostTensor(type);
    // The last element that the strides reach lies in the file. No step of the sum can overflow.
    const auto most = static_cast<int64_t>(std::min<uint64_t>(stored, INT64_MAX)) / element;
    int64_t last = offset;
    for (size_t i = 0; i < dims.size() && last < most; ++i)
      last = strides[i] != 0 && dims[i] - 1 > (most - 1 - last) / strides[i] ? most : last + (dims[i] - 1) * strides[i];
    if (last >= most)
      refuse("a stored tensor is longer than its part of the file",
             type.text() + ", " + std::to_string(stored) + " bytes", "",
             "The file may be cut short: compare its size with where it came from");
    const std::string bytes = zip_.read(entry, stored);
    // A broadcast tensor has more elements than the file; more than this is no tensor of a module.
    if (type.bytes() / 1024 > static_cast<int64_t>(bytes.size()) + kMostDepth)
      refuse("a stored tensor is far larger than its part of the file", type.text());
    HostTensor tensor(type);
    if (strides == type.shape.strides()) {
      std::memcpy(tensor.data.data(), bytes.data() + offset * element, static_cast<size_t>(type.bytes()));
      return tensor;
    }
    std::vector<int64_t> at(dims.size(), 0);
    int64_t from = offset;
    for (int64_t i = 0; i < elements; ++i) {
      std::memcpy(tensor.data.data() + i * element, bytes.data() + from * element, static_cast<size_t>(element));
      for (size_t d = dims.size(); d-- > 0;) {  // the next index, as an odometer counts
        from += strides[d];
        if (++at[d] < dims[d]) break;
        from -= at[d] * strides[d];
        at[d] = 0;
      }
    }
    return tensor;
  }

  const ZipFile& zip_;
  std::string source_, folder_{};
  TracedModule module_;
  std::optional<std::set<std::string>> trained_{};
  std::map<std::string, std::string> storages_{};
};

constexpr const char* kExpected = "a .pt2 file as torch.export.save writes it";

}  // namespace

bool is_zip_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char first[4] = {};
  file.read(first, sizeof first);
  return file && std::string_view(first, sizeof first) == "PK\x03\x04";
}

TracedModule read_pt2(const std::filesystem::path& path, TracedModule options) {
  const ZipFile zip(path, kExpected);
  return Pt2Reader(zip, path.string(), std::move(options)).run(path.stem().string());
}

std::string recipe_of_pt2(const std::filesystem::path& path) {
  const ZipFile zip(path, kExpected);
  return Pt2Reader(zip, path.string(), {}).recipe();
}

TracedModule parse_pt2(std::string_view file, const std::string& source, TracedModule options) {
  const ZipFile zip(file.data(), file.size(), source, kExpected);
  return Pt2Reader(zip, source, std::move(options)).run("module");
}

}  // namespace ramet::front
