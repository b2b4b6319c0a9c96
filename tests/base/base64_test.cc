#include "ramet/base/base64.h"

#include <gtest/gtest.h>

namespace ramet::tests {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// The test vectors of RFC 4648.
TEST(Base64, IsThatOfTheStandard) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : cases) {
    EXPECT_EQ(base64(bytes_of(plain)), coded);
    EXPECT_EQ(bytes_of_base64(coded), bytes_of(plain));
  }
}

TEST(Base64, EveryByteComesBack) {
  std::vector<std::byte> all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<std::byte>(i));
    EXPECT_EQ(bytes_of_base64(base64(all)), all);
  }
}

TEST(Base64, OtherTextsAreRefused) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm9!"})
    EXPECT_EQ(bytes_of_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace ramet::tests
