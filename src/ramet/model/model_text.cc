#include "ramet/model/model_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/text_reader.h"
#include "ramet/transform/declared_states.h"

namespace ramet::model {
namespace {

std::string quote(const std::string& text) { return ir::text_of(Attribute(text)); }

std::string list_text(const std::vector<std::string>& words) {
  std::string text = " [";
  for (size_t i = 0; i < words.size(); ++i) text += (i ? "," : "") + quote(words[i]);
  return text + "]";
}

template <typename T>
T value_in(const Attributes& from, const std::string& name) {
  if constexpr (std::is_same_v<T, bool>) return from.get_bool(name);
  if constexpr (std::is_same_v<T, int64_t>) return from.get_int(name);
  if constexpr (std::is_same_v<T, double>) return from.get_float(name);
  if constexpr (std::is_same_v<T, std::string>) return from.get_string(name);
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return from.get_ints(name);
  if constexpr (std::is_same_v<T, TensorData>) return from.get_tensor(name);
}

// What a declaration says, as attributes. Each `describe` below is the one list of a declaration's fields, for printing
// and for reading; a field with its usual value is not printed.

class FieldPrinter {
 public:
  template <typename T>
  void field(const char* name, const T& value, const T& usual = {}) {
    if (!(value == usual)) fields_.set(name, value);
  }
  template <typename T>
  void optional(const char* name, const std::optional<T>& value) {
    if (value) fields_.set(name, *value);
  }
  template <typename E, typename NameOf>
  void choice(const char* name, const E& value, E usual, int, NameOf name_of) {
    if (value != usual) fields_.set(name, std::string(name_of(value)));
  }
  /// " {a=1, b=2}", or nothing.
  std::string text() const {
    std::string text;
    for (const auto& [name, value] : fields_) text += (text.empty() ? " {" : ", ") + name + "=" + short_text_of(value);
    return text.empty() ? "" : text + "}";
  }

 private:
  Attributes fields_;
};

class FieldReader {
 public:
  explicit FieldReader(Attributes fields) : fields_(std::move(fields)) {}

  template <typename T>
  void field(const char* name, T& value, const T& usual = {}) {
    value = take(name) ? value_in<T>(fields_, name) : usual;
  }
  template <typename T>
  void optional(const char* name, std::optional<T>& value) {
    if (take(name)) value = value_in<T>(fields_, name);
  }
  template <typename E, typename NameOf>
  void choice(const char* name, E& value, E usual, int count, NameOf name_of) {
    value = usual;
    if (!take(name)) return;
    const std::string& found = fields_.get_string(name);
    std::string known;
    for (int i = 0; i < count; ++i) {
      if (name_of(static_cast<E>(i)) == found) {
        value = static_cast<E>(i);
        return;
      }
      known += (i ? ", " : "") + std::string(name_of(static_cast<E>(i)));
    }
    throw Error({.what = std::string("unknown ") + name, .found = "'" + found + "'", .expected = known});
  }
  /// Throws Error when a field was not read.
  void finish() const {
    for (const auto& [name, value] : fields_) {
      if (taken_.count(name)) continue;
      const std::string near = nearest_name(name, known_);
      throw Error(
          {.what = "unknown attribute '" + name + "'", .expected = near.empty() ? "" : "perhaps '" + near + "'"});
    }
  }

