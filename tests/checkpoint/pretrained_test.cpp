// Hugging Face files become a model's values, and a model becomes such a file.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <fstream>

#include "checkpoint/pretrained_model.h"
#include "checkpoint/safetensors.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using checkpoint::read_safetensors;
using checkpoint::write_safetensors;
using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

INSTANTIATE_TEST_SUITE_P(Ranks, PretrainedOnRanks, drawn<int>({3}, {1, 2}), ::testing::PrintToStringParamName());

TEST_P(PretrainedOnRanks, WhatIsSavedIsThePlainModelAndComesBack) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model, other;
    const TensorsByName values = fill(*model, 1);
    fill(*other, 50);
    auto sharded = shard(*model, world), loaded = shard(*other, world);
    save_pretrained(path("model"), sharded);
    save_pretrained(path("model"), sharded);  // replaces
    const TensorsByName saved = read_safetensors(path("model/model.safetensors"));
    EXPECT_EQ(saved.size(), values.size());
    for (const auto& [name, tensor] : values) EXPECT_TRUE(torch::equal(tensor, saved.at(name))) << name;
    EXPECT_EQ(std::distance(fs::directory_iterator(path("model")), {}), 1);

    load_pretrained(path("model"), loaded);
    expect_state(loaded, values);
    load_pretrained(path("model/model.safetensors"), sharded);  // the file itself
    expect_state(sharded, values);
  });
}

TEST_P(PretrainedOnRanks, FilesOfOtherNamesAndTransposedMatricesAreRead) {
  const PretrainedOptions options = {
      .name_in_file = [](const std::string& name) { return name.starts_with("first") ? "body." + name : name; },
      .optional_prefix = "body.",
      .transposed = {"*first.weight"},
      .ignored = {"*mask"}};
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model;
    TensorsByName values = fill(*model, 1), in_file = values;
    in_file["first.weight"] = values["first.weight"].t().contiguous();  // without the prefix
    in_file["body.first.bias"] = in_file.extract("first.bias").mapped();
    in_file["some.mask"] = torch::ones({3}, torch::kBool);
    on_rank0(world, [&] { write_safetensors(path("other.safetensors"), listed(in_file), {}); });
    fill(*model, 50);
    auto sharded = shard(*model, world);
    load_pretrained(path("other.safetensors"), sharded, options);
    expect_state(sharded, values);

    save_pretrained(path("saved"), sharded, options);
    const TensorsByName saved = read_safetensors(path("saved/model.safetensors"));
    EXPECT_TRUE(torch::equal(saved.at("body.first.weight"), values["first.weight"].t()));
    EXPECT_TRUE(torch::equal(saved.at("body.first.bias"), values["first.bias"]));
    EXPECT_TRUE(torch::equal(saved.at("filter.weight"), values["filter.weight"]));
  });
}

TEST_P(PretrainedOnRanks, SeveralFilesBehindAnIndexAreOneModel) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    on_rank0(world, [&] {
      fs::create_directories(path("sharded"));
      checkpoint::NamedTensors parts[2];
      std::string map;
      for (const auto& [name, tensor] : values) {
        const size_t part = parts[0].size() <= parts[1].size() ? 0 : 1;
        parts[part].emplace_back(name, tensor);
        map += fmt::format("{}\"{}\":\"part-{}.safetensors\"", map.empty() ? "" : ",", name, part);
      }
      for (size_t part : {0, 1}) {
        write_safetensors(path(fmt::format("sharded/part-{}.safetensors", part)), parts[part], {});
      }
      std::ofstream(path("sharded/model.safetensors.index.json"))
          << R"({"metadata":{"total_size":1},"weight_map":{)" << map << "}}";
    });
    fill(*model, 50);
    auto sharded = shard(*model, world);
    load_pretrained(path("sharded"), sharded);
    expect_state(sharded, values);
    load_pretrained(path("sharded/model.safetensors.index.json"), sharded);
    expect_state(sharded, values);
  });
}

TEST_F(Pretrained, EveryFloatingDtypeBecomesTheMasters) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    for (auto type : {torch::kFloat16, torch::kBFloat16, torch::kFloat64}) {
      TensorsByName converted = values;
      for (auto& [name, tensor] : converted) {
        if (tensor.is_floating_point()) tensor = tensor.to(type);
      }
      const fs::path file = path(std::string(toString(type)) + ".safetensors");
      on_rank0(world, [&] { write_safetensors(file, listed(converted), {}); });
      SmallModel other;
      fill(*other, 50);
      auto sharded = shard(*other, world, {.mixed_precision = {.param_dtype = torch::kBFloat16, .keep = {"norm"}}});
      load_pretrained(file, sharded);
      expect_state(sharded, values);
    }
  });
}

