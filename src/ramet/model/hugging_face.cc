#include "ramet/model/hugging_face.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "ramet/base/error.h"
#include "ramet/model/bert_names.h"
#include "ramet/weights/safetensors.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::model {
namespace {

/// Prefixes of the part of a model that all its uses share; files of that part alone leave it out.
constexpr std::array<std::string_view, 4> kPrefixes = {"bert.", "roberta.", "distilbert.", "transformer."};

/// Beginnings of the names of heads, without a prefix. Those of a task may be missing in a file of a pre-trained model.
constexpr std::array<std::string_view, 7> kTaskHeads = {
    "classifier.", "pre_classifier.", "qa_outputs.", "pooler.dense.", "fc.", "head.", "outc."};
constexpr std::array<std::string_view, 5> kPretrainingHeads = {"cls.", "lm_head.", "vocab_transform.",
                                                               "vocab_layer_norm.", "vocab_projector."};

/// Tensors that published files carry and that hold nothing of their own: tied copies, masks, position numbers.
constexpr std::array<std::string_view, 10> kRedundant = {"cls.predictions.decoder.weight",
                                                         "cls.predictions.decoder.bias",
                                                         "lm_head.decoder.weight",
                                                         "lm_head.decoder.bias",
                                                         "vocab_projector.weight",
                                                         ".attn.bias",
                                                         ".attn.masked_bias",
                                                         "embeddings.position_ids",
                                                         "embeddings.token_type_ids",
                                                         ".num_batches_tracked"};

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

template <size_t N>
bool is_among(std::string_view name, const std::array<std::string_view, N>& heads) {
  const std::string_view bare = without_prefix(name);
  return std::any_of(heads.begin(), heads.end(), [&](std::string_view head) { return bare.starts_with(head); });
}

bool is_redundant(const std::string& name) {
  // A tied head has the words' table as its matrix: that of GPT-2 has no other name.
  return name == "lm_head.weight" || std::any_of(kRedundant.begin(), kRedundant.end(),
                                                 [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace

std::vector<std::string> file_names(const std::string& weight) {
  for (const JoinedWeight& joined : kJoinedWeights) {
    const size_t at = weight.find(joined.whole);
    if (at == std::string::npos) continue;
    std::vector<std::string> names;
    for (const std::string_view part : joined.parts)
      names.push_back(weight.substr(0, at) + std::string(part) + weight.substr(at + joined.whole.size()));
    return names;
  }
  return {weight};
}

namespace {

/// The part of a weight that a tensor of the file has.
TensorType file_type(const StateTensor& weight, size_t parts) {
  const TensorType type = weight.unpadded();
  if (parts == 1) return type;
  std::vector<int64_t> dims = type.shape.dims();
  dims[0] /= static_cast<int64_t>(parts);
  return {type.dtype, Shape(dims)};
}

bool replace_suffix(std::string& name, std::string_view from, std::string_view to) {
  if (!name.ends_with(from)) return false;
  name.replace(name.size() - from.size(), from.size(), to);
  return true;
}

/// Tensors of a file by name.
class Lookup {
 public:
  explicit Lookup(const TensorFile& file) {
    for (const StoredTensor& tensor : file.tensors()) by_name_.emplace(tensor.name, &tensor);
  }
  /// The tensor under any of the names that published files use for it.
  const StoredTensor* find(const std::string& name) const {
    std::vector<std::string> candidates = {name};
    if (const std::string_view bare = without_prefix(name); bare.size() < name.size()) candidates.emplace_back(bare);
    for (size_t i = 0, count = candidates.size(); i < count; ++i) {
      std::string old = candidates[i];
      if (old.find("LayerNorm") != std::string::npos &&
          (replace_suffix(old, ".weight", ".gamma") || replace_suffix(old, ".bias", ".beta")))
        candidates.push_back(old);
    }
    for (const auto& candidate : candidates)
      if (const auto found = by_name_.find(candidate); found != by_name_.end()) return found->second;
    return nullptr;
  }

 private:
  std::map<std::string_view, const StoredTensor*> by_name_;
};

struct Source {
  const StateTensor* weight;
  std::vector<const StoredTensor*> parts;
};

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 8; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 8) text += " and " + std::to_string(names.size() - 8) + " more";
  return text;
}

/// Finds where each weight comes from, and collects all that differs.
class Matcher {
 public:
  Matcher(const TensorFile& file, const std::vector<StateTensor>& weights) : file_(file), lookup_(file) {
    for (const StateTensor& weight : weights) match(weight);
    for (const StoredTensor& tensor : file.tensors()) {
      if (used_.count(&tensor) || is_redundant(tensor.name)) continue;
      (is_among(tensor.name, kTaskHeads) || is_among(tensor.name, kPretrainingHeads) ? result_.left_out : extra_)
          .push_back(tensor.name);
    }
    if (!missing_.empty() || !wrong_.empty() || !extra_.empty()) refuse();
  }
  std::vector<Source> sources;
  WeightMatch take() { return std::move(result_); }

 private:
  void match(const StateTensor& weight) {
    std::vector<std::string> names = file_names(weight.name);
    if (lookup_.find(weight.name)) names = {weight.name};
    Source source{&weight, {}};
    std::vector<std::string> missing, wrong;
    const Shape expected = file_type(weight, names.size()).shape;
    for (const auto& name : names) {
      const StoredTensor* tensor = lookup_.find(name);
      if (!tensor) {
        missing.push_back(name);
        continue;
      }
      if (tensor->shape != expected || !tensor->floating)
        wrong.push_back(name + " is " + tensor->text() + ", the model has " + expected.text());
      source.parts.push_back(tensor);
    }
    const bool differs = !missing.empty() || !wrong.empty();
    if (differs && (is_among(weight.name, kTaskHeads) || (weight.kind == StateKind::kDeferred && wrong.empty()))) {
      result_.drawn.push_back(weight.name);
      return;  // a tensor of another shape is then left out, too
    }
    used_.insert(source.parts.begin(), source.parts.end());
    missing_.insert(missing_.end(), missing.begin(), missing.end());
    wrong_.insert(wrong_.end(), wrong.begin(), wrong.end());
    sources.push_back(std::move(source));
  }

  [[noreturn]] void refuse() const {
    std::string found;
    if (!missing_.empty()) found += "missing: " + list_of(missing_);
    if (!wrong_.empty()) found += (found.empty() ? "" : "; ") + ("of another shape: " + list_of(wrong_));
    if (!extra_.empty()) found += (found.empty() ? "" : "; ") + ("unknown to the model: " + list_of(extra_));
    throw Error({.what = "the file's tensors are not the model's",
                 .where = file_.path().string(),
                 .found = found,
                 .remedy = "Check model.kind, model.preset and model.vocabulary_size against the file"});
  }

  const TensorFile& file_;
  const Lookup lookup_;
  std::set<const StoredTensor*> used_;
  std::vector<std::string> missing_, wrong_, extra_;
  WeightMatch result_;
};

}  // namespace

std::vector<std::string> WeightMatch::remarks(const std::string& file) const {
  std::vector<std::string> texts;
  if (!drawn.empty()) texts.push_back("not in " + file + ", so they begin at random: " + list_of(drawn));
  if (!left_out.empty())
    texts.push_back("in " + file + ", but not in this model, so they are left out: " + list_of(left_out));
  return texts;
}

bool is_task_head(const std::string& weight) { return is_among(weight, kTaskHeads); }

WeightMatch match_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights) {
  return Matcher(*open_tensor_file(path), weights).take();
}

WeightMatch import_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                           const std::function<void(const std::string&, std::span<const std::byte>)>& write) {
  const auto file = open_tensor_file(path);
  Matcher matcher(*file, weights);
  std::vector<float> buffer;
  for (const Source& source : matcher.sources) {
    buffer.assign(static_cast<size_t>(source.weight->type.elements()), 0.0f);
    float* to = buffer.data();
    for (const StoredTensor* part : source.parts) {
      const auto count = static_cast<size_t>(part->shape.elements());
      file->read(*part, {to, count});
      to += count;
    }
    write(source.weight->name, std::as_bytes(std::span(buffer)));
  }
  return matcher.take();
}

void export_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                    const std::function<void(const std::string&, std::span<std::byte>)>& read) {
  std::vector<SafetensorsSpec> specs;
  for (const StateTensor& weight : weights) {
    const auto names = file_names(weight.name);
    for (const auto& name : names) specs.push_back({name, file_type(weight, names.size())});
  }
  SafetensorsWriter writer(path, specs, {{"format", "pt"}});
  std::vector<std::byte> buffer;
  for (const StateTensor& weight : weights) {
    buffer.resize(static_cast<size_t>(weight.type.bytes()));
    read(weight.name, buffer);
    // The parts of a joined weight follow each other both here and in the file; padding stands behind all.
    writer.write(buffer.data(), static_cast<size_t>(weight.unpadded().bytes()));
  }
  writer.close();
}

}  // namespace ramet::model
