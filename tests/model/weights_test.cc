#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/presets.h"
#include "ramet/model/published_config.h"
#include "ramet/weights/pickle.h"
#include "ramet/weights/safetensors.h"
#include "ramet/weights/tensor_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Made by PyTorch 2.15 (torch.save): see each test for what it holds.
const fs::path kSamples = fs::path(RAMET_SOURCE_DIR) / "tests/samples/torch";

template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

std::vector<float> numbers(const TensorFile& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  if (!tensor) throw std::runtime_error("no tensor " + name);
  std::vector<float> values(static_cast<size_t>(tensor->shape.elements()));
  file.read(*tensor, values);
  return values;
}

TEST(TorchFile, ReadsTensorsOfAllTypesViewsAndParameters) {
  const auto file = open_tensor_file(kSamples / "table.bin");
  EXPECT_EQ(file->tensors().size(), 10u);
  EXPECT_THAT(numbers(*file, "a.weight"), ElementsAre(0, 0.25f, 0.5f, 0.75f, 1, 1.25f));
  EXPECT_THAT(numbers(*file, "a.turned"), ElementsAre(0, 0.75f, 0.25f, 1, 0.5f, 1.25f));  // transposed, same storage
  EXPECT_EQ(file->find("a.turned")->shape, (Shape{3, 2}));
  EXPECT_THAT(numbers(*file, "a.half"), ElementsAre(1.5f, -2.25f, 65504.0f));
  EXPECT_THAT(numbers(*file, "a.brain"), ElementsAre(3.0f, -0.5f));
  EXPECT_FLOAT_EQ(numbers(*file, "a.double")[0], 0.1f);
  EXPECT_THAT(numbers(*file, "a.ids"), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(file->find("a.ids")->floating);
  EXPECT_TRUE(file->find("a.brain")->floating);
  EXPECT_THAT(numbers(*file, "a.piece"), ElementsAre(2, 4, 6));  // every other of a larger storage
  EXPECT_THAT(numbers(*file, "a.parameter"), ElementsAre(7, 8));
  EXPECT_THAT(numbers(*file, "a.scalar"), ElementsAre(5));
  EXPECT_THAT(numbers(*file, "a.empty"), ElementsAre());
}

TEST(TorchFile, FindsTheTableInsideACheckpoint) {
  const auto file = open_tensor_file(kSamples / "nested.pt");  // {epoch, lr, note, state_dict: {w}, list}
  ASSERT_EQ(file->tensors().size(), 1u);
  EXPECT_THAT(numbers(*file, "w"), ElementsAre(1, 1));
}

TEST(TorchFile, RefusesAMaliciousPickleByNameAndRunsNothing) {
  fs::remove("/tmp/ramet-was-here");
  const std::string error = error_of([] { open_tensor_file(kSamples / "malicious.bin"); });
  EXPECT_THAT(error, HasSubstr("malicious.bin"));
  EXPECT_THAT(error, HasSubstr("nothing of it was run"));
  EXPECT_THAT(error, HasSubstr("'posix.system'"));
  EXPECT_FALSE(fs::exists("/tmp/ramet-was-here"));
}

TEST(TorchFile, RefusesWhatIsNoTableOfTensors) {
  const auto pickle = [](const std::string& bytes) {
    return error_of([&] { read_torch_pickle(bytes, "x.bin"); });
  };
  using namespace std::string_literals;
  EXPECT_THAT(pickle(""), HasSubstr("cut short"));
  EXPECT_THAT(pickle("\x80\x02}."s), HasSubstr("there is no tensor"));
  EXPECT_THAT(pickle("\x80\x02]."s), HasSubstr("holds no table"));
  EXPECT_THAT(pickle("\x80\x02."s), HasSubstr("more or less than one value"));
  EXPECT_THAT(pickle("\x80\x09}."s), HasSubstr("unknown protocol"));
  EXPECT_THAT(pickle("\x80\x02h\x07."s), HasSubstr("recalls what it has not made"));
  EXPECT_THAT(pickle("\x80\x02R."s), HasSubstr("takes what it has not made"));
  EXPECT_THAT(pickle("\x80\x02}}s."s), HasSubstr("fills what it has not made"));
  // Other ways in which a pickle can run something.
  EXPECT_THAT(pickle("\x80\x02i__builtin__\neval\n."s), HasSubstr("opcode 0x69"));
  EXPECT_THAT(pickle("\x80\x02\x92."s), HasSubstr("opcode 0x92"));
  EXPECT_THAT(pickle("\x80\x02\x81."s), HasSubstr("takes what it has not made"));
  EXPECT_THAT(pickle("\x80\x02" "cos\nsystem\n)\x81."s), HasSubstr("'os.system'"));
  EXPECT_THAT(pickle("\x80\x04\x8c\x08""builtins\x8c\x04""eval\x93."s), HasSubstr("'builtins.eval'"));
  EXPECT_THAT(pickle("\x80\x02" "cos\nsystem\n."s), HasSubstr("'os.system'"));
  EXPECT_THAT(pickle("\x80\x02" "ctorch\nload\n."s), HasSubstr("'torch.load'"));
  EXPECT_THAT(pickle("\x80\x02" "ctorch._utils\n_rebuild_tensor_v2\n)R."s), HasSubstr("not told as PyTorch tells it"));
  // A table that holds itself, many times over.
  EXPECT_THAT(pickle("\x80\x02}q\x00(X\x01\x00\x00\x00""ah\x00X\x01\x00\x00\x00""bh\x00u."s),
              HasSubstr("there is no tensor"));
}

TEST(TorchFile, RefusesDamagedFiles) {
  const TemporaryFolder folder;
  const std::string whole = read_file(kSamples / "table.bin");
  write_file_atomic(folder / "cut.bin", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(error_of([&] { open_tensor_file(folder / "cut.bin"); }), HasSubstr("not a whole zip file"));
  std::string changed = whole;
  const size_t number = changed.find(std::string("\0\0\x80\x3e", 4));  // 0.25, the second of a.weight
  ASSERT_NE(number, std::string::npos);
  changed[number + 2] ^= 1;
  write_file_atomic(folder / "changed.bin", changed);
  EXPECT_THAT(error_of([&] { numbers(*open_tensor_file(folder / "changed.bin"), "a.weight"); }),
              HasSubstr("cannot be read"));
  EXPECT_THAT(error_of([&] { open_tensor_file(kSamples / "old.bin"); }), HasSubstr("PyTorch before 1.6"));
  EXPECT_THAT(error_of([&] { open_tensor_file(folder.path()); }), HasSubstr("no weights in this folder"));
}

TEST(Sharded, ReadsAnIndexOfSeveralFiles) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& tensor, std::vector<float> values) {
    SafetensorsWriter writer(folder / file, {{tensor, {DType::kF32, {std::ssize(values)}}}});
    writer.write(values.data(), values.size() * sizeof(float));
    writer.close();
  };
  write("model-1.safetensors", "a", {1, 2});
  write("model-2.safetensors", "b", {3});
  const auto index = [&](const std::string& text) {
    write_file_atomic(folder / "model.safetensors.index.json", text);
    return error_of([&] { open_tensor_file(folder.path()); });
  };
  EXPECT_EQ(index(R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"), "no error");
  const auto file = open_tensor_file(folder.path());
  EXPECT_THAT(numbers(*file, "a"), ElementsAre(1, 2));
  EXPECT_THAT(numbers(*file, "b"), ElementsAre(3));
  EXPECT_THAT(index("[]"), HasSubstr("not an index of weights"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"../model-1.safetensors"}})"), HasSubstr("is not beside it"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-1.safetensors","c":"model-2.safetensors"}})"),
              HasSubstr("'c' is not in model-2.safetensors"));
  EXPECT_THAT(index(R"({"weight_map":{"a":"model-3.safetensors"}})"), HasSubstr("model-3.safetensors"));
}

