// Text that comes token by token.
#include "ramet/text/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/text/bpe.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<BpeTokenizer> tiny_bpe() {
  const auto samples = std::filesystem::path(RAMET_SOURCE_DIR) / "tests/samples/data";
  return BpeTokenizer::load(samples / "tiny-vocab.json", samples / "tiny-merges.txt", {});
}

/// What a stream gives for each byte of a text, taken for a token, and at the end.
std::vector<std::string> pieces_of(const std::string& text, std::vector<std::string> stop_words = {},
                                   std::string* whole = nullptr) {
  const auto tokenizer = tiny_bpe();
  TextStream stream(*tokenizer, std::move(stop_words));
  std::vector<std::string> pieces;
  for (const char byte : text) {
    std::vector<int32_t> found;
    for (int32_t id = 0; id < 256; ++id)
      if (tokenizer->decode(std::vector<int32_t>{id}) == std::string(1, byte)) found = {id};
    EXPECT_EQ(found.size(), 1u);
    pieces.push_back(stream.add(found.at(0)));
  }
  pieces.push_back(stream.rest());
  if (whole) *whole = stream.text();
  return pieces;
}

TEST(TextStream, GivesWholeCharactersOnly) {
  EXPECT_THAT(pieces_of("a\xC3\xA9z"), ElementsAre("a", "", "\xC3\xA9", "z", ""));
  EXPECT_THAT(pieces_of("\xF0\x9F\x98\x80"), ElementsAre("", "", "", "\xF0\x9F\x98\x80", ""));
  // What never becomes a character comes at the end, or when the next one begins.
  EXPECT_THAT(pieces_of("\xC3"), ElementsAre("", "\xC3"));
  EXPECT_THAT(pieces_of("\xC3z"), ElementsAre("", "\xC3z", ""));
}

TEST(TextStream, EndsBeforeAStopWordAndHoldsBackItsBeginning) {
  std::string whole;
  EXPECT_THAT(pieces_of("ab\n\nc", {"\n\n"}, &whole), ElementsAre("a", "b", "", "", "", ""));
  EXPECT_EQ(whole, "ab");
  EXPECT_THAT(pieces_of("a\nb", {"\n\n"}, &whole), ElementsAre("a", "", "\nb", ""));
  EXPECT_EQ(whole, "a\nb");
  // The first in the text counts, whichever is named first; a word that begins with itself again is found.
  EXPECT_THAT(pieces_of("xaab", {"b", "aab"}, &whole), ElementsAre("x", "", "", "", ""));
  EXPECT_EQ(whole, "x");
  EXPECT_THAT(pieces_of("aaab", {"aab"}, &whole), ElementsAre("", "", "a", "", ""));
  EXPECT_EQ(whole, "a");
}

TEST(TextStream, ATokenOfManyBytesMayHoldAStopWord) {
  const auto tokenizer = tiny_bpe();
  TextStream stream(*tokenizer, {"ow"});
  EXPECT_EQ(stream.add(257), "l");  // "low"
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.add(259), "");
  EXPECT_EQ(stream.text(), "l");
}

TEST(TextStream, RefusesAnEmptyStopWord) {
  EXPECT_THAT(error_of([&] { pieces_of("a", {""}); }), HasSubstr("a stop word is empty"));
}

}  // namespace
}  // namespace ramet::tests
