#include "fuzz/targets.h"

#include <array>

namespace fsdp::fuzz {

std::span<const Target> targets() {
  static constexpr std::array<Target, 14> all = {{{"safetensors", run_safetensors},
                                                  {"manifest", run_manifest},
                                                  {"index", run_index},
                                                  {"torch_file", run_torch_file},
                                                  {"dcp_metadata", run_dcp_metadata},
                                                  {"model_config", run_model_config},
                                                  {"toml", run_toml},
                                                  {"tokens", run_tokens},
                                                  {"tokenizer", run_tokenizer},
                                                  {"plan_arguments", run_plan_arguments},
                                                  {"plan_config", run_plan_config},
                                                  {"plan_toml", run_plan_toml},
                                                  {"plan_list", run_plan_list},
                                                  {"hardware", run_hardware}}};
  return all;
}

}  // namespace fsdp::fuzz