BertConfig tiny(BertFamily family) {
  BertConfig config = bert_preset("tiny", family);
  config.layers = 1, config.hidden = 4, config.heads = 2, config.intermediate = 8, config.vocabulary = 10;
  config.positions = 8;
  return config;
}

Model model_of(BertFamily family, TaskHead head = TaskHead::kClassification) {
  static std::vector<std::unique_ptr<BertConfig>> kept;
  kept.push_back(std::make_unique<BertConfig>(tiny(family)));
  return build_bert_task(*kept.back(), {.micro_batch = 2, .sequence = 8}, {.kind = head, .labels = 3, .choices = 2});
}

void export_to(const fs::path& path, const std::vector<StateTensor>& weights) {
  export_weights(path, weights, [](const std::string& name, std::span<std::byte> bytes) {
    auto* values = reinterpret_cast<float*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i)
      values[i] = static_cast<float>(i) + static_cast<float>(name.size());
  });
}

TEST(HuggingFace, EveryFamilyGoesOutAndComesBack) {
  const TemporaryFolder folder;
  for (const BertFamily family : {BertFamily::kBert, BertFamily::kRoberta, BertFamily::kDistilBert})
    for (const TaskHead head : {TaskHead::kClassification, TaskHead::kRegression, TaskHead::kSpan, TaskHead::kTokens,
                                TaskHead::kChoice}) {
      const Model model = model_of(family, head);
      export_to(folder / "m.safetensors", model.weights);
      size_t count = 0;
      const WeightMatch match = import_weights(
          folder / "m.safetensors", model.weights, [&](const std::string& name, std::span<const std::byte> bytes) {
            ++count;
            const auto* values = reinterpret_cast<const float*>(bytes.data());
            for (size_t i = 0; i < bytes.size() / sizeof(float); ++i)
              ASSERT_EQ(values[i], static_cast<float>(i) + static_cast<float>(name.size())) << name;
          });
      EXPECT_EQ(count, model.weights.size());
      EXPECT_TRUE(match.drawn.empty() && match.left_out.empty());
      EXPECT_TRUE(match.remarks("f").empty());
    }
}

