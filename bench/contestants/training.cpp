#include "training.h"

#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "checkpoint/safetensors.h"

namespace contestant {
namespace {

const std::map<std::string, torch::ScalarType> kDtypes = {
    {"fp32", torch::kFloat32}, {"bf16", torch::kBFloat16}, {"fp16", torch::kFloat16}};
const std::map<std::string, models::Family> kFamilies = {{"gpt2", models::Family::Gpt2},
                                                         {"llama", models::Family::Llama}};

}  // namespace

void add_options(CLI::App& app, Training& training) {
  app.add_option("--vocabulary", training.model.vocabulary)->required();
  app.add_option("--context", training.model.context)->required();
  app.add_option("--width", training.model.width)->required();
  app.add_option("--layers", training.model.layers)->required();
  app.add_option("--heads", training.model.heads)->required();
  app.add_option("--family", training.model.family)->transform(CLI::Transformer(kFamilies));
  app.add_option("--batch", training.batch, "sequences a rank")->required();
  app.add_option("--weights", training.weights, "a safetensors file")->required();
  app.add_option("--dtype", training.dtype, "of the full parameters")->check(CLI::IsMember(kDtypes));
  app.add_option("--lr", training.lr, "of AdamW");
}

torch::ScalarType dtype_of(const Training& training) { return kDtypes.at(training.dtype); }

std::shared_ptr<models::LanguageModel> load_model(const Training& training) {
  auto model = models::make_model(training.model);
  const auto weights = fsdp::checkpoint::read_safetensors(training.weights);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) parameter.value().copy_(weights.at(parameter.key()));
  return model;
}

Batch make_batch(const Training& training, int rank) {
  constexpr uint64_t kSeed = 1000;  // as in peer/train.py
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(kSeed + static_cast<uint64_t>(rank));
  const torch::Tensor windows =
      torch::randint(training.model.vocabulary, {training.batch, training.model.context + 1}, generator, torch::kInt64);
  return {.tokens = windows.narrow(1, 0, training.model.context).contiguous(),
          .targets = windows.narrow(1, 1, training.model.context).contiguous()};
}

}  // namespace contestant
