#include "doctor/build.h"

#include <fmt/format.h>
#include <fsdp/version.h>

#include <algorithm>

#include "console/units.h"
#include "tokenizers/hugging_face.h"
#include "tokenizers/sentencepiece.h"

namespace trainer {

namespace {

constexpr const char* kBuildAgain = "cmake --preset release &&\ncmake --build --preset release";

Finding program_finding(const Build& build) {
  Finding finding{.subject = "fsdp-train", .text = fmt::format("{}, built as {}", build.version, build.type)};
  const bool is_fast = build.type == "Release" || build.type == "RelWithDebInfo" || build.type == "MinSizeRel";
  if (is_fast) return finding;
  finding.verdict = Verdict::Note;
  finding.text += ", which checks more and takes longer";
  finding.mend = kBuildAgain;
  return finding;
}

Finding sentencepiece_finding(const Build& build) {
  if (build.sentencepiece_problem.empty()) return {.subject = "sentencepiece", .text = "built in"};
  return {.verdict = Verdict::Note,
          .subject = "sentencepiece",
          .text = fmt::format("tokenizers of this kind cannot be used: {}", build.sentencepiece_problem),
          .mend = fmt::format("sudo apt-get install libsentencepiece-dev &&\n{}", kBuildAgain)};
}

Finding tokenizers_finding(const Build& build) {
  if (build.has_tokenizers) return {.subject = "tokenizers", .text = "a Python with the package answers"};
  return {.verdict = Verdict::Note,
          .subject = "tokenizers",
          .text =
              "no Python with the package was found, and a tokenizer.json of Hugging Face needs one. FSDP_PYTHON "
              "names another Python",
          .mend = "python3 -m pip install tokenizers"};
}

Finding gloo_finding(const Build& build) {
  if (build.has_gloo) return {.subject = "gloo, hosts", .text = "built in: several hosts"};
  return {.verdict = Verdict::Note,
          .subject = "gloo, hosts",
          .text = "not built in: ranks of one host only",
          .mend = fmt::format("sudo apt-get install libgloo-dev &&\n{}", kBuildAgain)};
}

Finding gpu_finding(int64_t gpus, bool is_gpu_there) {
  if (gpus > 0) return {.subject = "GPUs", .text = fmt::format("{}: ranks compute there", counted(gpus, "GPU"))};
  if (!is_gpu_there) return {.subject = "GPUs", .text = "none: ranks compute on the CPU"};
  return {.verdict = Verdict::Note,
          .subject = "GPUs",
          .text =
              "there are NVIDIA's, and this LibTorch sees none: it is one for CPUs, CUDA_VISIBLE_DEVICES hides them, "
              "or the driver is older than its CUDA. docs/cuda.md says how to build for them"};
}

Finding nccl_finding(const Build& build, int64_t gpus) {
  if (build.has_nccl) return {.subject = "nccl", .text = "built in: GPUs of one host and of several"};
  if (gpus < 2) return {.subject = "nccl", .text = "not built in; it is for several GPUs"};
  return {.verdict = Verdict::Note,
          .subject = "nccl",
          .text = "not built in: GPUs exchange through the memory of the host. docs/cuda.md says how to build it"};
}

}  // namespace

Build read_build() {
  return {.version = FSDP_VERSION_STRING,
          .compiler = FSDP_COMPILER,
          .type = FSDP_BUILD_TYPE,
          .has_gloo = FSDP_WITH_GLOO != 0,
          .has_nccl = FSDP_WITH_NCCL != 0,
          .sentencepiece_problem = tokenizers::sentencepiece_problem(),
          .has_tokenizers = tokenizers::has_hugging_face()};
}

std::vector<Finding> version_findings(const Build& build) {
  return {program_finding(build),
          {.subject = "LibTorch", .text = build.torch_version},
          {.subject = "compiler", .text = build.compiler},
          sentencepiece_finding(build),
          tokenizers_finding(build)};
}

std::vector<Finding> backend_findings(const Build& build, int64_t gpus, bool is_gpu_there) {
  return {{.subject = "shm", .text = "ranks of one host"},
          gloo_finding(build),
          nccl_finding(build, gpus),
          gpu_finding(gpus, is_gpu_there)};
}

}  // namespace trainer
