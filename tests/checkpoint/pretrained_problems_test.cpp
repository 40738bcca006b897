// Hugging Face files that do not fit a model change nothing of it, or what the caller allows; and what cannot be
// written.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "checkpoint/pretrained_model.h"
#include "checkpoint/safetensors.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using checkpoint::write_safetensors;
using fsdp::testing::message_of;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

TEST_F(Pretrained, AllThatDiffersIsToldAndNothingChanges) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    TensorsByName values = fill(*model, 1), other = values;
    other.erase("second.bias");
    other["second.weight"] = torch::ones({3, 21});
    other["first.bias"] = torch::ones({21}, torch::kInt32);
    other["norm.num_batches_tracked"] = torch::tensor(1.0);
    other["extra"] = torch::ones({1});
    on_rank0(world, [&] { write_safetensors(path("other.safetensors"), listed(other), {}); });
    auto sharded = shard(*model, world);
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("other.safetensors"), sharded); }),
                AllOf(HasSubstr(path("other.safetensors").string() + " holds another model"),
                      HasSubstr("second.bias is missing"), HasSubstr("extra is in the files and not in the model"),
                      HasSubstr("second.weight has shape [3, 21], expected [9, 21]"),
                      HasSubstr("first.bias is Int, which does not become the model's Float"),
                      HasSubstr("norm.num_batches_tracked is Float, which does not become the model's Long")));
    EXPECT_THAT(message_of<Error>(
                    [&] { load_pretrained(path("other.safetensors"), sharded, {.transposed = {"first.weight"}}); }),
                HasSubstr("first.weight has shape [21, 37], expected [37, 21], the model's transposed"));
    expect_state(sharded, values);
  });
}

TEST_F(Pretrained, AFileThatOneRankCannotReadIsAnErrorOnAll) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    auto sharded = shard(*model, world);
    save_pretrained(path("model"), sharded);
    const fs::path here = world.rank() == 0 ? path("model") : path("none");
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(here, sharded); }),
                AllOf(HasSubstr(path("none").string()), HasSubstr("model.safetensors")));
    world.barrier();
    on_rank0(world, [&] {
      const fs::path file = path("model/model.safetensors");
      fs::resize_file(file, fs::file_size(file) - 1);
    });
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("model"), sharded); }), HasSubstr("cut off"));
    expect_state(sharded, values);
  });
}

TEST_F(Pretrained, OptionsThatDoNotFitTheModelAreErrors) {
  run_ranks(1, [&](World& world) {
    SmallModel model;
    auto sharded = shard(*model, world);
    auto refusal = [&](const PretrainedOptions& options) {
      const std::string saving = message_of<Error>([&] { save_pretrained(path("model"), sharded, options); });
      const std::string loading = message_of<Error>([&] { load_pretrained(path("model"), sharded, options); });
      EXPECT_EQ(saving, loading);
      return saving;
    };
    EXPECT_THAT(refusal({.name_in_file = [](const std::string&) { return "one"; }}),
                HasSubstr("first.weight and first.bias: one"));
    EXPECT_THAT(refusal({.transposed = {"*wieght"}}), HasSubstr("'*wieght' of transposed matches no parameter"));
    EXPECT_THAT(refusal({.transposed = {"first.*"}}),
                HasSubstr("'transposed' matches first.bias: found shape [21], expected 2 dimensions"));
    EXPECT_THAT(refusal({.absent = {"none*"}}), HasSubstr("'none*' of absent matches no parameter"));
    EXPECT_FALSE(fs::exists(path("model")));
  });
}

TEST_F(Pretrained, OptionsThatFailOnOneRankAreAnErrorOnAll) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    auto sharded = shard(*model, world);
    const PretrainedOptions options{
        .name_in_file = [&](const std::string& name) { return world.rank() == 1 ? std::string("one") : name; }};
    const std::string saving = message_of<Error>([&] { save_pretrained(path("model"), sharded, options); });
    EXPECT_THAT(saving, HasSubstr("first.weight and first.bias: one"));
    if (world.rank() == 0) EXPECT_THAT(saving, HasSubstr("failed on rank 1"));
    world.barrier();
    EXPECT_FALSE(fs::exists(path("model")));
  });
}

