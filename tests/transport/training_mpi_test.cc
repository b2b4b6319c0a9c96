// Workloads of no recipe over MPI ranks: equal bits, tensors gathered from all ranks, and data that fails. Runs
// tests/mpi/ranks.cc under mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/mpi_ranks.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

class TrainingRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  }
};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

struct Job {
  int ranks;
  const char* layout;
};
const Job kJobs[] = {{2, "t=2"},
                     {4, "t=4"},
                     {2, "t=4"},  // two devices a rank
                     {4, "p=2 t=2"},
                     {2, "p=2 phases=1 offload=optimizer"},
                     {2, "r=2 rts=optimizer"},
                     {4, "r=2 t=2 rts=weights,grads,optimizer"}};

TEST_F(TrainingRanks, GiveEveryBitOfOneProcess) {
  const RanksOutcome one = run_ranks(0, "training ''");
  ASSERT_EQ(one.status, 0) << one.output;
  for (const char* line : {"step 4: loss=", "evaluation: loss=", "near_share=", "\nmean f32[8]", "\nplaces i32[8]",
                           "\nrows1 f32[8,8]", "\nweights "})
    EXPECT_THAT(one.output, HasSubstr(line));
  for (const Job& job : kJobs) {
    const RanksOutcome many = run_ranks(job.ranks, "training '" + std::string(job.layout) + "'");
    EXPECT_EQ(many.output, one.output) << job.ranks << " ranks, " << job.layout;
    EXPECT_EQ(many.status, 0);
  }
}

TEST_F(TrainingRanks, GatherTheTensorsOfOneProcess) {
  const RanksOutcome one = run_ranks(0, "tensors ''");
  ASSERT_EQ(one.status, 0) << one.output;
  for (const char* line : {"4 nodes0 f32[4,6,8]", "4 positive1 bool[4,6,8]", "4 strongest1 i32[4,6]",
                           "4 short0 bf16[4,6,8]", "4 places i32[8]", "4 wide f32[2,16]", "4 off f32[2]"})
    EXPECT_THAT(one.output, HasSubstr(line));
  const size_t last = one.output.find("everywhere ");
  ASSERT_NE(last, std::string::npos);
  const std::string leading = one.output.substr(0, last), everywhere = one.output.substr(last);
  for (const Job& job : kJobs) {
    SCOPED_TRACE(std::to_string(job.ranks) + " ranks, " + job.layout);
    std::string output = run_ranks(job.ranks, "tensors '" + std::string(job.layout) + "'").output;
    EXPECT_EQ(count_of(output, everywhere), job.ranks);
    for (size_t at; (at = output.find(everywhere)) != std::string::npos;) output.erase(at, everywhere.size());
    EXPECT_EQ(output, leading);
  }
}

/// A fault on one rank, or on all (-1), and what every rank says.
struct Fault {
  const char* what;
  int rank;
  Job job;
  const char* message;
};

/// Runs with --enable-recovery, so that each rank ends by itself and not because another one did. The launcher then
/// gives no status of its own.
void expect_all_end(const Fault& fault) {
  SCOPED_TRACE(std::string(fault.what) + " on rank " + std::to_string(fault.rank) + ", " + fault.job.layout);
  const RanksOutcome outcome =
      run_ranks(fault.job.ranks,
                "fault '" + std::string(fault.job.layout) + "' '" + fault.what + "' " + std::to_string(fault.rank),
                "--enable-recovery");
  for (int rank = 0; rank < fault.job.ranks; ++rank) {
    const std::string output = "\n" + outcome.output;
    const size_t begin = output.find("\nrank " + std::to_string(rank) + ": ");
    ASSERT_NE(begin, std::string::npos) << "rank " << rank << " says nothing\n" << outcome.output;
    const std::string line = output.substr(begin + 1, output.find('\n', begin + 1) - begin - 1);
    EXPECT_THAT(line, HasSubstr(fault.message));
    if (fault.rank >= 0 && rank != fault.rank) {
      EXPECT_THAT(line, HasSubstr("rank " + std::to_string(fault.rank)));
    }
  }
  EXPECT_LT(outcome.seconds, 10) << "by a time limit";
}

TEST_F(TrainingRanks, EndWhenASourceFails) {
  for (const Fault& fault : {Fault{"error", 1, {2, "t=2"}, "a file ends early"},
                             Fault{"error", -1, {2, "r=2 rts=optimizer"}, "a file ends early"},
                             Fault{"exception", 3, {4, "p=2 t=2"}, "the network has gone"},
                             Fault{"exception", -1, {2, "t=2"}, "the network has gone"},
                             Fault{"held-out error", 1, {2, "p=2"}, "a file ends early"},
                             Fault{"asked error", 0, {2, "t=2"}, "a file ends early"},
                             Fault{"asked error", 1, {2, "r=2"}, "a file ends early"},
                             Fault{"signature", 1, {2, "t=2"}, "the description of the samples is lost"}})
    expect_all_end(fault);
}

TEST_F(TrainingRanks, GiveTheLauncherAStatusOfFailure) {
  const RanksOutcome outcome = run_ranks(2, "fault 't=2' error 1");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("a file ends early"));
}

TEST_F(TrainingRanks, EndWhenTheDataIsNotTheModels) {
  const std::string outside = "a value of the data is outside what the model takes; found 5; expected 0 to 4";
  for (const Fault& fault :
       {Fault{"outside", 1, {2, "p=2"}, outside.c_str()}, Fault{"outside", -1, {2, "r=2"}, outside.c_str()},
        Fault{"name", -1, {2, "t=2"}, "'kind' i32[2] is missing (there is 'kinds')"},
        Fault{"name", 1, {2, "t=2"}, "'kind' i32[2] is missing (there is 'kinds')"},
        Fault{"type", 0, {4, "t=4"}, "'kind' has elements of i64, not i32"},
        Fault{"shape", 3, {4, "t=4"}, "'scales' is f32[2,7], not f32[2,8]"}})
    expect_all_end(fault);
}

TEST_F(TrainingRanks, EndWhenWhatACallerFeedsIsNotTheModels) {
  for (const Fault& fault :
       {Fault{"fed name", 1, {2, "t=2"}, "a data input was not fed"},
        Fault{"fed too little", 1, {2, "r=2"}, "a data input was not fed"},
        Fault{"fed type", 1, {2, "t=2"}, "'scales': a feed is of another type than the input; found i32[2,8]"},
        Fault{"fed shape", -1, {2, "t=2"}, "'scales': a feed is of another type than the input; found f32[8,2]"},
        Fault{"stream", 1, {2, "t=2"}, "'kind': a tensor of a batch has another size than its type; found 4 bytes"},
        Fault{"stream", 0, {2, "p=2"}, "'kind': a tensor of a batch has another size than its type; found 4 bytes"}})
    expect_all_end(fault);
}

TEST_F(TrainingRanks, EndWhenAnEvaluatorFails) {
  expect_all_end({"evaluator", 0, {2, "t=2"}, "the answers cannot be judged"});
  expect_all_end({"evaluator", 1, {2, "p=2"}, "the answers cannot be judged"});
}

}  // namespace
}  // namespace ramet::tests
