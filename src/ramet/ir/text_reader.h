#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/ir/graph.h"

namespace ramet::ir {

/// Reads the words of a text form, one after another: of graphs (ir/text.h), and of whole models. Blanks, ends of lines
/// and comments (from # to the end of the line) separate words and mean nothing else. A text that does not fit throws
/// Error with SOURCE:LINE:COLUMN and with the text that was found and the one expected. Sizes are bounded, so that no
/// text takes more memory than its own length.
class TextReader {
 public:
  /// `source` names the text in messages. `text` must outlive the reader.
  TextReader(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  /// The tensor that a text names by its hash alone, or null: for files that keep the bytes of large tensors elsewhere.
  std::function<const TensorData*(const std::string& hash)> tensor_of_hash{};

  /// Throws at the place that is read next, or at `place`.
  [[noreturn]] void fail(const std::string& what, const std::string& expected = "") const;
  [[noreturn]] void fail_at(size_t place, const std::string& what, const std::string& expected = "");
  /// Where the next word begins, for `fail_at`.
  size_t place() {
    skip_space();
    return position_;
  }
  /// "model.ramet:12:5"
  std::string text_of_place(size_t place) const;
  bool at_end() { return place() == text_.size(); }

  /// The next character, 0 at the end.
  char peek();
  bool accept(char c);
  void expect(char c);
  std::string word();  ///< of letters, digits and _
  void expect_word(const std::string& expected);
  std::string string();  ///< in quotes
  int64_t integer();
  int32_t number_up_to(int32_t most);  ///< 0 to `most`
  std::vector<int64_t> integers();     ///< [1,2]
  std::vector<std::string> strings();  ///< ["a","b"]
  TensorType type();
  Attribute attribute();
  Attributes attributes();  ///< {a=1, b="text"}; none where there is no brace

  /// Reads again from a place where something began.
  void back_to(size_t place) { position_ = place; }
  /// Runs an edit. Errors that it throws get the place in the text, and `before` in front of their message.
  template <typename Edit>
  auto at(size_t place, Edit edit, const std::string& before = "") {
    try {
      return edit();
    } catch (const Error& error) {
      fail_at(place, before + error.what());
    }
  }

 private:
  void skip_space();
  Attribute number();
  void element(DType dtype, std::vector<std::byte>& bytes);
  TensorData tensor();

  std::string_view text_;
  std::string source_;
  size_t position_ = 0;
};

/// The graph that a text goes on with, verified.
Graph parse_graph(TextReader& in);

}  // namespace ramet::ir
