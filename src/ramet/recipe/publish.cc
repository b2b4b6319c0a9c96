#include "ramet/recipe/publish.h"

#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/hugging_face.h"
#include "ramet/recipe/kinds.h"

namespace ramet::recipe {
namespace {

namespace fs = std::filesystem;

void save_tokenizer(const fs::path& folder, const Tokenizer& tokenizer, const std::string& tokenizer_class) {
  tokenizer.save(folder);
  if (tokenizer_class.empty()) return;
  const fs::path path = folder / "tokenizer_config.json";
  auto config = nlohmann::ordered_json::parse(read_file(path));
  config["tokenizer_class"] = tokenizer_class;
  write_file_atomic(path, config.dump(2) + "\n");
}

}  // namespace

std::string published_class(const Recipe& recipe) { return kind_of(recipe).published(recipe, nullptr).architecture; }

void publish_model(const fs::path& folder, const Recipe& recipe, const std::vector<StateTensor>& weights,
                   const Tokenizer* tokenizer,
                   const std::function<void(const std::string& name, std::span<std::byte> bytes)>& read) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    throw Error({.what = "cannot make the folder", .where = folder.string(), .found = error.message()}, ErrorKind::kFailure);
  const PublishedModel model = kind_of(recipe).published(recipe, tokenizer);
  write_file_atomic(folder / "config.json", print_published_config(model.config, model.architecture, model.regression));
  if (tokenizer) save_tokenizer(folder, *tokenizer, model.tokenizer_class);
  const fs::path aside = folder / "model.safetensors.part";
  export_weights(aside, weights, read);
  fs::rename(aside, folder / "model.safetensors", error);
  if (error)
    throw Error({.what = "cannot write the weights", .where = folder.string(), .found = error.message()}, ErrorKind::kFailure);
}

}  // namespace ramet::recipe
