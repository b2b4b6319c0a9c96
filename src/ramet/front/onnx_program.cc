#include "ramet/front/onnx_program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/fuse_graph.h"
#include "ramet/front/onnx_tensor.h"

namespace ramet::front {
namespace {

/// One attempt with some inputs as constants.
class Attempt {
 public:
  Attempt(const OnnxModel& model, const OnnxFeeds& feeds, const OnnxImporter::Options& options,
          const std::set<std::string>& known)
      : model_(model), feeds_(feeds), known_(known), importer_(model, made_.graph, options) {
    made_.specialized = known;
  }

  /// Whether all nodes were translated.
  bool run() {
    std::set<std::string> initialized;
    for (const OnnxTensor& tensor : model_.graph.initializers) {
      if (!initialized.insert(tensor.name).second)
        throw FormatError({.what = "two initializers have one name", .found = "'" + tensor.name + "'"});
      if (feeds_.count(tensor.name) == 0)
        importer_.give(tensor.name, ops::constant(importer_.build(), TensorData(importer_.read(tensor))));
    }
    std::set<std::string> names;
    for (const OnnxValueInfo& input : model_.graph.inputs) {
      if (!names.insert(input.name).second)
        throw FormatError({.what = "two inputs have one name", .found = "'" + input.name + "'"});
      const auto feed = feeds_.find(input.name);
      if (feed != feeds_.end())
        give(input, feed->second);
      else if (!initialized.count(input.name))
        importer_.give(input.name, OnnxValue());
    }
    importer_.run();
    return importer_.refusals().empty();
  }

  /// Inputs that would help as constants.
  std::set<std::string> missing() const {
    std::set<std::string> more;
    for (const std::string& name : importer_.needed())
      if (const auto found = made_.inputs.find(name); found != made_.inputs.end())
        if (!known_.count(found->second.first)) more.insert(found->second.first);
    return more;
  }

  OnnxProgram finish(const std::string& source) {
    if (!importer_.refusals().empty()) throw_refusals(source, importer_.refusals(), "model");
    for (const OnnxValueInfo& output : model_.graph.outputs) {
      const OnnxValue value = importer_.value(output.name);
      OnnxProgram::Output made{.name = output.name};
      if (value.list) {
        made.kind = OnnxFeed::Kind::kSequence;
        for (size_t i = 0; i < value.list->size(); ++i)
          add_output(made, output.name + "." + std::to_string(i), (*value.list)[i]);
      } else if (value.tensor.valid()) {
        add_output(made, output.name, value.tensor);
      } else if (output.kind == OnnxValueInfo::Kind::kOptional) {
        made.kind = OnnxFeed::Kind::kNothing;
      } else {
        throw FormatError({.what = "an output of the model is never made", .found = "'" + output.name + "'"});
      }
      made_.outputs.push_back(std::move(made));
    }
    if (model_.producer != "ramet") made_.graph = fuse_graph(made_.graph);
    return std::move(made_);
  }

 private:
  void add_output(OnnxProgram::Output& made, const std::string& name, Tensor tensor) {
    if (made_.graph.find_output(name))
      throw FormatError({.what = "two outputs of the model have one name", .found = "'" + name + "'"});
    importer_.build().output(name, tensor);
    made.results.push_back(name);
  }

  void give(const OnnxValueInfo& input, const OnnxFeed& feed) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < feed.tensors.size(); ++i) {
      const HostTensor& tensor = feed.tensors[i];
      if (known_.count(input.name)) {
        parts.push_back(ops::constant(importer_.build(), TensorData(tensor)));
        continue;
      }
      const std::string name =
          feed.kind == OnnxFeed::Kind::kSequence ? input.name + "." + std::to_string(i) : input.name;
      std::vector<std::string> axes(static_cast<size_t>(tensor.type.shape.rank()));
      parts.push_back(importer_.build().input(name, tensor.type.dtype, tensor.type.shape, std::move(axes)));
      made_.inputs[name] = {input.name, i};
    }
    if (feed.kind == OnnxFeed::Kind::kSequence)
      importer_.give(input.name, OnnxValue(std::move(parts)));
    else
      importer_.give(input.name, parts.empty() ? OnnxValue() : OnnxValue(parts[0]));
  }

