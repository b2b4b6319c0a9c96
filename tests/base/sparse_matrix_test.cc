#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/sparse.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using v0::BlockSize;
using v0::SparseMatrix;

std::vector<float> random_numbers(int64_t count, double density, uint64_t seed) {
  const RandomStream random(seed, RandomPurpose::kTest, 0, 3);
  std::vector<float> numbers(static_cast<size_t>(count), 0.0f);
  for (uint64_t i = 0; i < numbers.size(); ++i)
    if (random.uniform(2 * i) < density) numbers[i] = random.uniform(2 * i + 1) - 0.5f;
  return numbers;
}

TEST(SparseMatrix, EveryFormatComesBackAsTheSameMatrix) {
  for (const BlockSize block : {BlockSize{1, 1}, {4, 4}, {2, 3}, {12, 1}, {1, 12}, {12, 12}})
    for (const double density : {0.0, 0.05, 0.5, 1.0}) {
      const std::vector<float> numbers = random_numbers(24 * 36, density, 1);
      const SparseMatrix matrix = SparseMatrix::from_dense(24, 36, numbers, block);
      EXPECT_EQ(matrix.dense(), numbers);
      EXPECT_EQ(SparseMatrix::from(matrix.bsr()), matrix);
      EXPECT_EQ(SparseMatrix::from(matrix.triplets()), matrix);
      const SparseMatrix elements = matrix.with_block({});
      EXPECT_EQ(SparseMatrix::from(matrix.coo()), elements);
      EXPECT_EQ(SparseMatrix::from(matrix.csr()), elements);
      EXPECT_EQ(SparseMatrix::from(matrix.csc()), elements);
      EXPECT_EQ(SparseMatrix::from(matrix.cells()), matrix);
      EXPECT_EQ(elements.with_block(block), matrix) << "smaller blocks lose nothing";
      EXPECT_DOUBLE_EQ(elements.density(), matrix.density());
    }
}

// torch.tensor([[0, 0, 1, 2], [0, 0, 3, 4], [5, 0, 0, 0], [0, 6, 0, 0]]).to_sparse_bsr((2, 2)), .to_sparse_csc()
TEST(SparseMatrix, HasTheListsThatPyTorchHas) {
  const std::vector<float> numbers{0, 0, 1, 2, 0, 0, 3, 4, 5, 0, 0, 0, 0, 6, 0, 0};
  const SparseMatrix matrix = SparseMatrix::from_dense(4, 4, numbers, {2, 2});
  const v0::BsrMatrix bsr = matrix.bsr();
  EXPECT_THAT(bsr.first, ElementsAre(0, 1, 2));
  EXPECT_THAT(bsr.column, ElementsAre(1, 0));
  EXPECT_THAT(bsr.values, ElementsAre(1, 2, 3, 4, 5, 0, 0, 6));
  const v0::CscMatrix csc = SparseMatrix::from_dense(4, 4, numbers).csc();
  EXPECT_THAT(csc.first, ElementsAre(0, 1, 2, 4, 6));
  EXPECT_THAT(csc.row, ElementsAre(2, 3, 0, 1, 0, 1));
  EXPECT_THAT(csc.values, ElementsAre(5, 6, 1, 3, 2, 4));
}

TEST(SparseMatrix, EntriesMayComeInAnyOrder) {
  const v0::CooMatrix unsorted{2, 3, {1, 0, 1}, {2, 1, 0}, {3, 1, 2}};
  const v0::CooMatrix coo = SparseMatrix::from(unsorted).coo();
  EXPECT_THAT(coo.row, ElementsAre(0, 1, 1));
  EXPECT_THAT(coo.column, ElementsAre(1, 0, 2));
  EXPECT_THAT(coo.values, ElementsAre(1, 2, 3));
}

TEST(SparseMatrix, CellsHoldTheirOwnNumbers) {
  const v0::SparseCells cells{.cells_down = 2,
                              .cells_across = 2,
                              .cell_rows = 2,
                              .cell_columns = 4,
                              .block = {1, 2},
                              .slots = 1,
                              .index = {0, 3, 2, 1},
                              .values = {1, 2, 3, 4, 5, 6, 7, 8}};
  const SparseMatrix matrix = SparseMatrix::from(cells);
  EXPECT_THAT(matrix.dense(), ElementsAre(1, 2, 0, 0, 0, 0, 0, 0,  //
                                          0, 0, 0, 0, 0, 0, 3, 4,  //
                                          0, 0, 0, 0, 0, 0, 7, 8,  //
                                          5, 6, 0, 0, 0, 0, 0, 0));
  const v0::SparseCells back = matrix.cells(2, 2);
  EXPECT_EQ(back.index, cells.index);
  EXPECT_EQ(back.values, cells.values);
  EXPECT_EQ(back.slots, 1);
}

TEST(SparseMatrix, RefusesWhatDoesNotFit) {
  using v0::CooMatrix;
  EXPECT_THAT(error_of([] { SparseMatrix::from_dense(3, 4, std::vector<float>(12), {2, 2}); }),
              HasSubstr("must divide it"));
  EXPECT_THAT(error_of([] { SparseMatrix::from_dense(2, 2, std::vector<float>(3)); }), HasSubstr("numbers"));
  EXPECT_THAT(error_of([] { SparseMatrix::from_dense(-2, 2, {}); }), HasSubstr("must divide it"));
  EXPECT_THAT(error_of([] { SparseMatrix::from(CooMatrix{2, 2, {0, 2}, {0, 0}, {1, 1}}); }),
              AllOf(HasSubstr("outside of a sparse matrix"), HasSubstr("row of entry 1")));
  EXPECT_THAT(error_of([] { SparseMatrix::from(CooMatrix{2, 2, {0, 0}, {0, -1}, {1, 1}}); }),
              HasSubstr("column of entry 1"));
  EXPECT_THAT(error_of([] { SparseMatrix::from(CooMatrix{2, 2, {1, 1}, {0, 0}, {1, 1}}); }),
              AllOf(HasSubstr("stored twice"), HasSubstr("row 1, column 0")));
  EXPECT_THAT(error_of([] { SparseMatrix::from(CooMatrix{2, 2, {1}, {0, 0}, {1}}); }), HasSubstr("rows and columns"));
  EXPECT_THAT(error_of([] { SparseMatrix::from(CooMatrix{2, 2, {1}, {0}, {1, 2}}); }), HasSubstr("values"));
  EXPECT_THAT(error_of([] { SparseMatrix::from(v0::CsrMatrix{2, 2, {0, 2, 1}, {0}, {1}}); }),
              HasSubstr("starts of lines"));
  EXPECT_THAT(error_of([] { SparseMatrix::from(v0::CsrMatrix{2, 2, {0, 1}, {0}, {1}}); }),
              HasSubstr("starts of lines"));
  EXPECT_THAT(error_of([] { SparseMatrix::from(v0::CsrMatrix{2, 2, {0, 0, 0}, {0}, {1}}); }), HasSubstr("entries"));
  EXPECT_THAT(error_of([] { SparseMatrix::from_dense(2, 2, std::vector<float>{1, 0, 0, 0}).cells(2, 1); }),
              AllOf(HasSubstr("equally many"), HasSubstr("cell 0")));
  EXPECT_THAT(error_of([] { SparseMatrix::from_dense(2, 2, std::vector<float>{1, 0, 0, 0}).cells(3, 1); }),
              HasSubstr("whole blocks"));
}

}  // namespace
}  // namespace ramet::tests