std::vector<std::string> names_in(const fs::path& path) {
  std::vector<std::string> names;
  const auto file = open_tensor_file(path);
  for (const auto& tensor : file->tensors()) names.push_back(tensor.name);
  return names;
}

TEST(HuggingFace, NamesAreThoseOfThePublishedFiles) {
  const TemporaryFolder folder;
  const auto names = [&](BertFamily family, TaskHead head) {
    export_to(folder / "m.safetensors", model_of(family, head).weights);
    return names_in(folder / "m.safetensors");
  };
  using ::testing::Contains;
  const auto bert = names(BertFamily::kBert, TaskHead::kClassification);
  for (const char* name : {"bert.embeddings.token_type_embeddings.weight", "bert.pooler.dense.bias", "classifier.weight",
                           "bert.encoder.layer.0.attention.self.query.weight"})
    EXPECT_THAT(bert, Contains(name));
  const auto roberta = names(BertFamily::kRoberta, TaskHead::kClassification);
  for (const char* name : {"roberta.embeddings.token_type_embeddings.weight", "classifier.dense.weight",
                           "classifier.out_proj.bias", "roberta.encoder.layer.0.output.LayerNorm.weight"})
    EXPECT_THAT(roberta, Contains(name));
  EXPECT_THAT(roberta, ::testing::Not(Contains("roberta.pooler.dense.weight")));
  const auto distil = names(BertFamily::kDistilBert, TaskHead::kSpan);
  for (const char* name : {"distilbert.embeddings.LayerNorm.bias", "distilbert.transformer.layer.0.attention.k_lin.bias",
                           "distilbert.transformer.layer.0.sa_layer_norm.weight", "qa_outputs.weight",
                           "distilbert.transformer.layer.0.ffn.lin2.weight"})
    EXPECT_THAT(distil, Contains(name));
}

TEST(HuggingFace, TellsWhatIsDrawnAndWhatIsLeftOut) {
  const TemporaryFolder folder;
  const BertConfig config = tiny(BertFamily::kBert);
  const Model pretrained = build_bert(config, {.micro_batch = 2, .sequence = 8, .predictions = 2});
  export_to(folder / "m.safetensors", pretrained.weights);
  const WeightMatch match = match_weights(folder / "m.safetensors", model_of(BertFamily::kBert).weights);
  EXPECT_THAT(match.drawn, ElementsAre("classifier.weight", "classifier.bias"));
  EXPECT_EQ(match.left_out.size(), 7u);  // the masked-word head (5) and the next-sentence head (2)
  EXPECT_THAT(match.remarks("m.safetensors"),
              ElementsAre("not in m.safetensors, so they begin at random: classifier.weight, classifier.bias",
                          HasSubstr("are left out: cls.predictions.transform.dense.weight, ")));
  // The head of another task is of another shape: it begins anew.
  export_to(folder / "other.safetensors", model_of(BertFamily::kBert, TaskHead::kRegression).weights);
  EXPECT_THAT(match_weights(folder / "other.safetensors", model_of(BertFamily::kBert).weights).drawn,
              ElementsAre("classifier.weight", "classifier.bias"));
}

