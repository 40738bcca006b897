// The gradients that autograd brings for one unit, and where they go.
#include "engine/unit_gradients.h"

#include <gmock/gmock.h>

#include "collectives/presence.h"

namespace fsdp::engine {
namespace {

using collectives::kLeftOut;
using collectives::kMissing;
using collectives::kPresent;
using ::testing::ElementsAre;
using torch::Tensor;

// Of three parameters, the second is frozen.
class UnitGradientsTest : public ::testing::Test {
 protected:
  UnitGradientsTest() { open(); }

  void open() { gradients_.open(layout_, buffer_); }
  // The buffer's part for a parameter.
  Tensor completed(int parameter) const {
    const int64_t begin = layout_.offset_of(parameter);
    return buffer_.slice(0, begin, begin + unit_.numel_of(parameter));
  }

  const std::vector<Shape> shapes_{Shape{{2, 3}, {3, 1}}, Shape{{4}, {1}}, Shape{{5}, {1}}};
  const layout::UnitLayout unit_{{6, 4, 5}, /*ranks=*/2, /*shards=*/2};
  const layout::GradientLayout layout_{unit_, {1, 0, 1}};
  const Tensor buffer_ = torch::full({layout_.full_numel()}, -1.0);
  UnitGradients gradients_{shapes_, torch::kFloat32};
};

TEST_F(UnitGradientsTest, StoresTheFirstAndAddsTheOthers) {
  gradients_.write(2, torch::arange(5).to(torch::kFloat64));
  EXPECT_TRUE(torch::equal(completed(2), torch::arange(5.0)));
  gradients_.write(2, torch::ones({5}));
  EXPECT_TRUE(torch::equal(completed(2), torch::arange(5.0) + 1));
  EXPECT_THAT(gradients_.presence(), ElementsAre(kMissing, kLeftOut, kPresent));
  open();
  EXPECT_THAT(gradients_.presence(), ElementsAre(kMissing, kLeftOut, kMissing));
}

TEST_F(UnitGradientsTest, HasNoPlaceForOneThatNobodyWants) {
  EXPECT_FALSE(gradients_.has_place(1));
  EXPECT_FALSE(gradients_.place_of(1).defined());
}

TEST_F(UnitGradientsTest, IsHeldWhileAutogradHasWhatItWroteToItsPlace) {
  Tensor place = gradients_.place_of(0);
  EXPECT_EQ(place.const_data_ptr(), completed(0).const_data_ptr());
  EXPECT_FALSE(gradients_.place_of(0).defined());  // once is enough
  place.fill_(3);
  gradients_.write(0, place);
  EXPECT_TRUE(torch::equal(completed(0), torch::full({6}, 3.0)));
  EXPECT_TRUE(gradients_.held_by_autograd());
  place = Tensor();
  EXPECT_FALSE(gradients_.held_by_autograd());
}

TEST_F(UnitGradientsTest, AddsWhatCameWhileAutogradWroteToThePlace) {
  const Tensor place = gradients_.place_of(0);
  for (float value : {1.0f, 2.0f}) gradients_.write(0, torch::full({2, 3}, value));
  EXPECT_THAT(gradients_.presence(), ElementsAre(kMissing, kLeftOut, kMissing));
  EXPECT_TRUE(gradients_.has_late());
  place.fill_(4);
  gradients_.write(0, place);
  EXPECT_TRUE(torch::equal(completed(0), torch::full({6}, 7.0)));
  EXPECT_FALSE(gradients_.has_late());
}

TEST_F(UnitGradientsTest, KeepsLateOnesInTheirOrder) {
  gradients_.keep_late(2, torch::zeros({5}));
  gradients_.keep_late(0, torch::ones({2, 3}));
  open();  // they are the next one's
  const std::vector<LateGradient> late = gradients_.take_late();
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].parameter, 2);
  EXPECT_EQ(late[1].parameter, 0);
  EXPECT_FALSE(gradients_.has_late());
}

TEST(UnitGradientsAlone, StayWhereAutogradMadeThem) {
  const std::vector<Shape> shapes{Shape{{2, 3}, {3, 1}}};
  UnitGradients gradients(shapes, torch::kFloat32);
  gradients.open_alone();
  Tensor made = torch::rand({2, 3});
  const void* memory = made.const_data_ptr();
  gradients.write(0, std::move(made));
  EXPECT_EQ(gradients.take_kept(0).const_data_ptr(), memory);
  EXPECT_FALSE(gradients.take_kept(0).defined());
}

TEST(UnitGradientsAlone, AreCopiedWhereSomebodyElseHasThemOrTheyLieOtherwise) {
  const std::vector<Shape> shapes{Shape{{2, 3}, {3, 1}}};
  UnitGradients gradients(shapes, torch::kFloat32);
  const Tensor held = torch::rand({2, 3});
  gradients.open_alone();
  gradients.write(0, held);
  const Tensor kept = gradients.take_kept(0);
  EXPECT_NE(kept.const_data_ptr(), held.const_data_ptr());
  EXPECT_TRUE(torch::equal(kept, held));

  const Tensor transposed = torch::rand({3, 2});
  gradients.open_alone();
  gradients.write(0, transposed.t().clone(torch::MemoryFormat::Preserve));
  const Tensor laid_out = gradients.take_kept(0);
  EXPECT_THAT(laid_out.strides(), ElementsAre(3, 1));
  EXPECT_TRUE(torch::equal(laid_out, transposed.t()));
}

}  // namespace
}  // namespace fsdp::engine