  const OnnxModel& model_;
  const OnnxFeeds& feeds_;
  std::set<std::string> known_;
  OnnxProgram made_{};
  OnnxImporter importer_;
};

}  // namespace

OnnxProgram import_onnx_program(const OnnxModel& model, const OnnxFeeds& feeds, OnnxImporter::Options options) {
  std::set<std::string> known;
  for (;;) {
    Attempt attempt(model, feeds, options, known);
    if (attempt.run()) return attempt.finish(options.source);
    const std::set<std::string> more = attempt.missing();
    if (more.empty()) return attempt.finish(options.source);
    known.insert(more.begin(), more.end());
  }
}

OnnxFeed read_onnx_feed(const std::filesystem::path& path, const OnnxValueInfo& like) {
  using Kind = OnnxValueInfo::Kind;
  const std::string file = read_file(path);
  const std::string source = (path.parent_path().filename() / path.filename()).string();
  const auto read = [&](const OnnxTensor& tensor) { return read_onnx_tensor(tensor, path.parent_path(), source); };
  OnnxFeed made;
  const auto sequence = [&](const OnnxSequence& from) {
    if (from.holds_others)
      throw UnsupportedOp({.what = "sequences of anything but tensors are not supported", .where = source});
    made.kind = OnnxFeed::Kind::kSequence;
    for (const OnnxTensor& tensor : from.tensors) made.tensors.push_back(read(tensor));
  };
  if (like.kind == Kind::kOther)
    throw UnsupportedOp({.what = "the type of a value is not supported", .where = source, .expected = "a tensor"});
  if (like.kind == Kind::kSequence) {
    sequence(parse_onnx_sequence(file, source));
  } else if (like.kind == Kind::kOptional) {
    const OnnxOptional optional = parse_onnx_optional(file, source);
    if (optional.sequence)
      sequence(*optional.sequence);
    else if (optional.tensor)
      made.tensors.push_back(read(*optional.tensor));
    else
      made.kind = OnnxFeed::Kind::kNothing;
  } else {
    made.tensors.push_back(read(parse_onnx_tensor(file, source)));
  }
  return made;
}

namespace {

std::string compare_tensors(const HostTensor& found, const HostTensor& expected, double relative, double absolute) {
  if (found.type != expected.type) return "the type is " + found.type.text() + ", not " + expected.type.text();
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    bool same = false;
    if (!is_floating(expected.type.dtype)) {
      const int64_t a = load_integer(found.data.data(), found.type.dtype, i),
                    b = load_integer(expected.data.data(), found.type.dtype, i);
      same = a == b || (found.type.dtype != DType::kBool &&
                        std::fabs(found.get(i) - expected.get(i)) <= absolute + relative * std::fabs(expected.get(i)));
    } else {
      const double a = found.get(i), b = expected.get(i);
      same = a == b || (std::isnan(a) && std::isnan(b)) ||
             (std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= absolute + relative * std::fabs(b));
    }
    if (same) continue;
    ++wrong;
    if (first < 0) first = i;
  }
  if (wrong == 0) return "";
  char text[160];
  std::snprintf(text, sizeof text, "%lld of %lld elements differ; element %lld is %.9g, not %.9g",
                static_cast<long long>(wrong), static_cast<long long>(expected.elements()),
                static_cast<long long>(first), found.get(first), expected.get(first));
  return text;
}

}  // namespace

std::string compare_onnx(const OnnxFeed& found, const OnnxFeed& expected, double relative, double absolute) {
  if (found.kind != expected.kind) return "one of the values is no sequence, or nothing";
  if (found.tensors.size() != expected.tensors.size())
    return "a sequence has " + std::to_string(found.tensors.size()) + " elements, not " +
           std::to_string(expected.tensors.size());
  for (size_t i = 0; i < found.tensors.size(); ++i)
    if (const std::string differs = compare_tensors(found.tensors[i], expected.tensors[i], relative, absolute);
        !differs.empty())
      return differs;
  return "";
}

}  // namespace ramet::front