TEST(HuggingFace, ListsAllDifferences) {
  const TemporaryFolder folder;
  const Model model = model_of(BertFamily::kBert);
  std::vector<StateTensor> other = model.weights;
  other.erase(other.begin() + 3);                                       // the gain of the first norm
  other[0].type.shape = Shape{12, 4};                                   // of the words: a wrong vocabulary
  other[0].axes.clear();
  other.push_back({"bert.encoder.layer.7.x", {DType::kF32, {2}}, StateKind::kWeight, {}, "decay", {}});
  export_to(folder / "m.safetensors", other);
  const std::string error = error_of([&] { match_weights(folder / "m.safetensors", model.weights); });
  EXPECT_THAT(error, HasSubstr("m.safetensors: the file's tensors are not the model's"));
  EXPECT_THAT(error, HasSubstr("missing: bert.embeddings.LayerNorm.weight;"));
  EXPECT_THAT(error, HasSubstr("bert.embeddings.word_embeddings.weight is f32[12,4], the model has [10,4]"));
  EXPECT_THAT(error, HasSubstr("unknown to the model: bert.encoder.layer.7.x"));
  bool written = false;
  EXPECT_THAT(error_of([&] {
                import_weights(folder / "m.safetensors", model.weights,
                               [&](const std::string&, std::span<const std::byte>) { written = true; });
              }),
              HasSubstr("missing"));
  EXPECT_FALSE(written);
}

TEST(PublishedConfig, ReadsEachFamilyAndItsOwnText) {
  const TemporaryFolder folder;
  PublishedConfig config{.kind = "bert", .layers = 3, .hidden = 12, .heads = 4, .intermediate = 24, .vocabulary = 99,
                         .positions = 40, .types = 2, .dropout = 0.2, .attention_dropout = 0.3, .epsilon = 1e-7,
                         .activation = "relu", .labels = {"no", "yes"}};
  for (const char* kind : {"bert", "roberta", "distilbert"}) {
    config.kind = kind;
    if (config.kind == "distilbert") config.types = 0, config.epsilon = 1e-12;
    write_file_atomic(folder / "config.json", print_published_config(config, "X"));
    const auto read = read_published_config(folder.path());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->layers, 3);
    EXPECT_EQ(read->intermediate, 24);
    EXPECT_EQ(read->positions, 40);  // RoBERTa's table has 42 rows
    EXPECT_EQ(read->types, config.types);
    EXPECT_EQ(read->dropout, 0.2);
    EXPECT_EQ(read->attention_dropout, 0.3);
    EXPECT_EQ(read->epsilon, config.epsilon);
    EXPECT_EQ(read->activation, "relu");
    EXPECT_THAT(read->labels, ElementsAre("no", "yes"));
  }
}

TEST(PublishedConfig, RefusesWhatIsNotBuiltIn) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_published_config(folder.path()));
  const auto config = [&](const std::string& text) {
    write_file_atomic(folder / "config.json", text);
    return error_of([&] { read_published_config(folder.path()); });
  };
  EXPECT_THAT(config("[]"), HasSubstr("not a configuration of a model"));
  EXPECT_THAT(config(R"({"model_type":"t5"})"),
              HasSubstr("'model_type': a model of a kind that is not built in; found \"t5\"; expected bert"));
  EXPECT_THAT(config(R"({"model_type":"bert","num_hidden_layers":-1})"),
              HasSubstr("'num_hidden_layers': not a size; found -1"));
  EXPECT_THAT(config(R"({"model_type":"bert","position_embedding_type":"relative_key"})"), HasSubstr("relative_key"));
  const std::string sizes =
      R"("num_hidden_layers":1,"hidden_size":4,"num_attention_heads":2,"intermediate_size":8,"vocab_size":10,)"
      R"("max_position_embeddings":8,"type_vocab_size":2)";
  EXPECT_EQ(config("{\"model_type\":\"bert\"," + sizes + "}"), "no error");
  EXPECT_THAT(config("{\"model_type\":\"bert\",\"hidden_act\":\"swish\"," + sizes + "}"),
              HasSubstr("'hidden_act': an activation that is not built in; found \"swish\""));
}

}  // namespace
}  // namespace ramet::tests
