#include "device/places.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace fsdp::testing::device {

namespace {

constexpr int kDeepest = 64;
constexpr size_t kLinesShown = 8;

using Frames = std::vector<void*>;

std::map<Frames, Place>& numbers() {
  static auto* all = new std::map<Frames, Place>;
  return *all;
}
std::vector<const Frames*>& frames_by_number() {
  static auto* all = new std::vector<const Frames*>{nullptr};
  return *all;
}

std::string without_arguments(std::string name) {
  const size_t end = name.find('(');
  return end == std::string::npos || end == 0 ? name : name.substr(0, end);
}

std::string name_of_function(const Dl_info& info, void* frame) {
  int status = -1;
  char* demangled = info.dli_sname != nullptr ? abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status) : nullptr;
  std::string name = demangled != nullptr ? without_arguments(demangled) : info.dli_sname != nullptr ? info.dli_sname : "";
  std::free(demangled);
  const auto offset = reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  char number[32];
  std::snprintf(number, sizeof number, "+0x%zx", static_cast<size_t>(offset));
  const char* file = std::strrchr(info.dli_fname, '/');
  return (name.empty() ? "" : name + "  ") + "[" + (file != nullptr ? file + 1 : info.dli_fname) + number + "]";
}

bool is_the_programs(const Dl_info& info) {
  for (const char* other : {"libtorch", "libc10", "libc.so", "libstdc++", "libgtest", "libgmock", "fsdp_test_device"})
    if (std::strstr(info.dli_fname, other) != nullptr) return false;
  return true;
}

}  // namespace

Place this_place() {
  std::array<void*, kDeepest> frames;
  const int depth = backtrace(frames.data(), kDeepest);
  const auto [found, is_new] =
      numbers().try_emplace(Frames(frames.begin(), frames.begin() + depth), static_cast<Place>(frames_by_number().size()));
  if (is_new) frames_by_number().push_back(&found->first);
  return found->second;
}

std::string text_of(Place place) {
  if (place == 0) return "";
  std::string text;
  size_t lines = 0;
  for (void* frame : *frames_by_number()[place]) {
    Dl_info info{};
    if (dladdr(frame, &info) == 0 || !is_the_programs(info) || lines++ == kLinesShown) continue;
    text += "      " + name_of_function(info, frame) + "\n";
  }
  return text.empty() ? "      (no function of the program)\n" : text;
}

}  // namespace fsdp::testing::device
