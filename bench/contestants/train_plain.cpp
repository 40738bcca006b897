// A training step without communication: the forward and backward pass of the plain model, and the fused AdamW kernel
// on a rank's share of the parameters. Ranks know nothing of each other, so after the first step the losses are no
// longer those of training.
#include <optional>
#include <utility>
#include <vector>

#include "training.h"

namespace {

using contestant::Json;

struct Arguments {
  contestant::Training training;
  int64_t ranks = 1;  // the share is one of so many
  int rank = 0;
};

// AdamW in fp32 on the first 1 / ranks of each parameter's elements, as mixed precision does it: where parameters have
// fewer bits, fp32 copies of that share are what is stepped.
class ShareOptimizer {
 public:
  ShareOptimizer(std::vector<torch::Tensor> parameters, int64_t ranks, double lr)
      : parameters_(std::move(parameters)), ranks_(ranks), lr_(lr) {
    for (const torch::Tensor& parameter : parameters_) {
      shares_.push_back(share_of(parameter.detach()).to(torch::kFloat32));
      first_moments_.push_back(torch::zeros_like(shares_.back()));
      second_moments_.push_back(torch::zeros_like(shares_.back()));
      steps_.push_back(torch::zeros({}));
    }
  }

  void step() {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& parameter : parameters_)
      gradients.push_back(share_of(parameter.grad()).to(torch::kFloat32));
    at::_foreach_add_(steps_, 1);
    at::_fused_adamw_(shares_, gradients, first_moments_, second_moments_, {}, steps_, lr_, /*beta1=*/0.9,
                      /*beta2=*/0.999, /*weight_decay=*/1e-2, /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].scalar_type() != torch::kFloat32) share_of(parameters_[i].detach()).copy_(shares_[i]);
      parameters_[i].mutable_grad().reset();
    }
  }

 private:
  torch::Tensor share_of(const torch::Tensor& tensor) const {
    return tensor.view({-1}).narrow(0, 0, (tensor.numel() + ranks_ - 1) / ranks_);
  }

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> shares_, first_moments_, second_moments_, steps_;
  int64_t ranks_;
  double lr_;
};

class PlainTraining {
 public:
  explicit PlainTraining(const Arguments& arguments)
      : batch_(contestant::make_batch(arguments.training, arguments.rank)),
        model_(contestant::load_model(arguments.training)),
        optimizer_(in_its_dtype(arguments), arguments.ranks, arguments.training.lr) {}

  double step() {
    auto loss = model_->loss(batch_.tokens, batch_.targets);
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }

 private:
  std::vector<torch::Tensor> in_its_dtype(const Arguments& arguments) {
    model_->to(contestant::dtype_of(arguments.training));
    return model_->parameters();
  }

  contestant::Batch batch_;
  std::shared_ptr<models::LanguageModel> model_;
  ShareOptimizer optimizer_;
};

void train(const Arguments& arguments) {
  contestant::Conversation conversation;
  std::optional<PlainTraining> training;
  conversation.answer({
      {"build",
       [&](const Json&) {
         training.emplace(arguments);
         return Json::object();
       }},
      {"steps",
       [&](const Json& command) {
         return contestant::take_steps(command.at("count"), [&] { return training->step(); });
       }},
      {"memory", [](const Json&) { return Json::object(); }},
      {"activations", [](const Json&) { return Json::object(); }},
  });
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  CLI::App app("A training step without communication, told over standard input what to do; see bench/README.md.");
  contestant::add_options(app, arguments.training);
  app.add_option("--ranks", arguments.ranks, "each rank steps on one of so many shares")->required();
  app.add_option("--rank", arguments.rank, "which tokens")->required();
  CLI11_PARSE(app, count, words);
  train(arguments);
}
