// Each matrix of a unit is worked on by one rank, and every rank gets its pieces of the result.
#include "optim/whole_matrices.h"

#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "engine/model.h"
#include "optim/divided_matrices.h"
#include "optim/newton_schulz.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp::optim {
namespace {

using fsdp::testing::run_ranks;
using testing_models::make_gpt;

// The matrices of a block, and what becomes of them.
std::vector<MatrixPiece> matrices_of(const engine::Model& model, const engine::ShardedUnit& unit) {
  std::vector<MatrixPiece> pieces;
  for (size_t i = 0; i < unit.parameters.size(); ++i) {
    if (unit.shapes[i].sizes.size() == 2) pieces.push_back({i, model.parameters()[unit.first_piece + i].piece.clone()});
  }
  return pieces;
}

// Calls `function` for each matrix.
void transform(WholeMatrices& wholes, const engine::ShardedUnit& unit, const std::vector<MatrixPiece>& pieces,
               const MatrixFunction& function) {
  std::vector<int64_t> work;
  for (const MatrixPiece& one : pieces) work.push_back(newton_schulz_work(unit.shapes[one.parameter].sizes));
  wholes.transform(unit, pieces, work, [&](const std::vector<UnitMatrix>& own) {
    for (const UnitMatrix& one : own) apply(function, one.values);
  });
}

torch::Tensor reversed(const torch::Tensor& matrix) { return matrix.flip({0, 1}); }

// Blocks have matrices of 96 x 32, 32 x 32, 128 x 32 and 32 x 128.
constexpr int64_t kMiddle = 96 * 32 * 32, kSmall = 32 * 32 * 32, kLarge = 128 * 32 * 32;

void expect_work(int ranks, const std::vector<int64_t>& expected) {
  run_ranks(ranks, [&](World& world) {
    auto gpt = make_gpt(2);
    auto sharded = shard(*gpt.module, world, {.units = units_by([](const std::string& name, const auto&) {
                                                return name == "blocks.0" || name == "blocks.1";
                                              })});
    engine::Model& model = sharded.model();
    WholeMatrices wholes(model.group());
    int64_t work = 0;
    for (const auto& unit : model.units()) {
      if (unit->name.find("blocks") == std::string::npos) continue;
      transform(wholes, *unit, matrices_of(model, *unit), [&](const torch::Tensor& matrix) {
        work += matrix.numel() * std::min(matrix.size(0), matrix.size(1));
        return matrix;
      });
    }
    const auto all = world.all_gather(torch::tensor(work));
    for (size_t rank = 0; rank < expected.size(); ++rank) EXPECT_EQ(all[rank].item<int64_t>(), expected[rank]) << rank;
  });
}

TEST(WholeMatrices, AreDividedAmongRanksByWork) {
  expect_work(1, {2 * (kMiddle + kSmall + 2 * kLarge)});
  // In the first unit rank 0 has more to do, in the second rank 1.
  expect_work(2, {kMiddle + kSmall + 2 * kLarge, kMiddle + kSmall + 2 * kLarge});
  // Two ranks have a large one each, the third the others, which are as much.
  expect_work(3, {2 * kLarge, 2 * kLarge, 2 * (kMiddle + kSmall)});
}

TEST(WholeMatrices, EveryRankGetsItsPiecesOfTheResult) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    run_ranks(ranks, [](World& world) {
      auto gpt = make_gpt(2), whole = make_gpt(2);
      auto sharded = shard(*gpt.module, world);
      const auto expected = whole.module->named_parameters();
      engine::Model& model = sharded.model();
      WholeMatrices wholes(model.group());
      for (const auto& unit : model.units()) {
        const auto pieces = matrices_of(model, *unit);
        transform(wholes, *unit, pieces, reversed);
        for (const MatrixPiece& one : pieces) {
          const ShardedParameter& parameter = model.parameters()[unit->first_piece + one.parameter];
          const torch::Tensor flat = reversed(expected[parameter.name].detach()).flatten();
          EXPECT_TRUE(torch::equal(one.piece, flat.slice(0, parameter.offset, parameter.offset + one.piece.numel())))
              << parameter.name;
        }
      }
    });
  }
}

}  // namespace
}  // namespace fsdp::optim
