// The commands that make text ready: vocab and corpus.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/text/corpus.h"
#include "ramet/text/train_vocabulary.h"

namespace ramet::cli {
namespace {

std::vector<std::filesystem::path> as_paths(const std::vector<std::string>& files) {
  return {files.begin(), files.end()};
}

struct VocabArguments {
  std::string kind = "wordpiece", out;
  int size = 0, threads = 0;
  int64_t min_frequency = 2;
  bool cased = false;
  std::vector<std::string> files;
};

int run_vocab(const VocabArguments& arguments, bool json) {
  ByteProgress progress;
  const auto show = [&](std::string_view part, int64_t done, int64_t total) {
    if (!json) progress.show(part, done, total);
  };
  std::unique_ptr<Tokenizer> tokenizer;
  const auto fill = [&](TrainVocabularyOptions& options) {
    if (arguments.size > 0) options.vocabulary_size = arguments.size;
    options.min_frequency = arguments.min_frequency;
    options.threads = arguments.threads;
    options.progress = show;
  };
  if (arguments.kind == "wordpiece") {
    TrainWordPieceOptions options;
    fill(options);
    options.tokenizer.lower_case = !arguments.cased;
    tokenizer = train_wordpiece(as_paths(arguments.files), options);
  } else {
    TrainBpeOptions options;
    fill(options);
    tokenizer = train_bpe(as_paths(arguments.files), options);
  }
  tokenizer->save(arguments.out);
  if (json)
    JsonLine()
        .set("event", "end")
        .set("kind", arguments.kind)
        .set("tokens", int64_t{tokenizer->vocabulary_size()})
        .set("hash", tokenizer->hash().hex())
        .set("out", arguments.out)
        .print();
  else
    std::printf("%d tokens (%s) in %s\n", tokenizer->vocabulary_size(), arguments.kind.c_str(), arguments.out.c_str());
  return 0;
}

struct CorpusArguments {
  std::string tokenizer, out, sentences = "lines";
  BuildCorpusOptions build;
  std::vector<std::string> files;
};

int run_corpus(CorpusArguments arguments, bool json) {
  const auto tokenizer = load_tokenizer(arguments.tokenizer);
  arguments.build.sentences = arguments.sentences == "lines"   ? SentenceRule::kLines
                              : arguments.sentences == "prose" ? SentenceRule::kProse
                                                               : SentenceRule::kSplitLines;
  ByteProgress progress;
  if (!json)
    arguments.build.progress = [&](std::string_view part, int64_t done, int64_t total) {
      progress.show(part, done, total);
    };
  const CorpusSummary summary = build_corpus(as_paths(arguments.files), *tokenizer, arguments.out, arguments.build);
  if (json) {
    JsonLine()
        .set("event", "end")
        .set("documents", summary.train.documents)
        .set("sentences", summary.train.sentences)
        .set("tokens", summary.train.tokens)
        .set("heldout_documents", summary.heldout.documents)
        .set("heldout_tokens", summary.heldout.tokens)
        .set("text_bytes", summary.text_bytes)
        .set("unknown_tokens", summary.unknown_tokens)
        .set("hash", summary.hash.hex())
        .set("out", arguments.out)
        .print();
    return 0;
  }
  const auto count = [](int64_t value) { return number_text(static_cast<double>(value)); };
  std::fputs(table_text({{"", "documents", "sentences", "tokens"},
                         {"train", std::to_string(summary.train.documents), std::to_string(summary.train.sentences),
                          count(summary.train.tokens)},
                         {"held out", std::to_string(summary.heldout.documents),
                          std::to_string(summary.heldout.sentences), count(summary.heldout.tokens)}})
                 .c_str(),
             stdout);
  std::printf("%s of text, %s unknown tokens; corpus %s in %s\n", format_size(summary.text_bytes).c_str(),
              count(summary.unknown_tokens).c_str(), summary.hash.hex().c_str(), arguments.out.c_str());
  return 0;
}

}  // namespace

void add_vocab(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<VocabArguments>();
  CLI::App* command = app.add_subcommand("vocab", "Train a vocabulary on text files");
  command->add_option("files", arguments->files, "text files, UTF-8")->type_name("FILE")->required();
  command->add_option("--kind", arguments->kind, "wordpiece (for bert) or bpe (byte-level, for gpt2)")
      ->check(CLI::IsMember({"wordpiece", "bpe"}))
      ->capture_default_str();
  command
      ->add_option("--size", arguments->size,
                   "tokens, special ones included (default: 30522 for wordpiece, 50257 for bpe)")
      ->type_name("N")
      ->check(CLI::Range(16, 10'000'000));
  command->add_option("--out", arguments->out, "folder for vocab.txt, or vocab.json and merges.txt")
      ->type_name("DIR")
      ->required();
  command->add_option("--min-frequency", arguments->min_frequency, "pairs that occur less often are not merged")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_flag("--cased", arguments->cased, "wordpiece: keep capitals and accents");
  command
      ->add_option("--threads", arguments->threads,
                   "threads (default: all processors); the result does not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return run_vocab(*arguments, session.json); };
  });
}

void add_corpus(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<CorpusArguments>();
  CLI::App* command = app.add_subcommand("corpus", "Build a corpus from text files");
  command->add_option("files", arguments->files, "text files, UTF-8")->type_name("FILE")->required();
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "folder or file that `ramet vocab` wrote, or one with public vocab files")
      ->type_name("PATH")
      ->required();
  command->add_option("--out", arguments->out, "folder of the corpus")->type_name("DIR")->required();
  command->add_option("--heldout", arguments->build.heldout, "share of documents kept for evaluation")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 0.5))
      ->capture_default_str();
  command
      ->add_option("--sentences", arguments->sentences,
                   "lines: each line is a sentence; split-lines: a line holds several; prose: wrapped lines are "
                   "joined, then split")
      ->check(CLI::IsMember({"lines", "split-lines", "prose"}))
      ->capture_default_str();
  command
      ->add_option("--blank-lines", arguments->build.document_blank_lines,
                   "so many blank lines end a document; 0: each file is one")
      ->type_name("N")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command->add_flag("--replace", arguments->build.replace, "put the new corpus in the place of one that is there");
  command
      ->add_option("--threads", arguments->build.threads,
                   "threads (default: all processors); the result does not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return run_corpus(*arguments, session.json); };
  });
}

}  // namespace ramet::cli
