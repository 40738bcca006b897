// A training step without communication: the forward and backward pass of the plain model, and the fused AdamW kernel
// on a rank's share of the parameters. Ranks know nothing of each other, so after the first step the losses are no
// longer those of training.
#include <optional>
#include <vector>

#include "share_optimizer.h"
#include "training.h"

namespace {

using contestant::Json;

struct Arguments {
  contestant::Training training;
  int64_t ranks = 1;  // the share is one of so many
  int rank = 0;
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
  contestant::ShareOptimizer optimizer_;
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