 private:
  bool take(const char* name) {
    known_.insert(name);
    if (!fields_.has(name)) return false;
    taken_.insert(name);
    return true;
  }
  Attributes fields_;
  std::set<std::string> known_, taken_;
};

std::string_view name_of_how(Metric::How how) {
  static constexpr std::string_view kNames[] = {"mean", "sum", "ratio", "exp", "average"};
  return kNames[static_cast<size_t>(how)];
}
std::string_view name_of_when(When::Kind kind) {
  static constexpr std::string_view kNames[] = {"micro_batch", "steps", "request"};
  return kNames[static_cast<size_t>(kind)];
}
std::string_view name_of_kind(StateKind kind) { return name_of(kind); }
std::string_view name_of_init(StateInit::Kind kind) { return name_of(kind); }

template <typename Io, typename M>
void describe_model(Io& io, M& model) {
  io.field("flops_per_token", model.flops_per_token);
  io.field("tokens_per_micro_batch", model.tokens_per_micro_batch);
  io.field("packed_rows", model.packed_rows);
}

template <typename Io, typename U>
void describe_units(Io& io, U& units) {
  io.field("per_sample", units.per_sample, Units().per_sample);
  io.field("mask", units.mask);
}

template <typename Io, typename I>
void describe_input(Io& io, I& input) {
  io.optional("low", input.low);
  io.optional("high", input.high);
}

/// `blocks` and `padding`: those of the logical axes; empty where all are usual.
template <typename Io, typename S, typename L>
void describe_state(Io& io, S& state, L& blocks, L& padding) {
  const Fold usual;
  io.choice("kind", state.kind, StateKind::kWeight, kStateKindCount, name_of_kind);
  io.choice("first", state.init.kind, StateInit::Kind::kZeros, kStateInitKinds, name_of_init);
  io.field("a", state.init.a);
  io.field("b", state.init.b);
  io.field("function", state.init.function);
  io.optional("data", state.init.data);
  io.field("group", state.group);
  io.field("blocks", blocks);
  io.field("padding", padding);
  io.field("of", state.of);
  io.field("role", state.role);
  io.field("part", state.part);
  io.field("external_name", state.external_name);
  io.field("low_half", state.low_half);
  io.field("fold", state.fold.by, usual.by);
  io.field("momentum", state.fold.momentum, usual.momentum);
}

template <typename Io, typename M>
void describe_metric(Io& io, M& metric) {
  const Metric usual;
  io.choice("how", metric.how, usual.how, 5, name_of_how);
  io.field("numerator", metric.numerator);
  io.field("denominator", metric.denominator);
  io.field("numerator_is_mean", metric.numerator_is_mean);
  io.field("most_items", metric.most_items);
  io.field("held_out_only", metric.held_out_only);
}

template <typename Io, typename W>
void describe_when(Io& io, W& when) {
  const When usual;
  io.choice("when", when.kind, usual.kind, 3, name_of_when);
  io.field("every", when.every, usual.every);
  io.field("micro", when.micro, usual.micro);
}

// --- printing ---

std::string state_text(const char* word, const StateTensor& state) {
  std::vector<std::string> names;
  std::vector<int64_t> blocks, padding;
  for (const LogicalAxis& axis : state.axes)
    names.push_back(axis.name), blocks.push_back(axis.blocks), padding.push_back(axis.padding);
  if (std::all_of(blocks.begin(), blocks.end(), [](int64_t count) { return count == 1; })) blocks.clear();
  if (std::all_of(padding.begin(), padding.end(), [](int64_t count) { return count == 0; })) padding.clear();
  FieldPrinter fields;
  describe_state(fields, state, blocks, padding);
  return std::string(word) + " " + quote(state.name) + " : " + state.type.text() +
         (names.empty() ? "" : list_text(names)) + fields.text() + "\n";
}

/// Declarations of a model but its graphs.
std::string declarations_text(const Model& model, const Units& units) {
  FieldPrinter of_model, of_units;
  describe_model(of_model, model), describe_units(of_units, units);
  std::string text = "model " + quote(model.name) + of_model.text() + "\n";
  text += "units " + quote(units.name) + of_units.text() + "\n";
  const auto number = [&](const char* word, const std::string& name, const char* field, const Attribute& value) {
    text += std::string(word) + " " + quote(name) + " {" + field + "=" + ir::text_of(value) + "}\n";
  };
  for (const auto& [name, axis] : model.axes) number("axis", name, "shard", int64_t{axis});
  for (const auto& [name, count] : model.units_of_axes) number("axis_units", name, "count", count);
  for (const std::string& pass : model.passes) text += "pass " + quote(pass) + "\n";
  for (const InputSpec& input : model.inputs) {
    FieldPrinter fields;
    describe_input(fields, input);
    text += "input " + quote(input.name) + " : " + input.type.text() +
            (input.axes.empty() ? "" : list_text(input.axes)) + fields.text() + "\n";
  }
  for (const StateTensor& weight : model.weights) text += state_text("weight", weight);
  for (const StateTensor& state : model.states) text += state_text("state", state);
  for (const auto& [name, value] : model.deviations) number("deviation", name, "value", value);
  for (const Metric& metric : model.metrics) {
    FieldPrinter fields;
    describe_metric(fields, metric);
    text +=
        "metric " + quote(metric.name) + (metric.parts.empty() ? "" : list_text(metric.parts)) + fields.text() + "\n";
  }
  for (const std::string& guard : model.guards) text += "guard " + quote(guard) + "\n";
  return text;
}

// --- reading ---

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), in_(text, source) {}

