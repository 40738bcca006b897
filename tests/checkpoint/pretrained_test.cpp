// Hugging Face files become a model's values and a model becomes such a file; what does not fit changes nothing.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "checkpoint/safetensors.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using checkpoint::read_safetensors;
using checkpoint::write_safetensors;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

using Tensors = std::map<std::string, torch::Tensor>;

// Matrices whose memory is row by row and otherwise, buffers of floating and of whole numbers, pieces that end within
// a row on any number of ranks.
struct SmallModelImpl : torch::nn::Module {
  explicit SmallModelImpl(int64_t outputs = 9)
      : first(register_module("first", torch::nn::Linear(37, 21))),
        second(register_module("second", torch::nn::Linear(21, outputs))),
        filter(register_module("filter", torch::nn::Conv2d(3, 5, 3))),
        norm(register_module("norm", torch::nn::BatchNorm1d(21))) {
    torch::NoGradGuard no_grad;
    filter->weight.set_data(filter->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }
  torch::nn::Linear first, second;
  torch::nn::Conv2d filter;
  torch::nn::BatchNorm1d norm;
};
TORCH_MODULE(SmallModel);

// Parameters and buffers, each with values of its own; 16 bits hold them exactly.
Tensors fill(torch::nn::Module& module, double offset) {
  torch::NoGradGuard no_grad;
  Tensors values;
  auto fill_one = [&](const std::string& name, torch::Tensor tensor) {
    tensor.copy_((torch::arange(tensor.numel()) % 97).view(tensor.sizes()) + offset);
    values[name] = tensor.clone();
    ++offset;
  };
  for (auto& named : module.named_parameters()) fill_one(named.key(), named.value());
  for (auto& named : module.named_buffers()) fill_one(named.key(), named.value());
  return values;
}

checkpoint::NamedTensors listed(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

void expect_state(ShardedModel& sharded, const Tensors& expected) {
  const NamedTensors state = sharded.full_state();
  EXPECT_EQ(state.size(), expected.size());
  for (const auto& [name, tensor] : state) {
    EXPECT_TRUE(torch::equal(tensor, expected.at(name).to(tensor.scalar_type()))) << name;
  }
}

// Runs on rank 0; all ranks wait for it.
template <typename Body>
void on_rank0(World& world, Body body) {
  if (world.rank() == 0) body();
  world.barrier();
}

class Pretrained : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_.path() / name; }

 private:
  ScratchDirectory directory_;
};

class PretrainedOnRanks : public Pretrained, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PretrainedOnRanks, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

TEST_P(PretrainedOnRanks, WhatIsSavedIsThePlainModelAndComesBack) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model, other;
    const Tensors values = fill(*model, 1);
    fill(*other, 50);
    auto sharded = shard(*model, world), loaded = shard(*other, world);
    save_pretrained(path("model"), sharded);
    save_pretrained(path("model"), sharded);  // replaces
    const Tensors saved = read_safetensors(path("model/model.safetensors"));
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
    Tensors values = fill(*model, 1), in_file = values;
    in_file["first.weight"] = values["first.weight"].t().contiguous();  // without the prefix
    in_file["body.first.bias"] = in_file.extract("first.bias").mapped();
    in_file["some.mask"] = torch::ones({3}, torch::kBool);
    on_rank0(world, [&] { write_safetensors(path("other.safetensors"), listed(in_file), {}); });
    fill(*model, 50);
    auto sharded = shard(*model, world);
    load_pretrained(path("other.safetensors"), sharded, options);
    expect_state(sharded, values);

    save_pretrained(path("saved"), sharded, options);
    const Tensors saved = read_safetensors(path("saved/model.safetensors"));
    EXPECT_TRUE(torch::equal(saved.at("body.first.weight"), values["first.weight"].t()));
    EXPECT_TRUE(torch::equal(saved.at("body.first.bias"), values["first.bias"]));
    EXPECT_TRUE(torch::equal(saved.at("filter.weight"), values["filter.weight"]));
  });
}

