// Readers of tensors: checkpoints, Hugging Face's files, and PyTorch's.
#include "checkpoint/manifest.h"
#include "checkpoint/pretrained_files.h"
#include "checkpoint/safetensors.h"
#include "formats/dcp_metadata.h"
#include "formats/source.h"
#include "formats/torch_file.h"
#include "fsdp/error.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "support/sealed_manifest.h"

namespace fsdp::fuzz {

void run_safetensors(std::string_view input) try {
  const InputFile file(input);
  const checkpoint::SafetensorsFile tensors(file.path());
  for (const auto& entry : tensors.entries()) tensors.read(entry);
} catch (const Error&) {
}

void run_manifest(std::string_view input) try {
  static const InputFolder folder(checkpoint::kManifestName);
  constexpr std::string_view kBeginning = "{\n  \"hash\": \"";
  std::string text(input);
  if (text.starts_with(kBeginning) && text.size() > kBeginning.size() + files::kHashDigits)
    text = sealed_manifest(text);
  folder.replace(text);
  formats::open_checkpoint(folder.path());
} catch (const Error&) {
}

void run_index(std::string_view input) try {
  static const InputFolder folder(checkpoint::kIndexName);
  static const bool made = [] {
    checkpoint::write_safetensors(folder.path() / "a.safetensors", {{"a", torch::ones({2})}}, {});
    checkpoint::write_safetensors(folder.path() / "b.safetensors", {{"b", torch::ones({2})}}, {});
    return true;
  }();
  if (made) folder.replace(input);
  const checkpoint::PretrainedFiles pretrained(folder.path());
} catch (const Error&) {
}

void run_torch_file(std::string_view input) try {
  const InputFile input_file(input);
  const files::OpenFile file = files::open_regular(input_file.path(), "input");
  const formats::TorchFile torch_file(file, 0, file.bytes, "input");
  for (const auto& tensor : torch_file.tensors()) torch_file.read(tensor);
} catch (const Error&) {
}

void run_dcp_metadata(std::string_view input) try {
  formats::parse_dcp_metadata(std::string(input), "input");
} catch (const Error&) {
}

}  // namespace fsdp::fuzz
