#include "ramet/front/open_model.h"

#include "ramet/front/onnx_model.h"
#include "ramet/front/pt2.h"
#include "ramet/model/model_file.h"

namespace ramet::front {

bool is_model_file_name(std::string_view path) {
  return path.ends_with(".ramet") || path.ends_with(".pt2") || is_onnx_file_name(path);
}

std::pair<model::Model, model::Units> open_model(const std::filesystem::path& path, const OnnxModelOptions& onnx) {
  if (is_onnx_file_name(path.string())) return {import_onnx_model(path, onnx).model, Units{}};
  if (!is_zip_file(path)) return load_model(path);
  return {import_module(read_pt2(path)).model, Units{}};
}

}  // namespace ramet::front
