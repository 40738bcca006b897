// The fuzzer, by libFuzzer (https://llvm.org/docs/LibFuzzer.html). FSDP_FUZZ names the target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz/targets.h"

namespace {

void (*chosen)(std::string_view input) = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("FSDP_FUZZ");
  for (const auto& target : fsdp::fuzz::targets()) {
    if (name != nullptr && std::string_view(name) == target.name) chosen = target.run;
  }
  if (chosen != nullptr) return 0;
  std::fputs("FSDP_FUZZ names the target, one of:", stderr);
  for (const auto& target : fsdp::fuzz::targets()) std::fprintf(stderr, " %s", target.name);
  std::fputs("\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen({reinterpret_cast<const char*>(data), size});
  return 0;
}
