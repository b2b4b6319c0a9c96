#include "ramet/front/open_model.h"

#include <sstream>

#include "ramet/base/file.h"
#include "ramet/front/onnx_model.h"
#include "ramet/front/pt2.h"
#include "ramet/model/model_file.h"

namespace ramet::front {

namespace {

/// "bert.onnx?batch=16&loss=logits" as the file and what stands behind the mark; without a mark the file alone.
std::pair<std::string, std::string> split_name(std::string_view path) {
  const size_t mark = path.find(".onnx?");
  if (mark == std::string_view::npos) return {std::string(path), ""};
  return {std::string(path.substr(0, mark + 5)), std::string(path.substr(mark + 6))};
}

/// NAME=NUMBER, loss=LOSS, train=PATTERN, freeze=PATTERN, with & between.
void read_options(const std::string& text, OnnxModelOptions& options) {
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, '&');) {
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "loss")
      options.loss = value;
    else if (key == "train")
      options.train.push_back(value);
    else if (key == "freeze")
      options.freeze.push_back(value);
    else
      for (const auto& [name, extent] : parse_onnx_bind(item)) options.bind[name] = extent;
  }
}

}  // namespace

bool is_model_file_name(std::string_view path) {
  return path.ends_with(".ramet") || path.ends_with(".pt2") || is_onnx_file_name(split_name(path).first);
}

std::pair<model::Model, model::Units> open_model(const std::filesystem::path& path, OnnxModelOptions onnx) {
  const auto [file, options] = split_name(path.string());
  if (is_onnx_file_name(file)) {
    read_options(options, onnx);
    return {import_onnx_model(file, onnx).model, Units{}};
  }
  if (!is_zip_file(path)) return load_model(path);
  return {import_module(read_pt2(path)).model, Units{}};
}

std::string recipe_of_model(const std::filesystem::path& path) { return is_zip_file(path) ? recipe_of_pt2(path) : ""; }

void keep_model(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (is_onnx_file_name(split_name(from.string()).first)) {
    const auto [model, units] = open_model(from);
    return save_model(to, model, units);
  }
  write_file_atomic(to, MappedFile(from).view());
}

}  // namespace ramet::front
