#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/task.h"
#include "ramet/text/tasks/answer_metrics.h"
#include "ramet/text/tasks/conll.h"
#include "ramet/text/wordpiece.h"

using namespace ramet::tests;

namespace {

const std::shared_ptr<const Tokenizer>& tokenizer() {
  static const std::shared_ptr<const Tokenizer> shared = std::make_shared<WordPieceTokenizer>(Vocabulary(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "树", "叶", "。", "a", "b", "c"}));
  return shared;
}

/// Opens a file as the development set of a kind; every feature must be whole, and any outputs must score.
void try_task(const std::string& kind, const std::filesystem::path& path, std::string_view column = "") {
  TaskOptions options;
  options.kind = kind;
  options.dev = path;
  options.max_length = 16;
  options.max_query = 5;
  options.stride = 3;
  options.text = column;
  if (kind == "choice") options.pair = "choices";
  options.frame = {.classify = 2, .separator = 3, .padding = 0};
  const auto task = open_task(options, tokenizer());
  const auto split = task->dev();
  for (int64_t i = 0; i < split->features(); ++i)
    for (const TaskRow& row : split->feature(i).rows)
      if (row.input_ids.size() > 16 || row.input_ids.size() != row.token_type_ids.size() || row.input_ids.front() != 2)
        internal_error("task files", "a row that no model can read");
  const auto labels = static_cast<int64_t>(task->labels().size());
  int64_t width = 1;
  if (task->head() == TaskHead::kClassification) width = labels;
  if (task->head() == TaskHead::kSpan) width = 32;
  if (task->head() == TaskHead::kTokens) width = 16 * labels;
  if (task->head() == TaskHead::kChoice) width = task->choices();
  TaskOutputs run{width, std::vector<float>(static_cast<size_t>(width * split->features()))};
  for (size_t i = 0; i < run.values.size(); ++i) run.values[i] = static_cast<float>(i * 7 % 11);
  if (split->labelled()) (void)split->score(std::vector{run, run});
  split->write_predictions(std::vector{run}, fuzz::empty_folder("task_files") / "predictions");
}

}  // namespace

RAMET_FUZZ_TARGET(task_files, std::string_view input) {
  // The first byte says which format the rest is taken for.
  const char kind = input.empty() ? 's' : input.front();
  const auto folder = fuzz::empty_folder("task_input");
  write_file_atomic(folder / "file", input.substr(std::min<size_t>(1, input.size())));
  switch (kind) {
    case 's': return try_task("squad2", folder / "file");
    case 'c': return try_task("cmrc2018", folder / "file");
    case 'm': return try_task("mrpc", folder / "file");
    case 'o': return try_task("cola", folder / "file");
    case 'n': return try_task("stsb", folder / "file");
    case 't': return try_task("tnews", folder / "file");
    case 'w': return try_task("cluewsc", folder / "file");
    case 'i': return try_task("chid", folder / "file");
    case 'x': return try_task("choice", folder / "file", "text");
    case 'k': return try_task("tokens", folder / "file");
    case 'y': return try_task("classification", folder / "file", "text");
    default: {
      const PredictedAnswers answers = read_predicted_answers(folder / "file");
      for (const auto& [id, answer] : answers) (void)mixed_segments(answer), (void)normalize_answer(answer);
    }
  }
}

RAMET_FUZZ_SEEDS(task_files) {
  return {
      .inputs =
          {R"(s{"data": [{"paragraphs": [{"context": "the cat sat. a cat", "qas": [{"id": "1", "question": "the?", "answers": )"
           R"([{"text": "cat", "answer_start": 4}]}, {"id": "2", "question": "a", "is_impossible": true, "answers": []}]}]}]})",
           R"(c[{"context_text": "树叶树叶。", "qas": [{"query_id": "1", "query_text": "树", "answers": ["叶", "cat"]}]}])",
           "mQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tthe cat\t\"a\n0\t1\t2\tb\tc\n",
           "ogj04\t0\t*\tthe cat sat\ngj04\t1\t\tcats\n", "nindex\tsentence1\tsentence2\tscore\n0\ta\tb\t3.5\n1\tb\tc\t-1e3\n",
           "t{\"label\": \"100\", \"sentence\": \"树叶\"}\n{\"label\": 101, \"sentence\": \"a\"}\n",
           R"(w{"target": {"span2_index": 2, "span1_index": 0, "span1_text": "树", "span2_text": "叶"}, "label": "false", )"
           R"("text": "树的叶。"})",
           R"(i{"id": 1, "candidates": ["a", "b"], "content": "the #idiom# cat", "answer": 1})",
           R"(x{"text": "the", "choices": ["a", "b", "c"], "label": "b"})", "kthe DT B-NP\ncats NN I-NP\n\na DT B-NP\n",
           R"(k{"tokens": ["the", "cat"], "tags": ["O", "B-X"]})", "ytext\tlabel\nthe\tx\ncat\ty\n",
           R"(p{"1": "the \"cat\" can't.", "2": "《树叶》3.5, a"})"},
      .words = {"\"answer_start\": ", "\"is_impossible\": true", "\"answers\": []", "#idiom#", "\t", "\n", "\r\n", "null", "true",
                "{", "}", "[", "]", "\\u0000", "\"label\": ", "\xEF\xBB\xBF", "-DOCSTART-", "B-", "1e999", "-1", "'s ", "..."}};
}
