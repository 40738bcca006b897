// Parts that all training programs share: the model that they were asked for, its weights and its tokens.
#pragma once

#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "conversation.h"
#include "models/language_model.h"

namespace contestant {

struct Training {
  models::ModelConfig model;
  int64_t batch = 4;           // sequences per rank, each as long as the model's context
  std::string dtype = "fp32";  // of the full parameters: fp32, bf16 or fp16
  std::string weights;         // a safetensors file with the parameters by name
  double lr = 3e-4;
};

void add_options(CLI::App& app, Training& training);

torch::ScalarType dtype_of(const Training& training);

// The model with the weights of the file, in fp32.
std::shared_ptr<models::LanguageModel> load_model(const Training& training);

struct Batch {
  torch::Tensor tokens, targets;  // [batch, context], int64
};
// One rank's, the same in every step: its loss falls, so that a wrong update shows.
Batch make_batch(const Training& training, int rank);

template <typename Operation>
double seconds_of(Operation&& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Takes `count` steps and answers with {"seconds": [...], "losses": [...]}. `step` returns the loss.
template <typename Step>
Json take_steps(int64_t count, Step&& step) {
  Json seconds = Json::array(), losses = Json::array();
  for (int64_t i = 0; i < count; ++i) {
    seconds.push_back(seconds_of([&] { losses.push_back(step()); }));
  }
  return {{"seconds", seconds}, {"losses", losses}};
}

}  // namespace contestant