TEST_F(Pretrained, AFullDiskIsAnErrorOnEveryRankAndLeavesTheOldFile) {
  run_rank_processes(2, [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    auto sharded = shard(*model, world);
    save_pretrained(path("model"), sharded);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit little = before;
    little.rlim_cur = 3000;  // room for the header and some of the tensors
    setrlimit(RLIMIT_FSIZE, &little);
    const std::string message = message_of<Error>([&] { save_pretrained(path("model"), sharded); });
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_THAT(message, AllOf(HasSubstr("model.safetensors"), HasSubstr("cannot be written")));
    world.barrier();
    EXPECT_EQ(std::distance(fs::directory_iterator(path("model")), {}), 1);
    load_pretrained(path("model"), sharded);
    expect_state(sharded, values);
  });
}

TEST_F(Pretrained, AFolderThatCannotBeMadeIsAnErrorOnEveryRank) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    auto sharded = shard(*model, world);
    EXPECT_THAT(message_of<Error>([&] { save_pretrained("/proc/none/model", sharded); }), HasSubstr("/proc/none"));
    auto scope = sharded.full_parameters();
    for (const auto& message : {message_of<Error>([&] { save_pretrained(path("model"), sharded); }),
                                message_of<Error>([&] { load_pretrained(path("model"), sharded); })}) {
      EXPECT_THAT(message, AllOf(HasSubstr("full_parameters"), Not(HasSubstr("none"))));
    }
  });
}

TEST_P(PretrainedOnRanks, WhatFitsIsReadWithStrictOff) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model(12);  // three rows more than the file has
    const TensorsByName before = fill(*model, 50);
    SmallModel nine;
    const TensorsByName values = fill(*nine, 1);
    TensorsByName in_file = values;
    in_file["other.weight"] = in_file.extract("first.bias").mapped();
    on_rank0(world, [&] { write_safetensors(path("other.safetensors"), listed(in_file), {}); });
    auto sharded = shard(*model, world);
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("other.safetensors"), sharded); }),
                AllOf(HasSubstr("first.bias is missing"), HasSubstr("other.weight is in the files"),
                      HasSubstr("second.weight has shape [9, 21], expected [12, 21]"), HasSubstr("with strict off")));
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("other.safetensors"), sharded, {.strict = false}); }),
                HasSubstr("Set .differences"));
    LoadDifferences found;
    load_pretrained(path("other.safetensors"), sharded, {.strict = false, .differences = &found});
    EXPECT_THAT(found.missing, ElementsAre("first.bias"));
    EXPECT_THAT(found.extra, ElementsAre("other.weight"));
    EXPECT_THAT(found.grown, ElementsAre("second.weight", "second.bias"));
    TensorsByName expected = values;
    expected["first.bias"] = before.at("first.bias");
    for (const char* name : {"second.weight", "second.bias"}) {
      expected[name] = torch::cat({values.at(name), before.at(name).slice(0, 9)});
    }
    expect_state(sharded, expected);
  });
}

TEST_P(PretrainedOnRanks, OtherShapesAreErrorsWithStrictOffToo) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model(9), twelve(12);
    const TensorsByName before = fill(*model, 50);
    auto larger = shard(*twelve, world), sharded = shard(*model, world);
    save_pretrained(path("larger"), larger);
    LoadDifferences found;
    EXPECT_THAT(
        message_of<Error>([&] { load_pretrained(path("larger"), sharded, {.strict = false, .differences = &found}); }),
        HasSubstr("second.weight has shape [12, 21], expected [9, 21]"));
    expect_state(sharded, before);
  });
}

TEST_P(PretrainedOnRanks, OfMoreRowsInTheFilesTheFirstAreLoadedWherePatternsSaySo) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model(9), twelve(12);
    const TensorsByName before = fill(*model, 50);
    TensorsByName expected = fill(*twelve, 1);
    auto larger = shard(*twelve, world), sharded = shard(*model, world);
    save_pretrained(path("larger"), larger);
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("larger"), sharded, {.first_rows = {"second.weight"}}); }),
                AllOf(HasSubstr("second.bias has shape [12], expected [9]"), Not(HasSubstr("second.weight"))));
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("larger"), sharded, {.first_rows = {"third.*"}}); }),
                HasSubstr("the pattern 'third.*' of first_rows matches no parameter"));
    expect_state(sharded, before);
    LoadDifferences found;
    load_pretrained(path("larger"), sharded, {.differences = &found, .first_rows = {"second.*"}});
    EXPECT_THAT(found.cut, ElementsAre("second.weight", "second.bias"));
    for (const char* name : {"second.weight", "second.bias"}) expected[name] = expected[name].slice(0, 0, 9).clone();
    expect_state(sharded, expected);
  });
}

}  // namespace
}  // namespace fsdp
