// Units given by hand: `shard` refuses what a module could not have.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using torch::Tensor;

Tensor parameter() { return torch::ones({3}, torch::requires_grad()); }

void expect_refused(const std::vector<NamedUnit>& units, const ::testing::Matcher<std::string>& says) {
  run_ranks(1, [&](World& world) { EXPECT_THAT(message_of<Error>([&] { shard(units, world); }), says); });
}

TEST(NamedUnits, EqualNamesOfParametersAreAnError) {
  const auto says = AllOf(HasSubstr("two parameters"), HasSubstr("named w"), HasSubstr("a name of its own"));
  expect_refused({{"a", {{"w", parameter()}}, {}}, {"b", {{"w", parameter()}}, {}}}, says);
  expect_refused({{"a", {{"w", parameter()}, {"w", parameter()}}, {}}}, says);
}

TEST(NamedUnits, EqualNamesOfBuffersAreAnError) {
  expect_refused({{"a", {{"w", parameter()}}, {{"k", torch::ones({2})}, {"k", torch::ones({2})}}}},
                 AllOf(HasSubstr("two buffers"), HasSubstr("named k")));
}

TEST(NamedUnits, EqualNamesOfUnitsAreAnError) {
  expect_refused({{"a", {{"v", parameter()}}, {}}, {"a", {{"w", parameter()}}, {}}},
                 AllOf(HasSubstr("two units"), HasSubstr("named a")));
}

TEST(NamedUnits, UndefinedTensorsAreErrorsThatNameThem) {
  expect_refused({{"a", {{"w", parameter()}, {"v", Tensor()}}, {}}},
                 AllOf(HasSubstr("unit=a"), HasSubstr("parameter v is undefined")));
  expect_refused({{"a", {{"w", parameter()}}, {{"k", Tensor()}}}},
                 AllOf(HasSubstr("unit=a"), HasSubstr("buffer k is undefined")));
}

TEST(NamedUnits, AParameterWhoseElementsShareMemoryIsAnErrorThatSaysContiguous) {
  const auto says = AllOf(HasSubstr("parameter w"), HasSubstr("share memory"), HasSubstr("contiguous()"));
  expect_refused({{"a", {{"w", torch::ones({3, 1}).expand({3, 4}).set_requires_grad(true)}}, {}}}, says);
  expect_refused({{"a", {{"w", torch::ones({5}).as_strided({3, 3}, {1, 1}).set_requires_grad(true)}}, {}}}, says);
}

TEST(NamedUnits, ColumnsOfAMatrixAreAParameterAsAnyOther) {
  run_ranks(1, [](World& world) {
    const Tensor columns = torch::arange(12).to(torch::kFloat).view({3, 4}).slice(1, 0, 4, 2).set_requires_grad(true);
    auto sharded = shard(std::vector<NamedUnit>{{"a", {{"w", columns}}, {}}}, world);
    EXPECT_TRUE(torch::equal(sharded.full_state()[0].second, torch::tensor({{0.f, 2.f}, {4.f, 6.f}, {8.f, 10.f}})));
  });
}

}  // namespace
}  // namespace fsdp
