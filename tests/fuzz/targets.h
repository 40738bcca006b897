// The targets of a fuzzer: each reader of files that a stranger may have made, as a function of the file's bytes.
//
// A reader answers, or throws fsdp::Error. Any other exception, a signal, a finding of a sanitizer, much memory or a
// long time is a finding. scripts/fuzz looks for them; corpus_test.cpp tries the inputs that are kept, with every
// build.
#pragma once

#include <span>
#include <string_view>

namespace fsdp::fuzz {

struct Target {
  const char* name;  // of its folder in corpus/, too
  void (*run)(std::string_view input);
};
std::span<const Target> targets();

void run_safetensors(std::string_view input);
void run_manifest(std::string_view input);  // with the hash that it should have, so that the rest of it is read
void run_index(std::string_view input);
void run_torch_file(std::string_view input);
void run_dcp_metadata(std::string_view input);
void run_model_config(std::string_view input);
void run_toml(std::string_view input);
void run_tokens(std::string_view input);
void run_tokenizer(std::string_view input);
// Of fsdp-plan. A plan whose numbers are not finite, or below 0, is a finding, too.
void run_plan_arguments(std::string_view input);  // a word per line
void run_plan_config(std::string_view input);     // config.json
void run_plan_toml(std::string_view input);
void run_plan_list(std::string_view input);
void run_hardware(std::string_view input);

}  // namespace fsdp::fuzz
