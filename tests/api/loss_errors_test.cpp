// Errors of linear_cross_entropy name what was found and what is expected.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <cmath>

#include "api/loss_cases.h"
#include "support/message_of.h"

namespace fsdp::loss_cases {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

TEST(LinearCrossEntropy, NamesTheTargetThatIsNoEntry) {
  const Inputs inputs = inputs_of();
  for (int64_t wrong : {kEntries, int64_t{-1}, int64_t{1} << 40}) {
    const Tensor targets = inputs.targets.clone();
    targets[1][3] = wrong;
    targets[2][0] = -100;
    EXPECT_THAT(
        message_of([&] { linear_cross_entropy(inputs.hidden, inputs.weight, targets); }),
        HasSubstr(fmt::format("found the target {} at [1, 3], expected 0 to 130, or ignore_index, -100", wrong)));
  }
}

TEST(LinearCrossEntropy, RefusesWhatItCannotTake) {
  const Inputs in = inputs_of();
  const auto message = [](const Tensor& hidden, const Tensor& weight, const Tensor& targets,
                          LinearCrossEntropyOptions options = {}) {
    return message_of([&] { linear_cross_entropy(hidden, weight, targets, options); });
  };
  EXPECT_THAT(message(in.hidden, in.weight[0], in.targets), HasSubstr("weight of shape [7]"));
  EXPECT_THAT(message(in.hidden, in.weight.slice(0, 0, 0), in.targets), HasSubstr("weight of shape [0, 7]"));
  EXPECT_THAT(message(in.hidden.slice(-1, 1), in.weight, in.targets), HasSubstr("[3, 5, 6], expected [..., 7]"));
  EXPECT_THAT(message(in.hidden.to(torch::kFloat32), in.weight, in.targets), HasSubstr("Float hidden states"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets.flatten()),
              HasSubstr("shape [15], expected Long of shape [3, 5]"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets.to(torch::kInt32)), HasSubstr("Int targets"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.label_smoothing = 1.5}), HasSubstr("label_smoothing 1.5"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.label_smoothing = NAN}), HasSubstr("label_smoothing nan"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.z_loss = -1}), HasSubstr("z_loss -1"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.chunk_bytes = 0}), HasSubstr("chunk_bytes 0"));
  EXPECT_THAT(message(in.hidden, in.weight, in.targets, {.gpu_chunk_bytes = 0}), HasSubstr("gpu_chunk_bytes 0"));
}

}  // namespace
}  // namespace fsdp::loss_cases