TEST_P(PretrainedOnRanks, SeveralFilesBehindAnIndexAreOneModel) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model;
    const Tensors values = fill(*model, 1);
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
    const Tensors values = fill(*model, 1);
    for (auto type : {torch::kFloat16, torch::kBFloat16, torch::kFloat64}) {
      Tensors converted = values;
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

TEST_F(Pretrained, StrategiesThatHoldTheModelSeveralTimesSaveItOnce) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    const Tensors values = fill(*model, 1);
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

TEST_F(Pretrained, AllThatDiffersIsToldAndNothingChanges) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    Tensors values = fill(*model, 1), other = values;
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
    const Tensors values = fill(*model, 1);
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

TEST_P(PretrainedOnRanks, ParametersThatTheFilesDoNotHaveStayAsTheyAre) {
  run_ranks(GetParam(), [&](World& world) {
    SmallModel model;
    const Tensors values = fill(*model, 1);
    auto sharded = shard(*model, world);
    save_pretrained(path("part"), sharded, {.absent = {"first.*"}});
    const Tensors saved = read_safetensors(path("part/model.safetensors"));
    EXPECT_EQ(saved.size(), values.size() - 2);
    EXPECT_FALSE(saved.contains("first.weight"));

    SmallModel other;
    Tensors expected = fill(*other, 50);
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
    const Tensors values = fill(*model, 1);
    auto sharded = shard(*model, world);
    const auto written = [](const std::string& name, const PretrainedOptions::Whole& whole) {
      return name == "first.weight" ? whole(name) + whole("first.bias").unsqueeze(1) : torch::Tensor();
    };
    save_pretrained(path("written"), sharded, {.transposed = {"first.weight"}, .written = written});
    const Tensors saved = read_safetensors(path("written/model.safetensors"));
    EXPECT_TRUE(
        torch::equal(saved.at("first.weight").t(), values.at("first.weight") + values.at("first.bias").unsqueeze(1)));
    EXPECT_TRUE(torch::equal(saved.at("first.bias"), values.at("first.bias")));
    expect_state(sharded, values);  // the model's own have not changed

    const auto wrong_shape = [](const std::string&, const PretrainedOptions::Whole&) { return torch::ones({1}); };
    EXPECT_THAT(message_of<Error>([&] { save_pretrained(path("wrong"), sharded, {.written = wrong_shape}); }),
                HasSubstr("the shape [1], expected"));
    const auto wrong_name = [](const std::string&, const PretrainedOptions::Whole& whole) { return whole("none"); };
    EXPECT_THAT(message_of<Error>([&] { save_pretrained(path("wrong"), sharded, {.written = wrong_name}); }),
                HasSubstr("asks for none, which is no parameter of unit"));
    world.barrier();
    EXPECT_FALSE(fs::exists(path("wrong/model.safetensors")));
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
                HasSubstr("first.weight and first.bias one name, one"));
    EXPECT_THAT(refusal({.transposed = {"*wieght"}}), HasSubstr("'*wieght' of transposed matches no parameter"));
    EXPECT_THAT(refusal({.transposed = {"first.*"}}),
                HasSubstr("first.bias is to be transposed and has shape [21], expected 2 dimensions"));
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
    EXPECT_THAT(saving, HasSubstr("first.weight and first.bias one name, one"));
    if (world.rank() == 0) EXPECT_THAT(saving, HasSubstr("failed on rank 1"));
    world.barrier();
    EXPECT_TRUE(fs::is_empty(path("model")));
  });
}

TEST_F(Pretrained, AFullDiskIsAnErrorOnEveryRankAndLeavesTheOldFile) {
  run_ranks(2, [&](World& world) {
    SmallModel model;
    const Tensors values = fill(*model, 1);
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
    const Tensors before = fill(*model, 50);
    SmallModel nine;
    const Tensors values = fill(*nine, 1);
    Tensors in_file = values;
    in_file["other.weight"] = in_file.extract("first.bias").mapped();
    on_rank0(world, [&] { write_safetensors(path("other.safetensors"), listed(in_file), {}); });
    auto sharded = shard(*model, world);
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("other.safetensors"), sharded); }),
                AllOf(HasSubstr("first.bias is missing"), HasSubstr("other.weight is in the files"),
                      HasSubstr("second.weight has shape [9, 21], expected [12, 21]"), HasSubstr("with strict off")));
    EXPECT_THAT(message_of<Error>([&] { load_pretrained(path("other.safetensors"), sharded, {.strict = false}); }),
                HasSubstr("set .differences"));
    LoadDifferences found;
    load_pretrained(path("other.safetensors"), sharded, {.strict = false, .differences = &found});
    EXPECT_THAT(found.missing, ElementsAre("first.bias"));
    EXPECT_THAT(found.extra, ElementsAre("other.weight"));
    EXPECT_THAT(found.grown, ElementsAre("second.weight", "second.bias"));
    Tensors expected = values;
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
    const Tensors before = fill(*model, 50);
    auto larger = shard(*twelve, world), sharded = shard(*model, world);
    save_pretrained(path("larger"), larger);
    LoadDifferences found;
    EXPECT_THAT(
        message_of<Error>([&] { load_pretrained(path("larger"), sharded, {.strict = false, .differences = &found}); }),
        HasSubstr("second.weight has shape [12, 21], expected [9, 21]"));
    expect_state(sharded, before);
  });
}

}  // namespace
}  // namespace fsdp
