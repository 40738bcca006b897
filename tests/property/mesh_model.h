// A model for a mesh, drawn from a seed: blocks of a pipeline, with layers that are divided among ranks or whole, and
// one or several tensors between them.
#pragma once

#include <fsdp/fsdp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "property/random_source.h"

namespace fsdp::property {

// A line here, and one in mesh_model.cpp, puts a kind of block under test.
enum class MeshBlockKind {
  Words,    // tokens to vectors, with learned positions
  Pair,     // two linear layers behind a norm, with a residual connection
  Norm,     // a norm alone
  Dropout,  // no parameters
  Fork,     // one more tensor goes on, which needs gradients
  Mark,     // one more tensor goes on, which needs none: of bools or numbers
  Join,     // adds up the tensors that came
  Head,     // adds them up, and makes scores
};

struct MeshBlockSpec {
  MeshBlockKind kind = MeshBlockKind::Pair;
  bool divided = false;  // its layers, over the tensor axis
  bool bias = true;
  double dropout = 0;
  bool recomputed = false;  // on ranks, not in the oracle
  bool frozen = false;
  bool of_bools = false;  // a Mark's tensor
  bool bare = false;      // a Dropout, a Mark or a Join without parameters
  int64_t inner = 0;      // features between a pair
};

struct MeshModel {
  int parts = 1;  // of each divided layer
  int64_t vocabulary = 16, length = 4, width = 16;
  bool tied = false;  // the head to the words
  std::vector<MeshBlockSpec> blocks = {};

  // The name in one process. A copy of a tied weight has that of the first.
  std::string first_name_of(const std::string& parameter) const;
  std::string words() const;
};

struct MeshModelNeeds {
  int blocks = 1;         // at least
  bool measured = false;  // a norm of the gradients is taken, whose bits need wider parts (docs/determinism.md)
  bool sharded = false;   // each stage has parameters
};
MeshModel draw_mesh_model(RandomSource& random, int parts, const MeshModelNeeds& needs);

// With layers over `tensor`. Names: "block0", "block1". A tied head names the words in `shares`.
std::vector<PipelineBlock> pipeline_blocks(const MeshModel& model, const World& tensor);

// Switches gradients off in frozen blocks. `root` has the blocks as children, or some of them.
void freeze_blocks(const MeshModel& model, torch::nn::Module& root);

// Of the micro-batch of that number: tokens, [rows, length], and the tokens that are expected for them.
torch::Tensor tokens_for(const MeshModel& model, int64_t number);
torch::Tensor targets_for(const MeshModel& model, int64_t number);
torch::Tensor mesh_loss(const torch::Tensor& scores, const torch::Tensor& targets);

// All blocks in one module, for one process. A tied weight is one tensor.
class WholeModel {
 public:
  WholeModel(MeshModel model, const World& alone);
  // Scores of the micro-batch. Each block's random numbers are those of a pipeline's step of that number.
  torch::Tensor forward(const torch::Tensor& tokens, uint64_t step_number, int64_t micro_batch);

  std::shared_ptr<torch::nn::Module> root;

 private:
  std::vector<PipelineBlock> blocks_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
};

}  // namespace fsdp::property
