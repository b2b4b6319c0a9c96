#include "ramet/front/onnx_update.h"

#include <cstring>
#include <vector>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_external.h"
#include "ramet/front/onnx_tensor.h"

namespace ramet::front {
namespace {

namespace fs = std::filesystem;

/// Bytes that change in a file.
struct Change {
  uint64_t offset;
  const HostTensor* tensor;
};

void write_changed(const fs::path& to, std::string_view file, const std::vector<Change>& changes) {
  std::string changed(file);
  for (const Change& change : changes)
    if (!change.tensor->data.empty())
      std::memcpy(changed.data() + change.offset, change.tensor->data.data(), change.tensor->data.size());
  write_file_atomic(to, changed);
}

}  // namespace

int64_t update_onnx_weights(const fs::path& from, const fs::path& to,
                            const std::map<std::string, HostTensor>& tensors) {
  const MappedFile file(from);
  const OnnxModel model = parse_onnx(file.view(), from.string());
  const fs::path folder = from.parent_path().empty() ? fs::path(".") : from.parent_path();
  const fs::path target = to.parent_path().empty() ? fs::path(".") : to.parent_path();
  std::vector<Change> inside;
  std::map<std::string, std::vector<Change>> outside;
  int64_t count = 0;
  for (const OnnxTensor& tensor : model.graph.initializers) {
    const auto found = tensors.find(tensor.name);
    const std::string where = from.string() + ", tensor '" + tensor.name + "'";
    if (tensor.external && found == tensors.end()) outside[external_location(tensor, where)];
    if (found == tensors.end()) continue;
    const TensorType type{checked_onnx_dtype(tensor.type, where), onnx_shape(tensor, from.string())};
    if (found->second.type != type)
      throw Error({.what = "a weight is of another type than the initializer of its name",
                   .where = where,
                   .found = found->second.type.text(),
                   .expected = type.text()});
    ++count;
    if (tensor.external) {
      (void)read_external(tensor, type, folder, where);  // checks the place
      outside[external_location(tensor, where)].push_back({external_offset(tensor, where), &found->second});
      continue;
    }
    const std::string_view bytes = tensor.raw ? *tensor.raw : tensor.packed_floats;
    if (bytes.size() != found->second.data.size())
      throw Error({.what = "an initializer's numbers stand in a form that cannot be changed in place", .where = where});
    inside.push_back({static_cast<uint64_t>(bytes.data() - file.data()), &found->second});
  }
  std::error_code error;
  fs::create_directories(target, error);
  if (!outside.empty() && fs::equivalent(folder, target, error))
    throw Error({.what = "the copy of a model with external data needs a folder of its own",
                 .where = to.string(),
                 .remedy = "Name a file in another folder"});
  for (const auto& [location, changes] : outside) {
    const MappedFile data(folder / location);
    fs::create_directories((target / location).parent_path(), error);
    write_changed(target / location, data.view(), changes);
  }
  write_changed(to, file.view(), inside);
  return count;
}

}  // namespace ramet::front