  TextReader& in() { return in_; }
  std::pair<Model, Units> parse() {
    model_.axes.clear();
    header();
    while (!in_.at_end()) record();
    for (const char* word : {"model", "forward"})
      if (!once_.count(word)) in_.fail("the model lacks a declaration", std::string("'") + word + "'");
    check_states(model_);
    checked_inputs(model_);
    return {std::move(model_), std::move(units_)};
  }

 private:
  void header() {
    in_.expect_word("ramet"), in_.expect_word("model");
    const size_t place = in_.place();
    if (in_.integer() != kModelTextVersion)
      in_.fail_at(place, "the file of the model has a form that this version does not know",
                  std::to_string(kModelTextVersion));
  }

  void record() {
    using Read = void (Parser::*)();
    static const std::map<std::string, Read> kRecords = {
        {"model", &Parser::read_model},      {"units", &Parser::read_units},
        {"axis", &Parser::read_axis},        {"axis_units", &Parser::read_axis_units},
        {"pass", &Parser::read_pass},        {"input", &Parser::read_input},
        {"weight", &Parser::read_weight},    {"state", &Parser::read_state},
        {"metric", &Parser::read_metric},    {"deviation", &Parser::read_deviation},
        {"guard", &Parser::read_guard},      {"forward", &Parser::read_forward},
        {"program", &Parser::read_program},  {"evaluate", &Parser::read_evaluate},
        {"checksum", &Parser::read_checksum}};
    const size_t place = in_.place();
    word_ = in_.word();
    const auto found = kRecords.find(word_);
    if (found == kRecords.end()) {
      std::string known;
      for (const auto& [word, read] : kRecords) known += (known.empty() ? "" : ", ") + word;
      in_.fail_at(place, "an unknown declaration", known);
    }
    begin_ = place;
    (this->*found->second)();
  }

  void only_once() {
    if (!once_.insert(word_).second) in_.fail_at(begin_, "a second declaration of this kind");
  }
  /// Reads the braces of a declaration by `describe`.
  template <typename Describe>
  void fields(Describe describe) {
    const size_t place = in_.place();
    FieldReader reader(in_.attributes());
    in_.at(place, [&] { return describe(reader), reader.finish(), 0; });
  }
  /// NAME {FIELD=NUMBER}
  template <typename T>
  std::pair<std::string, T> number(const char* field) {
    std::pair<std::string, T> named{in_.string(), {}};
    const size_t place = in_.place();
    std::optional<T> value;
    fields([&](FieldReader& reader) { reader.optional(field, value); });
    if (!value) in_.fail_at(place, "a number is missing", std::string("{") + field + "=...}");
    named.second = *value;
    return named;
  }
  void require(bool holds, const char* what) {
    if (!holds) in_.fail_at(begin_, what);
  }
  TensorType type() {
    in_.expect(':');
    return in_.type();
  }
  std::vector<std::string> words() { return in_.peek() == '[' ? in_.strings() : std::vector<std::string>(); }

