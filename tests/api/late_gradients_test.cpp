// Temporary: which gradients of a GAN count as late.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "support/gan.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using testing_models::Gan;

TEST(LateGradients, OfAGanWhosePhasesAlternateAreNotCounted) {
  testing::run_ranks(2, [](World& world) {
    Gan gan;
    auto generator = shard(*gan.generator, world), discriminator = shard(*gan.discriminator, world);
    AdamW first(generator, {.lr = 1e-2}), second(discriminator, {.lr = 1e-2});
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t b = step * world.size() + world.rank();
      const auto before = discriminator.communication();
      gan.discriminator_loss(b).backward();
      const auto middle = discriminator.communication();
      second.step();
      second.zero_grad();
      gan.generator_loss(b).backward();
      first.step();
      first.zero_grad();
      second.zero_grad();
      const auto of_first = middle.since(before), of_second = discriminator.communication().since(middle);
      std::cerr << "step " << step << " D phase: reductions " << of_first.reductions << " late "
                << of_first.late_gradients << "; G phase: reductions " << of_second.reductions << " late "
                << of_second.late_gradients << "\n";
    }
    EXPECT_EQ(discriminator.communication().late_gradients, 0);
  });
}

}  // namespace
}  // namespace fsdp
