// Tasks of CLUE (Xu et al., "CLUE: A Chinese language understanding evaluation benchmark", 2020) and FewCLUE (Xu et al.,
// "FewCLUE: A Chinese few-shot learning evaluation benchmark", 2021), and ChnSentiCorp: files, members, labels and
// metrics as published. Reading comprehension is in question_answers.h.
#include <charconv>

#include "ramet/base/error.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/tasks/text_kinds.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

/// Byte offset of character `index` of a text, or npos when it is shorter.
size_t byte_of_character(std::string_view text, int64_t index) {
  size_t at = 0;
  for (int64_t i = 0; i < index; ++i) {
    if (at >= text.size()) return std::string_view::npos;
    (void)next_code_point(text, at);
  }
  return at;
}

struct Mention {
  size_t begin, end;
  const char* mark;
};

Mention find_mention(const Record& record, size_t text_column, size_t place_column, const std::string& where,
                     std::string_view text, const char* mark, const char* name) {
  const std::string& words = record.at(text_column);
  const std::string& place = record.at(place_column);
  int64_t index = -1;
  const auto [end, status] = std::from_chars(place.data(), place.data() + place.size(), index);
  const bool number = status == std::errc() && end == place.data() + place.size() && index >= 0;
  const size_t begin = number ? byte_of_character(text, index) : std::string_view::npos;
  if (begin == std::string_view::npos)
    throw Error({.what = std::string(name) + "_index is no place in the text",
                 .where = where,
                 .found = in_quotes(place),
                 .expected = "a character's number, from 0"});
  if (text.substr(begin, words.size()) == words) return {begin, begin + words.size(), mark};
  // Some published places count otherwise: the nearest one where the words stand is meant.
  size_t best = std::string_view::npos;
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    const auto away = [&](size_t p) { return p > begin ? p - begin : begin - p; };
    if (best == std::string_view::npos || away(at) < away(best)) best = at;
  }
  if (best == std::string_view::npos || words.empty())
    throw Error({.what = std::string(name) + "_text does not stand in the text",
                 .where = where,
                 .found = in_quotes(words),
                 .expected = "words of the text"});
  return {best, best + words.size(), mark};
}

enum { kSpan1Text = kTextColumns, kSpan1Index, kSpan2Text, kSpan2Index };

/// CLUEWSC: the noun between underscores and the pronoun in brackets, so that the model sees which are meant.
void mark_mentions(const Record& record, const std::string& where, TextExample& example) {
  const std::string text = example.text;
  Mention first = find_mention(record, kSpan1Text, kSpan1Index, where, text, "__", "span1");
  Mention second = find_mention(record, kSpan2Text, kSpan2Index, where, text, "[]", "span2");
  if (second.begin < first.begin) std::swap(first, second);
  const size_t between = std::max(first.end, second.begin);  // mentions may overlap
  const size_t end = std::max(between, second.end);
  example.text = text.substr(0, first.begin) + first.mark[0] + text.substr(first.begin, first.end - first.begin) +
                 first.mark[1] + text.substr(first.end, between - first.end) + second.mark[0] +
                 text.substr(between, end - between) + second.mark[1] + text.substr(end);
}

/// CSL: the key words, separated by blanks, before the abstract.
void join_keywords(const Record& record, const std::string&, TextExample& example) {
  example.text.clear();
  for (const std::string& word : record.values[kTextColumn]) example.text += (example.text.empty() ? "" : " ") + word;
}

/// ChID: the text on both sides of its gap; idioms are the choices.
void cut_at_gap(const Record& record, const std::string& where, TextExample& example) {
  static constexpr std::string_view kGap = "#idiom#";
  const std::string whole = record.at(kTextColumn);
  const size_t gap = whole.find(kGap);
  if (gap == std::string::npos)
    throw Error({.what = "no gap", .where = where, .found = in_quotes(whole), .expected = "a text with #idiom#"});
  example.text = whole.substr(0, gap);
  example.pair = whole.substr(gap + kGap.size());
  example.cloze = true;
  example.choices = record.values[kPairColumn];
}

