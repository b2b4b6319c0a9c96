#include "ramet/model/model_file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <system_error>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/model/model_text.h"
#include "ramet/weights/safetensors.h"

namespace ramet::model {
namespace {

namespace fs = std::filesystem;

// The line between text and tensors: this and the number of bytes that follow it. No line of the text begins so, as
// texts in quotes have no line ends and graphs are indented.
constexpr std::string_view kTensors = "\ntensors ";

/// The state with the values of its function as data.
StateTensor with_values(StateTensor state) {
  if (state.init.kind != StateInit::Kind::kFunction) return state;
  if (!state.init.of_element)
    throw Error({.what = "the function that gives a state's first values is missing",
                 .where = "state '" + state.name + "'",
                 .found = "'" + state.init.function + "'"});
  HostTensor values(state.type);
  const int64_t elements = state.unpadded().elements();
  for (int64_t i = 0; i < elements; ++i) values.set(i, state.init.of_element(i));
  state.init = StateInit::from(TensorData(std::move(values)));
  return state;
}

/// The large tensors of a model, each once.
class LargeTensors {
 public:
  explicit LargeTensors(const Model& model) {
    for (const std::vector<StateTensor>* states : {&model.weights, &model.states})
      for (const StateTensor& state : *states)
        if (state.init.data) add(*state.init.data);
    add(model.forward), add(model.evaluate);
    for (const NamedGraph& program : model.programs) add(program.graph);
  }
  const std::vector<TensorData>& all() const { return all_; }

 private:
  void add(const Graph& graph) {
    for (const Node& node : graph.nodes())
      for (const auto& [name, attribute] : node.attributes)
        if (const auto* data = std::get_if<TensorData>(&attribute)) add(*data);
  }
  void add(const TensorData& data) {
    if (!is_printed_whole(data) && seen_.emplace(data.hash().hex(), true).second) all_.push_back(data);
  }
  std::vector<TensorData> all_;
  std::map<std::string, bool> seen_;
};

void write_pieces(FileWriter& file, const std::string& text, const std::vector<TensorData>& tensors,
                  const std::string& source) {
  file.write(text);
  if (!tensors.empty()) {
    std::vector<SafetensorsSpec> specs;
    uint64_t bytes = 0;
    for (const TensorData& data : tensors) {
      specs.push_back({data.hash().hex(), data.type()});
      bytes += data.bytes().size();
    }
    const std::string head = safetensors_head(specs, source);
    file.write(kTensors.substr(1));
    file.write(std::to_string(head.size() + bytes) + "\n" + head);
    for (const TensorData& data : tensors) file.write(data.bytes().data(), data.bytes().size());
  }
  file.close();
}

/// Text and tensors of a file; of one without large tensors the latter are nothing.
std::pair<std::string_view, std::string_view> split(std::string_view file, const std::string& source) {
  if (!file.starts_with("ramet model "))
    throw FormatError({.what = "this is no file of a model",
                 .where = source,
                 .found = "another beginning",
                 .expected = "'ramet model " + std::to_string(kModelTextVersion) + "'",
                 .remedy = "save_model (ramet/model/model_file.h) writes such files"});
  const size_t at = file.find(kTensors);
  if (at == std::string_view::npos) return {file, {}};
  const std::string_view text = file.substr(0, at + 1), rest = file.substr(at + kTensors.size());
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  const auto begin = static_cast<size_t>(end - rest.data()) + 1;
  if (error != std::errc() || begin > rest.size() || *end != '\n' || bytes != rest.size() - begin)
    throw FormatError({.what = "the tensors of the file are cut short or damaged",
                 .where = source + ":" + std::to_string(std::count(text.begin(), text.end(), '\n') + 1),
                 .found = std::to_string(rest.size() - std::min(begin, rest.size())) + " bytes",
                 .expected = std::to_string(bytes)});
  return {text, rest.substr(begin)};
}

std::map<std::string, TensorData> tensors_of(std::string_view bytes, const std::string& source) {
  std::map<std::string, TensorData> tensors;
  if (bytes.empty()) return tensors;
  const std::string where = source + ", its tensors";
  const SafetensorsHeader header = parse_safetensors_header(bytes, where);
  for (const SafetensorsEntry& entry : header.tensors) {
    HostTensor tensor;
    tensor.type = entry.type;
    tensor.data.resize(entry.end - entry.begin);
    if (!tensor.data.empty())
      std::memcpy(tensor.data.data(), bytes.data() + header.data_offset + entry.begin, tensor.data.size());
    TensorData data(std::move(tensor));
    if (data.hash().hex() != entry.name)
      throw FormatError({.what = "the bytes of a tensor are damaged",
                   .where = where,
                   .found = "hash " + data.hash().hex(),
                   .expected = entry.name.substr(0, 64)});
    tensors.emplace(entry.name, std::move(data));
  }
  return tensors;
}

}  // namespace

void save_model(const fs::path& path, const Model& given, const Units& units) {
  Model model = given;
  for (std::vector<StateTensor>* states : {&model.weights, &model.states})
    for (StateTensor& state : *states) state = with_values(std::move(state));
  std::string text = print_model(model, units);
  text += "checksum \"" + hash_text(text).hex() + "\"\n";
  const fs::path aside = path.string() + ".part";
  std::error_code error;
  try {
    FileWriter file(aside);
    write_pieces(file, text, LargeTensors(model).all(), path.string());
    fs::rename(aside, path, error);
    if (error)
      throw Error({.what = "cannot put the file in place", .where = path.string(), .found = error.message()},
                  ErrorKind::kFailure);
  } catch (...) {
    fs::remove(aside, error);
    throw;
  }
  sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

std::pair<Model, Units> parse_model(std::string_view file, const std::string& source) {
  const auto [text, bytes] = split(file, source);
  const std::map<std::string, TensorData> tensors = tensors_of(bytes, source);
  return parse_model_text(text, source, [&](const std::string& hash) {
    const auto found = tensors.find(hash);
    return found == tensors.end() ? nullptr : &found->second;
  });
}

std::pair<Model, Units> load_model(const fs::path& path) {
  const MappedFile file(path);
  return parse_model(file.view(), path.string());
}

}  // namespace ramet::model
