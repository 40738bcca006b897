#include "options/synonyms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/option_value.h"

namespace trainer {
namespace {

// Flags as users of Hugging Face's Trainer, nanoGPT, llm.c, DeepSpeed, Megatron and torchrun type them.
const std::vector<std::string> kTyped = {"--per_device_train_batch_size",
                                         "--gradient_accumulation_steps",
                                         "--learning_rate",
                                         "--num_train_epochs",
                                         "--max_steps",
                                         "--warmup_steps",
                                         "--lr_scheduler_type",
                                         "--max_grad_norm",
                                         "--output_dir",
                                         "--save_steps",
                                         "--save_total_limit",
                                         "--logging_steps",
                                         "--eval_steps",
                                         "--bf16",
                                         "--fp16",
                                         "--resume_from_checkpoint",
                                         "--model_name_or_path",
                                         "--train_file",
                                         "--validation_file",
                                         "--optim",
                                         "--adam_beta1",
                                         "--adam_epsilon",
                                         "--max_iters",
                                         "--block_size",
                                         "--n_layer",
                                         "--n_head",
                                         "--n_embd",
                                         "--grad_clip",
                                         "--out_dir",
                                         "--eval_interval",
                                         "--eval_iters",
                                         "--log_interval",
                                         "--min_lr",
                                         "--batch_size",
                                         "--dataset",
                                         "--dtype",
                                         "--max_new_tokens",
                                         "--zero_stage",
                                         "--deepspeed",
                                         "--nproc_per_node",
                                         "--nproc-per-node",
                                         "--micro-batch-size",
                                         "--seq-length",
                                         "--num-layers",
                                         "--hidden-size",
                                         "--num-attention-heads",
                                         "--train-iters",
                                         "--global-batch-size",
                                         "--vocab_size"};

TEST(Synonyms, OfFlagsAreOptionsOfOurs) {
  for (const std::string& flag : kTyped) {
    const std::string meant = flag_meant(flag);
    const size_t space = meant.find(' ');
    const Row* row = row_of(meant.substr(0, space));
    ASSERT_NE(row, nullptr) << flag << " means '" << meant << "'";
    if (space == std::string::npos) continue;
    AllOptions options;
    EXPECT_EQ(assign(*row, options, scalar_of(*row, meant.substr(space + 1))), "") << meant;
  }
}

TEST(Synonyms, AreNoFlagsOfOurs) {
  for (const Row& row : option_rows()) EXPECT_EQ(flag_meant(row.flag), "") << row.flag;
}

TEST(Synonyms, OfFlagsTakeAnySpelling) {
  for (const char* flag : {"--batch-size", "--batch_size", "-batch_size", "--Batch-Size"}) {
    EXPECT_EQ(flag_meant(flag), "--batch");
  }
  EXPECT_EQ(flag_meant("--colour"), "");
}

TEST(Synonyms, OfValuesAreAmongThoseAllowed) {
  const std::vector<const char*> strategies = {"full-shard", "shard-grad-op", "shard-optimizer", "no-shard"};
  EXPECT_EQ(value_meant("zero3", strategies), "full-shard");
  EXPECT_EQ(value_meant("ZeRO-2", strategies), "shard-grad-op");
  EXPECT_EQ(value_meant("FULL_SHARD", strategies), "full-shard");
  EXPECT_EQ(value_meant("ful-shard", strategies), "full-shard");
  EXPECT_EQ(value_meant("bfloat16", strategies), "");
  EXPECT_EQ(value_meant("adam", {"adamw", "muon"}), "adamw");
  EXPECT_EQ(value_meant("none", strategies), "");
}

TEST(Synonyms, OfCommands) {
  EXPECT_EQ(command_meant("generate"), "sample");
  EXPECT_EQ(command_meant("tokenize"), "prepare");
  EXPECT_EQ(command_meant("trian"), "train");
  EXPECT_EQ(command_meant("nothing-like-it"), "");
}

}  // namespace
}  // namespace trainer
