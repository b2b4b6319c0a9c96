#include "fuzz/mutate.h"

#include <gtest/gtest.h>

#include <set>

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::tests::fuzz {
namespace {

const std::vector<std::string> kInputs = {"steps = 100\nseed = 7\n", std::string("\x10\0\0\0\0\0\0\0{}", 10), ""};

TEST(Mutator, TheSameSeedGivesTheSameInputs) {
  Mutator a(1, {"steps"}), b(1, {"steps"}), c(2, {"steps"});
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string from_a = a.mutate(kInputs);
    EXPECT_EQ(from_a, b.mutate(kInputs));
    different += from_a != c.mutate(kInputs);
  }
  EXPECT_GT(different, 150);
}

TEST(Mutator, InputsDifferAndStayBounded) {
  Mutator mutator(3, {"lanes"});
  std::set<std::string> seen;
  bool longer = false, shorter = false, word = false;
  for (int i = 0; i < 2000; ++i) {
    const std::string input = mutator.mutate({kInputs[0]}, 500);
    ASSERT_LE(input.size(), 500u);
    seen.insert(input);
    longer |= input.size() > kInputs[0].size();
    shorter |= input.size() < kInputs[0].size();
    word |= input.find("lanes") != input.npos;
  }
  EXPECT_GT(seen.size(), 1500u);
  EXPECT_TRUE(longer && shorter && word);
}

TEST(Mutator, WorksFromNothing) {
  Mutator mutator(4);
  for (int i = 0; i < 500; ++i) mutator.mutate({});
  for (int i = 0; i < 500; ++i) mutator.mutate({""});
}

void refuses(std::string_view) { throw Error({.what = "bad input"}); }
void is_at_fault(std::string_view) { internal_error("parse", "state 7"); }
void throws_another(std::string_view) { throw std::out_of_range("vector"); }
void breaks_on_long_input(std::string_view input) {
  if (input.size() > 30) std::abort();
}

TEST(Survive, LetsErrorsPassAndNothingElse) {
  survive(refuses, "x");
  EXPECT_DEATH(survive(is_at_fault, "x"), "input must not reach this: parse: internal error: state 7");
  EXPECT_DEATH(survive(throws_another, "x"), "bad input must throw ramet::Error, not: vector");
}

TEST(RunMutations, NamesTheMutationThatBroke) {
  EXPECT_DEATH(run_mutations("nowhere", breaks_on_long_input, {kInputs, {}}),
               "target nowhere ended at mutation [0-9]+");
}

TEST(AsFile, HoldsWhatItWasGivenLast) {
  EXPECT_EQ(read_file(as_file("hello")), "hello");
  EXPECT_EQ(read_file(as_file("")), "");
  EXPECT_EQ(MappedFile(as_file("again")).view(), "again");
}

TEST(EmptyFolder, IsEmptyEachTime) {
  const auto other = empty_folder("other") / "kept";
  write_file_atomic(other, "x");
  write_file_atomic(empty_folder("one") / "a", "x");
  EXPECT_TRUE(std::filesystem::is_empty(empty_folder("one")));
  EXPECT_EQ(read_file(other), "x");
}

}  // namespace
}  // namespace ramet::tests::fuzz