// module->to(dtype) converts buffers of whole numbers as well: num_batches_tracked.
TEST_F(Pretrained, AModuleThatWasConvertedAsAWholeIsFilled) {
  run_ranks(2, [&](World& world) {
    for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
      SmallModel model;
      TensorsByName values = fill(*model, 1);
      values["norm.num_batches_tracked"] = torch::tensor(int64_t{257});
      const fs::path file = path(std::string(toString(dtype)) + ".safetensors");
      on_rank0(world, [&] { write_safetensors(file, listed(values), {}); });
      SmallModel converted;
      fill(*converted, 50);
      converted->to(dtype);
      EXPECT_EQ(converted->norm->num_batches_tracked.scalar_type(), dtype);
      auto sharded = shard(*converted, world);
      load_pretrained(file, sharded);
      expect_state(sharded, values);  // rounded, as module->to rounds
      save_pretrained(path("saved"), sharded);
      load_pretrained(path("saved"), sharded);
      expect_state(sharded, values);
      world.barrier();
    }
  });
}

TEST_F(Pretrained, StrategiesThatHoldTheModelSeveralTimesSaveItOnce) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    auto sharded = shard(*model, world, {.strategy = Strategy::NoShard});
    save_pretrained(path("model"), sharded);
    {
      auto scope = sharded.full_parameters();
      torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.zero_();
    }
    load_pretrained(path("model"), sharded);
    expect_state(sharded, values);
  });
}

TEST_F(Pretrained, WhatIsLoadedIsWhatTheModelComputesWith) {
  run_ranks(2, [&](World& world) {
    SmallModel model, plain;
    fill(*plain, 3);
    auto source = shard(*plain, world);
    save_pretrained(path("model"), source);
    fill(*model, 1);
    auto sharded = shard(*model, world);
    const torch::Tensor input = torch::ones({2, 37});
    EXPECT_FALSE(torch::equal(model->first(input), plain->first(input)));
    load_pretrained(path("model"), sharded);
    EXPECT_TRUE(torch::equal(model->first(input), plain->first(input)));
  });
}

TEST_P(PretrainedOnRanks, ParametersThatTheFilesDoNotHaveStayAsTheyAre) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    auto sharded = shard(*model, world);
    save_pretrained(path("part"), sharded, {.absent = {"first.*"}});
    const TensorsByName saved = read_safetensors(path("part/model.safetensors"));
    EXPECT_EQ(saved.size(), values.size() - 2);
    EXPECT_FALSE(saved.contains("first.weight"));

    SmallModel other;
    TensorsByName expected = fill(*other, 50);
    for (const auto& [name, tensor] : saved) expected[name] = tensor;
    auto loaded = shard(*other, world);
    load_pretrained(path("part"), loaded, {.absent = {"first.*"}});
    expect_state(loaded, expected);
    // A tensor that is there although the options say otherwise is left over.
    save_pretrained(path("whole"), sharded);
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("whole"), loaded, {.absent = {"first.*"}}); }),
                HasSubstr("first.weight is in the files and not in the model"));
  });
}

TEST_P(PretrainedOnRanks, OtherValuesAreWrittenInPlaceOfAParameter) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model;
    const TensorsByName values = fill(*model, 1);
    auto sharded = shard(*model, world);
    const auto written = [](const std::string& name, const PretrainedOptions::Whole& whole) {
      return name == "first.weight" ? whole(name) + whole("first.bias").unsqueeze(1) : torch::Tensor();
    };
    save_pretrained(path("written"), sharded, {.transposed = {"first.weight"}, .written = written});
    const TensorsByName saved = read_safetensors(path("written/model.safetensors"));
    EXPECT_TRUE(
        torch::equal(saved.at("first.weight").t(), values.at("first.weight") + values.at("first.bias").unsqueeze(1)));
    EXPECT_TRUE(torch::equal(saved.at("first.bias"), values.at("first.bias")));
    expect_state(sharded, values);  // the model's own have not changed

    const auto wrong_shape = [](const std::string&, const PretrainedOptions::Whole&) { return torch::ones({1}); };
    EXPECT_THAT(message_of<Error>([&] { save_pretrained(path("wrong"), sharded, {.written = wrong_shape}); }),
                HasSubstr("the shape [1], expected"));
    const auto wrong_name = [](const std::string&, const PretrainedOptions::Whole& whole) { return whole("none"); };
    EXPECT_THAT(message_of<Error>([&] { save_pretrained(path("wrong"), sharded, {.written = wrong_name}); }),
                HasSubstr("reads none, which is not a parameter of unit"));
    world.barrier();
    EXPECT_FALSE(fs::exists(path("wrong/model.safetensors")));
  });
}

}  // namespace
}  // namespace fsdp
