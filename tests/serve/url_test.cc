#include "ramet/serve/url.h"

#include <gtest/gtest.h>

#include "ramet/serve/gzip.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

TEST(Url, PercentEncodingComesBack) {
  for (const std::string text : {"", "plain", "a b/c?d=e&f", "Größe", "\x01\x7f", "100%"})
    EXPECT_EQ(percent_decode(percent_encode(text)), text);
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  EXPECT_EQ(percent_decode("a+b", false), "a+b");
}

TEST(Url, BadEncodingIsRefused) {
  for (const char* text : {"%", "%4", "%zz", "%ff", "%c0%af", "%ed%a0%80", "%f5%80%80%80", "%e2%82"})
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
}

TEST(Url, TargetsAreTakenApart) {
  const Target target = parse_target("/api/v1/runs/a%2Fb?limit=10&filter=x+%3D+%221%22&flag");
  EXPECT_EQ(target.segments, (std::vector<std::string>{"api", "v1", "runs", "a/b"}));
  ASSERT_EQ(target.query.size(), 3u);
  EXPECT_EQ(target.query[1].second, "x = \"1\"");
  EXPECT_EQ(target.query[2], (std::pair<std::string, std::string>{"flag", ""}));
  EXPECT_TRUE(parse_target("/").segments.empty());
}

TEST(Url, TargetsThatLeadOutAreRefused) {
  for (const char* target :
       {"/../etc/passwd", "/a/./b", "/a/%2e%2e/b", "/a/%2E%2e", "/..", "/%00", "api", "http://x/", ""})
    EXPECT_NE(error_of([&] { parse_target(target); }), "no error") << target;
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "/a";
  EXPECT_NE(error_of([&] { parse_target(deep); }), "no error");
}

TEST(Url, QueriesRefuseWhatNobodyAsksFor) {
  const std::vector<std::pair<std::string, std::string>> pairs = {{"limit", "10"}, {"colums", "loss"}};
  Query query(pairs);
  EXPECT_EQ(query.number("limit", 1, 0, 100), 10);
  EXPECT_TRUE(query.list("columns").empty());
  EXPECT_EQ(error_of([&] { query.finish(); }),
            "the query has an unknown key; found 'colums'; expected perhaps 'columns'");
}

TEST(Url, QueryNumbersAreChecked) {
  for (const char* text : {"x", "1.5", "101", "-1", "1 ", "99999999999999999999"}) {
    const std::vector<std::pair<std::string, std::string>> pairs = {{"limit", text}};
    Query query(pairs);
    EXPECT_NE(error_of([&] { query.number("limit", 1, 0, 100); }), "no error") << text;
  }
  const std::vector<std::pair<std::string, std::string>> twice = {{"limit", "1"}, {"limit", "2"}};
  Query query(twice);
  EXPECT_NE(error_of([&] { query.number("limit", 1, 0, 100); }), "no error");
}

TEST(Url, HostsAreRead) {
  EXPECT_EQ(parse_host("LocalHost:8420"), (HostPort{"localhost", 8420, false}));
  EXPECT_EQ(parse_host("127.0.0.1"), (HostPort{"127.0.0.1", 0, true}));
  EXPECT_EQ(parse_host("[::1]:80"), (HostPort{"::1", 80, true}));
  EXPECT_EQ(parse_host("name."), (HostPort{"name", 0, false}));
  for (const char* text : {"", "a b", "a:0", "a:x", "a:99999", "[::1", "[x]", "a/b", "a@b", "a:1:2", "[::1]x"})
    EXPECT_EQ(parse_host(text), std::nullopt) << text;
  EXPECT_EQ(parse_origin("https://a.example"), (HostPort{"a.example", 443, false}));
  for (const char* text : {"null", "file://", "http://", "ftp://a", "http://a/"})
    EXPECT_EQ(parse_origin(text), std::nullopt) << text;
}

TEST(Url, NamesOfFiles) {
  EXPECT_TRUE(is_hash("0123456789abcdef0123456789abcdef"));
  for (const char* text : {"", "0123456789ABCDEF0123456789abcdef", "../../../../etc/passwd\0\0\0\0\0\0\0\0", "0123"})
    EXPECT_FALSE(is_hash(text)) << text;
  EXPECT_TRUE(is_plain_name("my-view-2"));
  for (const std::string& text :
       {std::string(), std::string("A"), std::string("a.b"), std::string("a/b"), std::string(81, 'a')})
    EXPECT_FALSE(is_plain_name(text)) << text;
  EXPECT_TRUE(is_file_name("2026-11-23-bert-a1b2c3"));
  for (const std::string& text :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a\0b", 3)})
    EXPECT_FALSE(is_file_name(text)) << text;
}

TEST(Gzip, ComesBack) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += std::to_string(i) + ",";
  EXPECT_EQ(gunzip(gzip(text)), text);
  EXPECT_LT(gzip(text).size(), text.size() / 2);
  EXPECT_EQ(gunzip(gzip("")), "");
  const std::string packed = gzip(text);
  EXPECT_NE(error_of([&] { gunzip(packed.substr(0, packed.size() / 2)); }), "no error");
  EXPECT_NE(error_of([&] { gunzip("no gzip"); }), "no error");
  EXPECT_NE(error_of([&] { gunzip(gzip(std::string(1 << 20, 'a')), 1000); }), "no error");
}

TEST(Gzip, IsSentToThoseThatTakeIt) {
  for (const char* header : {"gzip", "deflate, gzip;q=0.5", "*", "br, GZIP"}) EXPECT_TRUE(takes_gzip(header)) << header;
  for (const char* header : {"", "br", "gzip;q=0", "identity", "*;q=0", "gzip;q=0.000"})
    EXPECT_FALSE(takes_gzip(header)) << header;
}

}  // namespace
}  // namespace ramet::tests