  void read_model() {
    only_once();
    model_.name = in_.string();
    fields([&](FieldReader& reader) { describe_model(reader, model_); });
  }
  void read_units() {
    only_once();
    units_.name = in_.string();
    fields([&](FieldReader& reader) { describe_units(reader, units_); });
    require(units_.per_sample >= 1, "a sample has one unit or more");
  }
  void read_axis() {
    const auto [name, shard] = number<int64_t>("shard");
    require(shard == 1 || shard == 2, "tensor shards have the axes 1 and 2 alone");
    model_.axes[name] = static_cast<int>(shard);
  }
  void read_axis_units() {
    const auto [name, count] = number<int64_t>("count");
    require(count >= 1, "an axis has one unit or more");
    model_.units_of_axes[name] = count;
  }
  void read_pass() { model_.passes.push_back(in_.string()); }
  void read_input() {
    InputSpec input{.name = in_.string(), .type = type(), .axes = words()};
    fields([&](FieldReader& reader) { describe_input(reader, input); });
    model_.inputs.push_back(std::move(input));
  }
  void read_weight() {
    model_.weights.push_back(state());
    require(model_.weights.back().kind == StateKind::kWeight, "a weight has another role");
  }
  void read_state() { model_.states.push_back(state()); }
  StateTensor state() {
    StateTensor state{.name = in_.string(), .type = type(), .kind = {}, .init = {}, .group = {}};
    const std::vector<std::string> names = words();
    std::vector<int64_t> blocks, padding;
    fields([&](FieldReader& reader) { describe_state(reader, state, blocks, padding); });
    for (const auto* list : {&blocks, &padding})
      require(list->empty() || list->size() == names.size(), "blocks and padding are one number an axis");
    for (size_t i = 0; i < names.size(); ++i)
      state.axes.push_back({names[i], blocks.empty() ? 1 : blocks[i], padding.empty() ? 0 : padding[i]});
    in_.at(begin_, [&] { return check_declared(state), 0; });
    return state;
  }
  void read_deviation() { model_.deviations.insert(number<double>("value")); }
  void read_metric() {
    Metric metric{.name = in_.string(), .numerator = {}};
    metric.parts = words();
    fields([&](FieldReader& reader) { describe_metric(reader, metric); });
    model_.metrics.push_back(std::move(metric));
  }
  void read_guard() { model_.guards.push_back(in_.string()); }
  void read_forward() {
    only_once();
    model_.forward = parse_graph(in_);
  }
  void read_evaluate() {
    only_once();
    model_.evaluate = parse_graph(in_);
  }
  void read_program() {
    NamedGraph program{.name = in_.string(), .graph = Graph()};
    fields([&](FieldReader& reader) { describe_when(reader, program.when); });
    const When& when = program.when;
    require(when.every >= 1 && when.micro >= -1, "a program runs at an impossible time");
    program.graph = parse_graph(in_);
    model_.programs.push_back(std::move(program));
  }
  void read_checksum() {
    const std::string expected = hash_text(text_.substr(0, begin_)).hex();
    require(
        in_.string() == expected,
        "the text before this checksum is not what was saved; after a change by hand, remove the line of the checksum");
    require(in_.at_end(), "there are declarations behind the checksum");
  }

  std::string_view text_;
  TextReader in_;
  std::string word_;  ///< of the declaration that is read, and where it begins
  size_t begin_ = 0;
  std::set<std::string> once_;
  Model model_;
  Units units_;
};

}  // namespace

std::string print_model(const Model& model, const Units& units) {
  std::string text = "ramet model " + std::to_string(kModelTextVersion) + "\n" + declarations_text(model, units);
  text += "forward\n" + print(model.forward, PrintedText::kListing);
  text += "evaluate\n" + print(model.evaluate, PrintedText::kListing);
  for (const NamedGraph& program : model.programs) {
    FieldPrinter fields;
    describe_when(fields, program.when);
    text += "program " + quote(program.name) + fields.text() + "\n" + print(program.graph, PrintedText::kListing);
  }
  return text;
}

std::pair<Model, Units> parse_model_text(std::string_view text, const std::string& source,
                                         std::function<const TensorData*(const std::string&)> tensor_of_hash) {
  Parser parser(text, source);
  parser.in().tensor_of_hash = std::move(tensor_of_hash);
  return parser.parse();
}

bool is_printed_whole(const TensorData& data) { return ir::short_text_of(data).ends_with("])"); }

}  // namespace ramet::model
