// Recipes of networks that read images.
#include <charconv>
#include <cmath>

#include "ramet/model/array_file.h"
#include "ramet/model/vision.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/prepare.h"
#include "ramet/recipe/text_models.h"

namespace ramet::recipe {
namespace {

constexpr int64_t kSmall = 64;  // most pixels of a side of images that small stems and patches are for

VisionFamily family_of(const Recipe& recipe) { return *vision_family(recipe.model.kind); }
bool reads_masks(const Recipe& recipe) { return gives_masks(family_of(recipe)); }

/// Numbers with commas between, of the key named.
template <typename Number>
std::vector<Number> numbers_of(const Recipe& recipe, const std::string& key, const std::string& text) {
  std::vector<Number> numbers;
  const auto refuse = [&] {
    throw Error({.what = "not a list of numbers",
                 .where = recipe.where(key),
                 .found = "'" + text.substr(0, 100) + "'",
                 .expected = std::is_integral_v<Number> ? "as \"2,2,2,2\"" : "as \"0.5\" or \"0.485, 0.456, 0.406\""});
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string_view word = std::string_view(text).substr(at, end - at);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    Number number{};
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty() || error != std::errc() || rest != word.data() + word.size()) refuse();
    if constexpr (std::is_floating_point_v<Number>)
      if (!std::isfinite(number)) refuse();
    numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

/// The sets that a recipe's images come from. Null: there is none.
struct ImageSets {
  std::shared_ptr<const ImageSet> train, held_out;
  bool shared = false;  ///< the held-out images are a share of the others
};

std::shared_ptr<const ImageSet> open_file(const Recipe& recipe, const std::string& key, const std::string& file) {
  return for_key(recipe, key, [&] {
    return image_arrays(open_arrays(file), channel_axis_from_name(recipe.data.channels_at), file);
  });
}

/// Opens the files. Synthetic images need a complete recipe.
ImageSets open_sets(const Recipe& recipe) {
  const auto& data = recipe.data;
  ImageSets sets;
  sets.shared = data.held_out_share > 0;
  if (data.kind == "synthetic") {
    SyntheticImages options{.channels = *data.channels,
                            .height = *data.height,
                            .width = *data.width,
                            .classes = *recipe.model.classes,
                            .masks = reads_masks(recipe),
                            .seed = static_cast<uint64_t>(recipe.train.seed)};
    sets.train = make_synthetic_images(options);
    ++options.seed;
    sets.held_out = make_synthetic_images(options);
  } else if (data.kind == "mnist") {
    sets.train = for_key(recipe, "data.folder", [&] { return open_mnist(data.folder, "train"); });
    sets.held_out =
        sets.shared ? sets.train : for_key(recipe, "data.folder", [&] { return open_mnist(data.folder, "t10k"); });
  } else {
    if (!data.train.empty()) sets.train = open_file(recipe, "data.train", data.train);
    if (!data.held_out.empty()) sets.held_out = open_file(recipe, "data.held_out", data.held_out);
    if (sets.shared) sets.held_out = sets.train;
  }
  return sets;
}

/// The sizes of the sets. Throws Error where they lack what the network learns from, or have other channels.
void take_data_sizes(Recipe& recipe, const ImageSets& sets) {
  auto& data = recipe.data;
  for (const auto& [key, set] : {std::pair("data.train", sets.train.get()), {"data.held_out", sets.held_out.get()}}) {
    if (!set) continue;
    const std::string where = data.kind == "mnist" ? "data.folder" : key;
    const bool masks = reads_masks(recipe);
    if (masks ? !set->has_masks() : !set->has_labels())
      throw Error({.what = masks ? "a unet learns from masks, which the images do not have"
                                 : "the images have no labels to learn",
                   .where = recipe.where(where),
                   .expected = masks ? "an array 'masks' u8[N,H,W]" : "an array 'labels' of whole numbers [N]",
                   .remedy = masks && data.kind == "mnist" ? "Use data.kind = \"arrays\" or \"synthetic\"" : ""});
    fill(data.channels, set->channels());
    fill(data.height, set->height());
    fill(data.width, set->width());
    if (*data.channels != set->channels())
      throw Error({.what = "the images have another number of channels",
                   .where = recipe.where(recipe.places.count("data.channels") ? "data.channels" : where),
                   .found = std::to_string(*data.channels),
                   .expected = std::to_string(set->channels())});
  }
}

/// Classes of the data; at least 2.
int64_t data_classes(const ImageSets& sets) {
  int64_t classes = 2;
  for (const auto& set : {sets.train, sets.held_out})
    if (set) classes = std::max(classes, set->classes());
  return classes;
}

ImageTask task_of(const Recipe& recipe) {
  return {.micro_batch = recipe.train.micro_batch,
          .channels = *recipe.data.channels,
          .height = *recipe.data.height,
          .width = *recipe.data.width,
          .classes = *recipe.model.classes,
          .mean = numbers_of<double>(recipe, "data.mean", recipe.data.mean),
          .deviation = numbers_of<double>(recipe, "data.deviation", recipe.data.deviation),
          .label_smoothing = recipe.label_smoothing,
          .mixed = recipe.data.augment.mixes(),
          .seed = recipe.train.seed};
}

/// The sizes of a complete recipe.
VisionConfig config_of(const Recipe& recipe) {
  const auto& model = recipe.model;
  VisionConfig config = vision_preset(family_of(recipe), model.preset);
  config.blocks = numbers_of<int64_t>(recipe, "model.blocks", model.blocks);
  config.width = *model.width, config.patch = *model.patch, config.head_size = *model.head_size;
  config.small_stem = model.stem == "small";
  config.drop_path = *model.drop_path, config.head_dropout = *model.head_dropout, config.momentum = model.momentum;
  return config;
}

std::shared_ptr<const Source> make_source(const Recipe& recipe, const ImageSets& sets, bool training) {
  const std::shared_ptr<const ImageSet>& set = training ? sets.train : sets.held_out;
  if (!set) return nullptr;
  const auto& data = recipe.data;
  ImageOptions options{.height = *data.height, .width = *data.width};
  options.order = {.shuffle = training && data.shuffle,
                   .seed = static_cast<uint64_t>(recipe.train.seed),
                   .held_out = data.held_out_share,
                   .evaluation = !training};
  options.augmentation = data.augment;
  options.masks = reads_masks(recipe), options.labels = !options.masks;
  options.mixed = data.augment.mixes();
  options.classes = *recipe.model.classes;
  return for_key(recipe, training || sets.shared ? "data.train" : "data.held_out",
                 [&] { return make_image_source(set, options); });
}

/// What `act` makes; errors that name a key of the recipe get the key's line.
template <typename Act>
auto for_recipe(const Recipe& recipe, Act act) {
  try {
    return act();
  } catch (const Error& error) {
    if (!find_recipe_key(error.parts().where)) throw;
    ErrorParts parts = error.parts();
    parts.where = recipe.where(parts.where);
    throw Error(std::move(parts), error.kind());
  }
}

/// Networks for images, of presets.
class ImageKind final : public RecipeKind {
 public:
  std::string title() const override { return "network for images"; }
  std::vector<std::string> model_kinds() const override { return vision_kinds(); }
  bool takes(const Recipe& recipe) const override {
    return vision_family(recipe.model.kind).has_value() && !recipe.is_task();
  }
  std::vector<RecipeKey> keys() const override { return image_keys(); }
  bool keeps_its_keys() const override { return true; }
  bool reads_text() const override { return false; }
  std::vector<std::string> data_kinds() const override { return {"synthetic", "arrays", "mnist"}; }
  bool takes_any_batch(const Recipe& recipe) const override { return !has_batch_norms(family_of(recipe)); }
  std::vector<std::string> presets(const Recipe& recipe) const override {
    return vision_preset_names(family_of(recipe));
  }
  std::string default_preset(const Recipe& recipe) const override { return presets(recipe).front(); }

  void check(const Recipe& recipe) const override {
    check_held_out(recipe);
    if (recipe.data.kind == "synthetic" && recipe.data.held_out_share > 0)
      throw Error({.what = "synthetic images are endless: no share of them is held out",
                   .where = recipe.where("data.held_out_share"),
                   .remedy = "Leave the key out"});
    if (recipe.data.kind != "arrays")
      for (const auto& [key, value] :
           {std::pair("data.train", &recipe.data.train), {"data.held_out", &recipe.data.held_out}})
        if (!value->empty())
          throw Error({.what = "files of arrays are for data.kind = \"arrays\"",
                       .where = recipe.where(key),
                       .found = "data.kind = \"" + recipe.data.kind + "\"",
                       .remedy = "Change data.kind, or leave the key out"});
    if (!recipe.model.blocks.empty()) (void)numbers_of<int64_t>(recipe, "model.blocks", recipe.model.blocks);
    (void)numbers_of<double>(recipe, "data.mean", recipe.data.mean);
    (void)numbers_of<double>(recipe, "data.deviation", recipe.data.deviation);
    const Augmentation& augment = recipe.data.augment;
    if (reads_masks(recipe) && (augment.mixes() || augment.erase > 0 || recipe.label_smoothing > 0))
      throw Error({.what = "images with masks are not mixed, erased or smoothed",
                   .where = recipe.where(augment.mixup > 0    ? "data.augment.mixup"
                                         : augment.cutmix > 0 ? "data.augment.cutmix"
                                         : augment.erase > 0  ? "data.augment.erase"
                                                              : "train.label_smoothing"),
                   .found = "model.kind = \"" + recipe.model.kind + "\"",
                   .remedy = "Leave the key out"});
  }

  void complete(Recipe& recipe, int64_t) const override {
    const auto& data = recipe.data;
    if (data.kind != "synthetic" && !(data.channels && data.height && data.width && recipe.model.classes)) {
      const ImageSets sets = open_sets(recipe);
      take_data_sizes(recipe, sets);
      fill(recipe.model.classes, data_classes(sets));
    }
    fill_sizes(recipe);
  }

  OpenedData open(Recipe& recipe, Preparation&) const override {
    if (recipe.data.kind == "synthetic") fill_sizes(recipe);
    ImageSets sets = open_sets(recipe);
    take_data_sizes(recipe, sets);
    if (!recipe.model.classes) recipe.model.classes = data_classes(sets);
    return {.make_workload = [sets = std::move(sets)](Preparation& made) {
      Workload& workload = made.workload;
      const Recipe& complete = made.recipe;
      workload.train = make_source(complete, sets, true);
      workload.held_out = make_source(complete, sets, false);
      workload.units = {.name = "images", .per_sample = 1};
      workload.model = kind_of(complete).build_model(complete);
      if (!workload.train) return;
      settle_epochs(made.recipe, *workload.train);
      if (complete.data.kind != "synthetic") workload.data_identity = workload.train->identity().hex();
    }};
  }

  std::shared_ptr<const Source> open_request(const Recipe& complete, std::vector<ArrayColumn> arrays,
                                             const std::vector<InputSpec>& inputs,
                                             const std::string& source) const override {
    const auto images = image_arrays(std::move(arrays), channel_axis_from_name(complete.data.channels_at), source);
    if (images->channels() != *complete.data.channels)
      throw Error({.what = "the images have another number of channels than the model reads",
                   .where = source,
                   .found = std::to_string(images->channels()),
                   .expected = std::to_string(*complete.data.channels)});
    const auto reads = [&](const std::string& name) {
      return std::any_of(inputs.begin(), inputs.end(), [&](const InputSpec& input) { return input.name == name; });
    };
    ImageOptions options{.height = *complete.data.height, .width = *complete.data.width};
    options.order = {.shuffle = false, .evaluation = true};
    options.labels = reads("labels"), options.masks = reads("masks"), options.mixed = reads("other_labels");
    return make_image_source(images, options);
  }

  Model build_model(const Recipe& recipe) const override {
    return for_recipe(recipe, [&] { return build_vision(config_of(recipe), task_of(recipe)); });
  }

  Error without_samples(const Recipe& recipe, bool held_out) const override { return without_arrays(recipe, held_out); }

  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "no class of transformers has this network",
                 .where = recipe.where("model.kind"),
                 .found = recipe.model.kind,
                 .remedy = "Name FILE.safetensors for its weights, or FILE.ramet for the model with them"});
  }

