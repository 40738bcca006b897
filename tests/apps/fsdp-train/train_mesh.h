// Runs of fsdp-train on meshes of ranks, beside the run on one.
#pragma once

#include <string>

#include "apps/fsdp-train/train_program.h"

// A model whose parts have the bits of one process: a multiple of 16 wide (docs/parallelism.md).
class TrainMesh : public TrainProgram {
 protected:
  static constexpr const char* kGpt2 = "--width 64 --heads 4 --layers 4 --batch 1 --schedule constant ";
  // The model of scripts/quickstart.
  static constexpr const char* kQuickstart = "--width 96 --heads 4 --layers 4 --context 64 --batch 2 --lr 6e-3 ";
  static constexpr const char* kLlama =
      "--model llama-tiny --width 64 --heads 4 --key-value-heads 2 --mlp-width 128 --layers 4 --batch 1 "
      "--schedule constant ";

  // The program with this model, which has to succeed.
  void train(const std::string& run, const std::string& arguments) const {
    const Ending ending = tiny(run, arguments);
    ASSERT_EQ(ending.code, 0) << arguments << "\n" << ending.output;
  }
  std::vector<nlohmann::json> steps_of(const std::string& run) const { return reproducible_steps_of(folder_ / run); }
  std::string weights_of(const std::string& run) const {
    return read_bytes(folder_ / (run + "/model/model.safetensors"));
  }
  // Arguments of a mesh with 8 micro-batches per step.
  static std::string mesh(int data, int pipeline, int tensor) {
    return "--ranks " + std::to_string(data * pipeline * tensor) + " --pipeline-parallel " + std::to_string(pipeline) +
           " --tensor-parallel " + std::to_string(tensor) + " --micro-batches " + std::to_string(8 / data) + " ";
  }
};