const std::vector<std::string> kDisciplines = {
      "材料科学与工程", "作物学", "口腔医学", "药学", "教育学", "水利工程", "理论经济学", "食品科学与工程",
      "畜牧学/兽医学", "体育学", "核科学与技术", "力学", "园艺学", "水产", "法学", "地质学/地质资源与地质工程",
      "石油与天然气工程", "农林经济管理", "信息与通信工程", "图书馆、情报与档案管理", "政治学", "电气工程",
      "海洋科学", "民族学", "航空宇航科学与技术", "化学/化学工程与技术", "哲学", "公共卫生与预防医学", "艺术学",
      "农业工程", "船舶与海洋工程", "计算机科学与技术", "冶金工程", "交通运输工程", "动力工程及工程热物理",
      "纺织科学与工程", "建筑学", "环境科学与工程", "公共管理", "数学", "物理学", "林学/林业工程", "心理学",
      "历史学", "工商管理", "应用经济学", "中医学/中药学", "天文学", "机械工程", "土木工程", "光学工程", "地理学",
      "农业资源利用", "生物学/生物科学与工程", "兵器科学与技术", "矿业工程", "大气科学", "基础医学/临床医学",
      "电子科学与技术", "测绘科学与技术", "控制科学与工程", "军事学", "中国语言文学", "新闻传播学", "社会学",
      "地球物理学", "植物保护"};

std::vector<std::string> numbers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

const std::vector<TextKind>& clue_kinds() {
  static const std::vector<std::string> train{"train.json", "train_0.json", "train_few_all.json"},
      dev{"dev.json", "dev_0.json", "dev_few_all.json"}, test{"test_public.json", "test.json"};
  static const std::vector<std::string> id{"id", "idx"}, label{"label"}, sentence{"sentence"};
  static const std::vector<std::string> first{"sentence1"}, second{"sentence2"}, binary{"0", "1"};
  static const std::vector<std::string> three{"entailment", "neutral", "contradiction"};
  static const auto make = [] {
    std::vector<TextKind> kinds;
    const auto add = [&](const char* name, const std::vector<std::string>& text, const std::vector<std::string>& pair,
                         const std::vector<std::string>& labels) -> TextKind& {
      kinds.push_back({.name = name, .folder = name, .train = train, .dev = dev, .test = test, .text = text,
                       .pair = pair, .label = label, .id = id, .labels = labels});
      kinds.back().predictions = PredictionFormat::kJsonLines;
      return kinds.back();
    };
    add("tnews", sentence, {}, {"100", "101", "102", "103", "104", "106", "107", "108", "109", "110", "112", "113",
                                "114", "115", "116"});
    add("iflytek", sentence, {}, numbers(119));
    add("afqmc", first, second, binary);
    add("cmnli", first, second, three).disagreement = "-";
    add("ocnli", first, second, three).disagreement = "-";
    TextKind& wsc = add("cluewsc", {"text"}, {}, {"false", "true"});
    wsc.more_columns = {"target.span1_text", "target.span1_index", "target.span2_text", "target.span2_index"};
    wsc.assemble = mark_mentions;
    add("csl", {"keyword"}, {"abst"}, binary).assemble = join_keywords;
    add("eprstmt", sentence, {}, {"Negative", "Positive"});
    add("csldcp", {"content"}, {}, kDisciplines);
    add("bustm", first, second, binary);
    TextKind& chid = add("chid", {"content"}, {"candidates"}, {});
    chid.head = TaskHead::kChoice;
    chid.label = {"answer"};
    chid.predictions = PredictionFormat::kJsonAnswers;
    chid.assemble = cut_at_gap;
    TextKind& reviews = add("chnsenticorp", {"text_a"}, {}, binary);
    reviews.train = {"train.tsv"}, reviews.dev = {"dev.tsv"}, reviews.test = {"test.tsv"};
    reviews.predictions = PredictionFormat::kGlue;
    return kinds;
  };
  static const std::vector<TextKind> kinds = make();
  return kinds;
}

}  // namespace ramet::text