 private:
  /// Fills in the sizes that need no data, or that the data has given.
  static void fill_sizes(Recipe& recipe) {
    auto& data = recipe.data;
    auto& model = recipe.model;
    if (model.preset.empty()) model.preset = kind_of(recipe).default_preset(recipe);
    const int64_t side = data.height ? *data.height : data.width ? *data.width : model.stem == "small" ? 32 : 224;
    fill(data.channels, int64_t{3});
    fill(data.height, data.width.value_or(side));
    fill(data.width, *data.height);
    const bool small = std::max(*data.height, *data.width) <= kSmall;
    if (model.stem.empty()) model.stem = small ? "small" : "large";
    const VisionConfig preset = vision_preset(family_of(recipe), model.preset);
    if (model.blocks.empty())
      for (const int64_t blocks : preset.blocks)
        model.blocks += (model.blocks.empty() ? "" : ",") + std::to_string(blocks);
    fill(model.width, preset.width);
    fill(model.patch, small ? int64_t{4} : preset.patch);
    fill(model.head_size, preset.head_size);
    fill(model.drop_path, preset.drop_path);
    fill(model.head_dropout, preset.head_dropout);
    fill(model.classes, reads_masks(recipe) ? int64_t{4} : small ? int64_t{10} : int64_t{1000});
  }
};

}  // namespace

const RecipeKind& image_kind() {
  static const ImageKind kind;
  return kind;
}

}  // namespace ramet::recipe
