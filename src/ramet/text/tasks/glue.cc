// The nine tasks of GLUE (Wang et al., "GLUE: A multi-task benchmark and analysis platform for natural language
// understanding", 2018): files, columns, labels and metrics as published. Classes are numbered as in the `glue` data
// sets that most models are published for.
#include "ramet/text/tasks/text_kinds.h"

namespace ramet::text {

const std::vector<TextKind>& glue_kinds() {
  using enum TaskMetric;
  static const std::vector<std::string> train{"train.tsv"}, dev{"dev.tsv"}, test{"test.tsv"}, index{"index"};
  static const std::vector<std::string> sentence{"sentence"}, first{"sentence1"}, second{"sentence2"}, label{"label"};
  static const std::vector<std::string> entailment{"entailment", "not_entailment"}, binary{"0", "1"};
  static const std::vector<std::string> three{"entailment", "neutral", "contradiction"};
  static const auto make = [] {
    std::vector<TextKind> kinds;
    kinds.push_back({.name = "cola", .folder = "CoLA", .train = train, .dev = dev, .test = test, .text = sentence,
                     .pair = {}, .label = label, .id = index, .columns = {"source", "label", "mark", "sentence"},
                     .labels = binary, .metrics = {kMatthews, kAccuracy}});
    kinds.push_back({.name = "sst2", .folder = "SST-2", .train = train, .dev = dev, .test = test, .text = sentence,
                     .pair = {}, .label = label, .id = index, .labels = binary});
    // Not msr_paraphrase_train.txt, though it has a row that train.tsv lacks: it holds all of dev.tsv too.
    kinds.push_back({.name = "mrpc", .folder = "MRPC", .train = train, .dev = dev,
                     .test = {"msr_paraphrase_test.txt", "test.tsv"}, .text = {"#1 String"}, .pair = {"#2 String"},
                     .label = {"Quality"}, .id = index, .labels = binary, .metrics = {kAccuracy, kF1}});
    kinds.push_back({.name = "stsb", .head = TaskHead::kRegression, .folder = "STS-B", .train = train, .dev = dev,
                     .test = test, .text = first, .pair = second, .label = {"score"}, .id = index,
                     .metrics = {kPearson, kSpearman}});
    kinds.push_back({.name = "qqp", .folder = "QQP", .train = train, .dev = dev, .test = test, .text = {"question1"},
                     .pair = {"question2"}, .label = {"is_duplicate"}, .id = {"id"}, .labels = binary,
                     .metrics = {kAccuracy, kF1}, .skip_other_widths = true});
    kinds.push_back({.name = "mnli", .folder = "MNLI", .train = train, .dev = {"dev_matched.tsv"},
                     .test = {"test_matched.tsv"}, .text = first, .pair = second, .label = {"gold_label"}, .id = index,
                     .labels = three});
    kinds.push_back(kinds.back());
    kinds.back().name = "mnli-mm";
    kinds.back().dev = {"dev_mismatched.tsv"}, kinds.back().test = {"test_mismatched.tsv"};
    kinds.push_back({.name = "qnli", .folder = "QNLI", .train = train, .dev = dev, .test = test, .text = {"question"},
                     .pair = sentence, .label = label, .id = index, .labels = entailment});
    kinds.push_back({.name = "rte", .folder = "RTE", .train = train, .dev = dev, .test = test, .text = first,
                     .pair = second, .label = label, .id = index, .labels = entailment});
    kinds.push_back({.name = "wnli", .folder = "WNLI", .train = train, .dev = dev, .test = test, .text = first,
                     .pair = second, .label = label, .id = index, .labels = binary});
    return kinds;
  };
  static const std::vector<TextKind> kinds = make();
  return kinds;
}

}  // namespace ramet::text
